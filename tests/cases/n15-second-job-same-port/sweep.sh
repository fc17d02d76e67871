CUDA_VISIBLE_DEVICES=0,1 deepspeed --master_port 41000 train.py --lr 1e-5 &
CUDA_VISIBLE_DEVICES=2,3 deepspeed --master_port 41000 train.py --lr 5e-5 &
wait
