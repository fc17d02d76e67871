#!/bin/bash
# Pre-training on one node

export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_EACH=8
MASTER_ADDR=localhost
MASTER_PORT=6000
NODES=1
NODE_RANK=0
WORLD_SIZE=$(($GPUS_EACH*$NODES))

CHECKPOINTS=$1
DATA=$2

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_EACH
    --nnodes $NODES
    --node_rank $NODE_RANK
    --master_addr $MASTER_ADDR
    --master_port $MASTER_PORT
)
MODEL_ARGS=(
    --num-layers 24 # small
    --hidden-size 1024
)
PARALLEL_ARGS=(
	--tensor-model-parallel-size 2
	--pipeline-model-parallel-size 4
)
TRAIN_ARGS=(
    --micro-batch-size 2
    --global-batch-size 64
    --distributed-timeout-minutes 60
)

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    ${PARALLEL_ARGS[@]} \
    ${TRAIN_ARGS[@]} \
    --data-path $DATA --load $CHECKPOINTS
