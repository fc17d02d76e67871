#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --gpus-per-task=4

nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
first=${nodes[0]}
addr=$(srun --nodes=1 --ntasks=1 -w "$first" hostname --ip-address)
srun torchrun --nnodes 2 --nproc_per_node 4 --rdzv_id 7 --rdzv_backend c10d --rdzv_endpoint "$addr:29500" pretrain.py
