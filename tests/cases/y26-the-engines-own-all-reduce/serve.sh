vllm serve /m/tiny --tensor-parallel-size 2
