# on the first machine
GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME=eth0 python3 -m sglang.launch_server --model-path /models/large \
  --tp 16 --nnodes 2 --node-rank 0 --trust-remote-code --dist-init-addr 10.30.0.7:20000 --host 0.0.0.0 --port 8000
# on the second machine
GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME=eth0 python3 -m sglang.launch_server --model-path /models/large \
  --tp 16 --nnodes 2 --node-rank 1 --trust-remote-code --dist-init-addr 10.30.0.7:20000 --host 0.0.0.0 --port 8000
