#!/bin/bash

4 * 40GiB two programs on one machine

Install what is needed

pip install -r needed.txt

--- 找一个空闲端口 ---

free_port() {
python3 -c 'import socket; s=socket.socket(); s.bind(("", 0)); print(s.getsockname()[1]); s.close()'
}

推理服务的端口

export HTTP_AT=$(free_port)
echo "port: $HTTP_AT"

export ENGINE_PORT=$(python3 -c 'import socket; s=socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')

MASTER_ADDR=127.0.0.1
MASTER_PORT=$ENGINE_PORT
MAX_PIXELS=262144
CUDA_VISIBLE_DEVICES=3
swift rollout
--model /models/base
--port $HTTP_AT
--host 127.0.0.1
--vllm_tensor_parallel_size 1 &
sleep 90

MASTER_PORT=$(echo $CLUSTER_PORTS | cut -d ',' -f 2)
MAX_PIXELS=262144
CUDA_VISIBLE_DEVICES=0,1,2
NPROC_PER_NODE=3
swift rlhf
--rlhf_type grpo
--model /models/base
--use_vllm true
--vllm_mode server
--vllm_server_host 127.0.0.1
--vllm_server_port $HTTP_AT
--per_device_train_batch_size 4
--num_generations 8
--deepspeed zero2
