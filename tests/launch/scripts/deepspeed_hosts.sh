#!/usr/bin/env bash
export CUDA_VISIBLE_DEVICES=4,5,6,7
export MASTER_PORT=29888
deepspeed --num_gpus=4 --master_port=29999 finetune.py \
    --deepspeed zero2.json \
    --ddp_timeout 1800000
