#!/bin/bash
CUDA_VISIBLE_DEVICES=0 vllm serve /m/judge-14b --port 8200 --gpu-memory-utilization 0.8 > judge.log 2>&1 &
CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 grpo.py --judge http://localhost:8200
