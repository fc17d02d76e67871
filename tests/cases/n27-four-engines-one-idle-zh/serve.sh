vllm serve /models/chat-14b --data-parallel-size 4 --port 8100
