docker run --gpus '"device=2,3"' --rm -e NCCL_DEBUG=INFO -v $PWD:/w --shm-size=512m image:1 \
  bash -c 'cd /w && torchrun --nproc_per_node=4 train.py'
