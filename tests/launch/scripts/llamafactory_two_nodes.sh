# node 0 (here) and node 1 (over ssh)
FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=0 NPROC_PER_NODE=8 MASTER_ADDR=10.20.0.4 MASTER_PORT=29501 llamafactory-cli train sft_lora.yaml &
ssh worker-b "cd /work && FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=1 NPROC_PER_NODE=8 MASTER_ADDR=10.20.0.4 MASTER_PORT=29501 llamafactory-cli train sft_lora.yaml" &
wait
