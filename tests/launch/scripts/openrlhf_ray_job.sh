set -x
ray start --head --node-ip-address 0.0.0.0 --num-gpus 8

export NCCL_DEBUG=INFO
ray job submit --address="http://127.0.0.1:8265" \
   --runtime-env-json='{"working_dir": "/work", "env_vars": {"NCCL_CUMEM_ENABLE": "0"}}' \
   -- python3 -m openrlhf.cli.train_ppo_ray \
   --ref_num_nodes 1 \
   --ref_num_gpus_per_node 2 \
   --actor_num_nodes 1 \
   --actor_num_gpus_per_node 2 \
   --vllm_num_engines 2 \
   --vllm_tensor_parallel_size 2 \
   --colocate_actor_ref \
   --micro_train_batch_size 8 \
   --n_samples_per_prompt 4 \
   --zero_stage 3 \
   --bf16
