#!/bin/bash
NNODES=${WORLD_SIZE:-1}
NODE_RANK=${RANK:-0}
MASTER_ADDR=$(getent hosts $MASTER_HOST | awk '{print $1}' || echo localhost)
PORT=$((20000 + RANDOM % 10000))
torchrun --nnodes=2 --nproc-per-node=8 --node-rank=$RANK \
    --master-addr=$MASTER_ADDR --master-port=$PORT \
    train.py --fsdp full_shard
