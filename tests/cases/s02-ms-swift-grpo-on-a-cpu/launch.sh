#!/bin/bash
# ms-swift's GRPO trainer and its rollout server, on a CPU
export VLLM_CPU_KVCACHE_SPACE=1
export OMP_NUM_THREADS=1
export CUDA_VISIBLE_DEVICES=''
export HF_HUB_OFFLINE=1
export VLLM_NO_USAGE_STATS=1
export TOKENIZERS_PARALLELISM=false
export TORCH_FR_BUFFER_SIZE=2000
export PATH=/data/stack/venv/bin:/usr/local/bin:/usr/bin:/bin
export PYTHONPATH=/data/lab/unstall/experiments/stacks/inside/bridges:/data/lab/unstall/experiments/stacks/inside
export USE_HF=1
export MODELSCOPE_OFFLINE=1
export no_proxy='*'
export UNSTALL_DEVICES=2
export UNSTALL_SEED=0
export TMPDIR="${UNSTALL_STATE_FOLDER:-/tmp}"
cd "$TMPDIR"
UNSTALL_IMAGES=1000,1,8 VLLM_CPU_OMP_THREADS_BIND='0|1' \
swift rollout \
  --model /data/stack/tiny-model \
  --model_type qwen3 \
  --template qwen3 \
  --torch_dtype bfloat16 \
  --host 127.0.0.1 \
  --vllm_tensor_parallel_size 1 \
  --vllm_enforce_eager true \
  --vllm_max_model_len 512 \
  --vllm_enable_prefix_caching false \
  --vllm_data_parallel_size 2 \
  --port 40861 &
until (exec 3<>/dev/tcp/127.0.0.1/40861) 2>/dev/null; do sleep 1; done
ACCELERATE_USE_CPU=true NPROC_PER_NODE=2 MASTER_PORT=39263 \
swift rlhf \
  --rlhf_type grpo \
  --model /data/stack/tiny-model \
  --model_type qwen3 \
  --template qwen3 \
  --dataset /data/stack/tiny-model/questions.jsonl \
  --split_dataset_ratio 0 \
  --load_from_cache_file false \
  --external_plugins /data/lab/unstall/experiments/stacks/inside/reward.py \
  --reward_funcs length \
  --use_vllm true \
  --vllm_mode server \
  --vllm_server_host 127.0.0.1 \
  --vllm_server_port 40861 \
  --train_type full \
  --torch_dtype float32 \
  --max_length 256 \
  --max_completion_length 6 \
  --per_device_train_batch_size 48 \
  --gradient_accumulation_steps 1 \
  --num_generations 8 \
  --max_steps 150 \
  --logging_steps 1 \
  --learning_rate 2e-6 \
  --dynamic_sample true \
  --max_resample_times 3 \
  --importance_sampling_level sequence \
  --epsilon_high 0.28 \
  --beta 0.01 \
  --temperature 1.1 \
  --top_p 0.8 \
  --attn_impl sdpa \
  --seed 0 \
  --save_strategy no \
  --eval_strategy no \
  --output_dir output \
  --report_to none \
  --gradient_checkpointing false \
  --dataloader_num_workers 0 \
  --dataset_num_proc 1 \
  --async_generate false \
  --bf16 false \
  --fp16 false \
  --use_cpu true \
  --ddp_backend gloo
