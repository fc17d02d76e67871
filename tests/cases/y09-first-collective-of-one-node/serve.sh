vllm serve /models/tiny --tensor-parallel-size 2
