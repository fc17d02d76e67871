#!/bin/bash
# FSDP2 on a CPU, torch alone
export PATH=/opt/venv/bin:$PATH
export PYTHONPATH=/home/user/src/unstall/experiments/stacks/inside/bridges${PYTHONPATH:+:$PYTHONPATH}
export CUDA_VISIBLE_DEVICES=
export OMP_NUM_THREADS=1
export TORCH_FR_BUFFER_SIZE=2000
export UNSTALL_RANKS=trainer
cd "${UNSTALL_STATE_FOLDER:-$(mktemp -d)}"
torchrun --standalone --nproc-per-node 2 \
  /home/user/src/unstall/experiments/stacks/inside/train.py \
  --samples 321 \
  --batch-size 8 \
  --epochs 2 \
  --seed 0
