CUDA_VISIBLE_DEVICES=0,1 trl vllm-serve --model /models/mid --tensor-parallel-size 2 --port 8100 &
until curl -sf http://127.0.0.1:8100/health/; do sleep 2; done
export http_proxy=http://proxy.example:3128
CUDA_VISIBLE_DEVICES=2,3 accelerate launch --num_processes 2 --main_process_port 29610 grpo.py \
  --use_vllm True --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000 \
  --num_generations 6 --per_device_train_batch_size 6
wait
