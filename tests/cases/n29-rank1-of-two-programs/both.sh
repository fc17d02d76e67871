CUDA_VISIBLE_DEVICES=4,5 vllm serve /models/judge-7b --tensor-parallel-size 2 --port 9000 &
sleep 60
CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc_per_node 4 --master_port 29611 rl/train.py --reward_url http://127.0.0.1:9000/v1
