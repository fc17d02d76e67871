"""Names of the environment variables that vLLM reads (vLLM 0.8 to 0.13 ``vllm/envs.py``)."""

KNOWN = frozenset(
    ["VLLM_PORT", "VLLM_HOST_IP", "VLLM_DP_RANK", "VLLM_DP_SIZE", "VLLM_DP_MASTER_IP", "VLLM_DP_MASTER_PORT"]
)
