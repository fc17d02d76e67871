"""Ports, addresses and sizes among the environment variables that vLLM reads.

Source: vLLM 0.8 to 0.13 ``vllm/envs.py``. Only variables of these kinds are listed, since only for
them a name that vLLM does not know is worth telling; any other ``VLLM_`` variable is taken as read.
"""

from __future__ import annotations

KNOWN = frozenset(
    (
        "VLLM_PORT",
        "VLLM_HOST_IP",
        "VLLM_LOOPBACK_IP",
        "VLLM_DP_RANK",
        "VLLM_DP_RANK_LOCAL",
        "VLLM_DP_SIZE",
        "VLLM_DP_MASTER_IP",
        "VLLM_DP_MASTER_PORT",
        "VLLM_NIXL_SIDE_CHANNEL_HOST",
        "VLLM_NIXL_SIDE_CHANNEL_PORT",
        "VLLM_MOONCAKE_BOOTSTRAP_PORT",
        "VLLM_RPC_TIMEOUT",
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE",
        "VLLM_ENGINE_ITERATION_TIMEOUT_S",
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS",
        "VLLM_ENGINE_READY_TIMEOUT_S",
        "VLLM_IMAGE_FETCH_TIMEOUT",
        "VLLM_VIDEO_FETCH_TIMEOUT",
        "VLLM_AUDIO_FETCH_TIMEOUT",
        "VLLM_NIXL_ABORT_REQUEST_TIMEOUT",
        "VLLM_TOOL_PARSE_REGEX_TIMEOUT_SECONDS",
        "VLLM_RAY_PER_WORKER_GPUS",
    )
)
_KINDS = ("PORT", "ADDR", "HOST", "IP", "TIMEOUT", "RANK", "WORLD", "SIZE")


def may_read(name: str) -> bool:
    """Whether vLLM reads the variable, as far as is known."""
    return name in KNOWN or not any(part in _KINDS for part in name.split("_"))
