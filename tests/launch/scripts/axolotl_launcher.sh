export CUDA_VISIBLE_DEVICES=0,1
export MASTER_PORT=29777
axolotl train qlora.yml --launcher accelerate -- --num_processes 4
