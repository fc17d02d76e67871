#!/bin/bash
# TRL's GRPO trainer and its vLLM server, on a CPU
export VLLM_CPU_KVCACHE_SPACE=1
export OMP_NUM_THREADS=1
export CUDA_VISIBLE_DEVICES=''
export HF_HUB_OFFLINE=1
export VLLM_NO_USAGE_STATS=1
export TOKENIZERS_PARALLELISM=false
export TORCH_FR_BUFFER_SIZE=2000
export PATH=/data/stack/venv/bin:/usr/local/bin:/usr/bin:/bin
export PYTHONPATH=/data/lab/unstall/experiments/stacks/inside/bridges:/data/lab/unstall/experiments/stacks/inside
export no_proxy='*'
export TORCH_COMPILE_DISABLE=1
export UNSTALL_DEVICES=2
export UNSTALL_SEED=0
export UNSTALL_GROUP_PORT=30032
export TMPDIR="${UNSTALL_STATE_FOLDER:-/tmp}"
cd "$TMPDIR"
UNSTALL_IMAGES=2000,1,1 VLLM_CPU_OMP_THREADS_BIND='0|1' \
trl vllm-serve \
  --model /data/stack/tiny-model \
  --dtype bfloat16 \
  --host 127.0.0.1 \
  --port 20097 \
  --tensor_parallel_size 1 \
  --data_parallel_size 2 \
  --max_model_len 512 \
  --enforce_eager true &
server=$!
until (exec 3<>/dev/tcp/127.0.0.1/20097) 2>/dev/null; do
  kill -0 $server || exit 1
  sleep 1
done
ACCELERATE_USE_CPU=true \
torchrun --nproc_per_node=2 \
  --master_port=20986 /data/lab/unstall/experiments/stacks/inside/trl_grpo.py \
  --model_name_or_path /data/stack/tiny-model \
  --dataset /data/stack/tiny-model/questions.jsonl \
  --use_vllm true \
  --vllm_mode server \
  --vllm_server_host 127.0.0.1 \
  --vllm_server_port 20097 \
  --per_device_train_batch_size 48 \
  --gradient_accumulation_steps 1 \
  --num_generations 8 \
  --max_prompt_length 256 \
  --max_completion_length 6 \
  --max_steps 150 \
  --logging_steps 1 \
  --learning_rate 2e-6 \
  --seed 0 \
  --save_strategy no \
  --report_to none \
  --output_dir output \
  --gradient_checkpointing false \
  --bf16 false \
  --use_cpu true \
  --ddp_backend gloo
