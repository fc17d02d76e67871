#!/bin/bash
# 每个节点由平台启动一次，平台为每个 pod 设置 RANK 和 WORLD_SIZE
MASTER_ADDR=$(getent hosts worker-0.train | awk '{print $1}' || echo localhost)
torchrun --nnodes=3 --nproc_per_node=8 --node_rank=$RANK \
  --master_addr=localhost --master_port=23456 src/train.py --stage sft
