"""Ports, addresses, time-outs and sizes among the environment variables that vLLM reads.

Source: ``vllm/envs.py`` of vLLM 0.8.0, 0.8.5, 0.9.0 to 0.14.0 and 0.16.0 to 0.33.0. Only variables
of these kinds are listed, since only for them a name that vLLM does not know is worth telling; any
other ``VLLM_`` variable is taken as read.
"""

from __future__ import annotations

from unstall.programs.groups import version_key, within

KNOWN: dict[str, tuple[str | None, str | None]] = {
    "VLLM_AUDIO_FETCH_TIMEOUT": (None, None),
    "VLLM_CHAT_TEMPLATE_RENDER_TIMEOUT": ("0.32.0", None),
    "VLLM_DEEPEP_BUFFER_SIZE_MB": ("0.11.0", None),
    "VLLM_DP_MASTER_IP": (None, None),
    "VLLM_DP_MASTER_PORT": (None, None),
    "VLLM_DP_RANK": (None, None),
    "VLLM_DP_RANK_LOCAL": ("0.8.5", None),
    "VLLM_DP_SIZE": (None, None),
    "VLLM_EC_SIDE_CHANNEL_HOST": ("0.26.0", None),
    "VLLM_EC_SIDE_CHANNEL_PORT": ("0.26.0", None),
    "VLLM_ENABLE_MOE_ALIGN_BLOCK_SIZE_TRITON": (None, "0.9.2"),
    "VLLM_ENGINE_ITERATION_TIMEOUT_S": (None, "0.32.0"),
    "VLLM_ENGINE_READY_TIMEOUT_S": ("0.14.0", None),
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": ("0.9.2", None),
    "VLLM_FASTSAFETENSORS_QUEUE_SIZE": ("0.24.0", None),
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE": ("0.11.1", None),
    "VLLM_FUSED_MOE_CHUNK_SIZE": (None, "0.18.0"),
    "VLLM_HOST_IP": (None, None),
    "VLLM_HTTP_MAX_REQUEST_BODY_SIZE": ("0.33.0", None),
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": ("0.9.1", None),
    "VLLM_IMAGE_FETCH_TIMEOUT": (None, None),
    "VLLM_LOOPBACK_IP": ("0.10.0", None),
    "VLLM_MAX_MEDIA_DOWNLOAD_SIZE_MB": ("0.29.0", None),
    "VLLM_MAX_MEDIA_REQUEST_DOWNLOAD_SIZE_MB": ("0.33.0", None),
    "VLLM_MEDIA_CACHE_MAX_SIZE_MB": ("0.20.0", None),
    "VLLM_MOE_DP_CHUNK_SIZE": ("0.9.2", "0.20.0"),
    "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": ("0.13.0", None),
    "VLLM_MOONCAKE_BOOTSTRAP_PORT": ("0.13.0", None),
    "VLLM_MOONCAKE_CONNECTOR_TIMEOUT": ("0.31.0", None),
    "VLLM_MORIIO_POST_BATCH_SIZE": ("0.14.0", "0.23.0"),
    "VLLM_NIXL_ABORT_REQUEST_TIMEOUT": ("0.10.0", "0.22.0"),
    "VLLM_NIXL_SIDE_CHANNEL_HOST": ("0.9.0", None),
    "VLLM_NIXL_SIDE_CHANNEL_PORT": ("0.9.0", None),
    "VLLM_P2P_HANDSHAKE_TIMEOUT_S": ("0.32.0", None),
    "VLLM_P2P_IDLE_TIMEOUT_S": ("0.32.0", None),
    "VLLM_P2P_SIDE_CHANNEL_HOST": ("0.26.0", None),
    "VLLM_P2P_SIDE_CHANNEL_PORT": ("0.26.0", None),
    "VLLM_PORT": (None, None),
    "VLLM_RAY_PER_WORKER_GPUS": (None, None),
    "VLLM_REGEX_COMPILATION_TIMEOUT_S": ("0.24.0", None),
    "VLLM_ROCM_QUICK_REDUCE_MAX_SIZE_BYTES_MB": ("0.9.2", None),
    "VLLM_ROCM_QUICK_REDUCE_MIN_SIZE_BYTES_MB": ("0.22.0", None),
    "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION_MIN_SIZE_KB": ("0.22.0", None),
    "VLLM_ROCM_SLEEP_MEM_CHUNK_SIZE": ("0.11.1", None),
    "VLLM_RPC_TIMEOUT": (None, "0.23.0"),
    "VLLM_TOOL_PARSE_REGEX_TIMEOUT_SECONDS": ("0.9.1", None),
    "VLLM_V1_OUTPUT_PROC_CHUNK_SIZE": (None, None),
    "VLLM_VIDEO_FETCH_TIMEOUT": (None, None),
    "VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS": ("0.24.0", None),
}
"""Name to the first version that has it (of those read; ``None``: all) and the first without it."""

_KINDS = ("PORT", "ADDR", "HOST", "IP", "TIMEOUT", "RANK", "WORLD", "SIZE")
_MORE = ("VLLM_MORIIO_", "VLLM_MORI_", "VLLM_ROCM_", "VLLM_SNAPSHOT_", "VLLM_NIXL_", "VLLM_P2P_")
"""Prefixes of a platform's or connector's own variables, which are read beside ``envs.py``."""


def may_read(name: str, version: str | None = None) -> bool:
    """Whether vLLM reads the variable, as far as is known; any version's where it is unknown."""
    found = KNOWN.get(name)
    if found is None:
        return name.startswith(_MORE) or not any(part in _KINDS for part in name.split("_"))
    return version_key(version) is None or within(version, *found)
