#!/bin/bash
# vLLM's data-parallel engines on a CPU, each with a front end that submits requests
export VLLM_CPU_KVCACHE_SPACE=1
export OMP_NUM_THREADS=1
export CUDA_VISIBLE_DEVICES=''
export HF_HUB_OFFLINE=1
export VLLM_NO_USAGE_STATS=1
export TOKENIZERS_PARALLELISM=false
export TORCH_FR_BUFFER_SIZE=2000
export VLLM_CPU_OMP_THREADS_BIND='0|1'
export PYTHONPATH=/data/lab/unstall/experiments/stacks/inside/bridges
exec /data/stack/venv/bin/python -u /data/lab/unstall/experiments/stacks/inside/engines.py --model /data/stack/tiny-model --steps 300 --engines 2 --prompts 6 --generations 8 --tokens 5 --kilopixels 1000 --spread 1 --pause 0 --seed 0
