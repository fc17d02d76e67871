#!/bin/bash
# One box of 8 GPUs: a rollout server on two of them, the GRPO trainer on the others.
set -e

pick_port() {
    python3 -c 'import socket; s=socket.socket(); s.bind(("", 0)); print(s.getsockname()[1]); s.close()'
}
export ROLLOUT_PORT=$(pick_port)

CUDA_VISIBLE_DEVICES=2,3 \
MASTER_PORT=29611 \
MAX_PIXELS=401408 \
swift rollout \
    --model /models/vl-4b-sft \
    --host 127.0.0.1 \
    --port $ROLLOUT_PORT \
    --vllm_tensor_parallel_size 1 \
    --vllm_data_parallel_size 2 &

sleep 150

CUDA_VISIBLE_DEVICES=0,1,4,5,6,7 \
NPROC_PER_NODE=6 \
MASTER_PORT=29500 \
MAX_PIXELS=1003520 \
swift rlhf \
    --rlhf_type grpo \
    --model /models/vl-4b-sft \
    --dataset /data/charts_grpo.jsonl \
    --use_vllm true \
    --vllm_mode server \
    --vllm_server_host 127.0.0.1 \
    --vllm_server_port $ROLLOUT_PORT \
    --max_completion_length 96 \
    --per_device_train_batch_size 8 \
    --num_generations 8 \
    --dynamic_sample true \
    --deepspeed zero3 \
    --output_dir /out/charts
