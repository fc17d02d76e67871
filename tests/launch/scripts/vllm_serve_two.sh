#!/bin/bash
start() {
    local device=$1 port=$2
    CUDA_VISIBLE_DEVICES=$device vllm serve /models/small --port $port --tensor-parallel-size 1 \
        > log_$port.txt 2>&1 &
}
for i in 0 1; do
    start $i $((8000 + i))
done
CUDA_VISIBLE_DEVICES=1 python -m vllm.entrypoints.openai.api_server --model /models/other --port 8001 &
wait
