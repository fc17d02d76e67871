export NCCL_SOCKET_IFNAME=^lo,docker,veth
export GLOO_SOCKET_IFNAME=^lo,docker,veth
vllm serve /models/moe-120b --tensor-parallel-size 8 --pipeline-parallel-size 2 --distributed-executor-backend ray
