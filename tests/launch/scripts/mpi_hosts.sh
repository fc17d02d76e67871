export NCCL_IB_GID_INDEX=3
mpirun -np 8 -H gpu-a:4,gpu-b:4 -x MASTER_ADDR=gpu-a -x MASTER_PORT=29444 -x NCCL_SOCKET_IFNAME=ib0 \
    --bind-to none python3 train.py --steps 10
