#!/bin/bash
CUDA_VISIBLE_DEVICES=4,5,6,7 trl vllm-serve --model /models/r1-7b --tensor_parallel_size 4 --port 8000 &
CUDA_VISIBLE_DEVICES=0,1,2,3 accelerate launch --num_processes 4 grpo.py \
    --model_name_or_path /models/r1-7b --use_vllm true --vllm_mode server \
    --max_completion_length 32768 --num_generations 16
