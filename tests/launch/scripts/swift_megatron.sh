NPROC_PER_NODE=8 \
NNODES=2 \
NODE_RANK=1 \
MASTER_ADDR=127.0.0.1 \
MASTER_PORT=29655 \
CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 \
megatron sft \
    --load /models/mcore \
    --tensor_model_parallel_size 4 \
    --pipeline_model_parallel_size 3 \
    --micro_batch_size 1
