export CUDA_DEVICE_MAX_CONNECTIONS=8
torchrun --nproc_per_node 4 pretrain_gpt.py --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 \
  --num-layers 32 --micro-batch-size 2 --global-batch-size 64 --train-iters 1000
