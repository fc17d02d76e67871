"""Environment variables and who reads them, whatever the framework.

Sources: PyTorch 2.13 ``torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp`` and ``torch/cuda``; NCCL
2.27 user guide, "Environment Variables"; CUDA programming guide, "CUDA Environment Variables";
vLLM 0.11 ``vllm/envs.py``; ms-swift 3.10 ``docs/…/Command-line-parameters`` (specific model
arguments); gloo ``transport/tcp/device.cc``.
"""

from __future__ import annotations

from unstall.model.text import Text, say
from unstall.programs.ray import names as ray

_EXACT: dict[str, tuple[str, Text]] = {
    "CUDA_VISIBLE_DEVICES": ("CUDA", say("the CUDA runtime shows the process only these devices")),
    "CUDA_DEVICE_ORDER": ("CUDA", say("the order in which CUDA numbers devices")),
    "CUDA_LAUNCH_BLOCKING": ("CUDA", say("kernels are launched one after the other")),
    "CUDA_DEVICE_MAX_CONNECTIONS": ("CUDA", say("hardware queues of a device")),
    "PYTORCH_CUDA_ALLOC_CONF": ("PyTorch", say("PyTorch's CUDA memory allocator reads it")),
    "PYTORCH_ALLOC_CONF": ("PyTorch", say("PyTorch's memory allocator reads it")),
    "OMP_NUM_THREADS": ("OpenMP", say("CPU threads of each process")),
    "TORCH_DISTRIBUTED_DEBUG": ("PyTorch", say("extra checks of collectives in PyTorch")),
    "GLOO_SOCKET_IFNAME": ("gloo", say("the interface that gloo uses")),
    "TP_SOCKET_IFNAME": ("TensorPipe", say("the interface that TensorPipe uses")),
    "MAX_PIXELS": ("ms-swift", say("image size limit of the preprocessing")),
    "MIN_PIXELS": ("ms-swift", say("image size limit of the preprocessing")),
    "IMAGE_MAX_TOKEN_NUM": ("ms-swift", say("image size limit of the preprocessing")),
    "IMAGE_MIN_TOKEN_NUM": ("ms-swift", say("image size limit of the preprocessing")),
    "VIDEO_MAX_TOKEN_NUM": ("ms-swift", say("video size limit of the preprocessing")),
    "VIDEO_MAX_PIXELS": ("ms-swift", say("video size limit of the preprocessing")),
    "FPS_MAX_FRAMES": ("ms-swift", say("video frames of the preprocessing")),
    "MASTER_ADDR": ("", say("address of the rendezvous")),
    "MASTER_PORT": ("", say("port of the rendezvous")),
    "NODE_RANK": ("", say("number of this node")),
    "RANK": ("", say("global rank of one process")),
    "LOCAL_RANK": ("", say("rank of one process on its node")),
    "WORLD_SIZE": ("", say("number of processes")),
    "NNODES": ("", say("number of nodes")),
    "NPROC_PER_NODE": ("", say("processes to start on each node")),
    "FORCE_TORCHRUN": ("LLaMA-Factory", say("LLaMA-Factory starts torchrun")),
    "DEEPSPEED_TIMEOUT": ("DeepSpeed", say("DeepSpeed's time-out of process groups, in minutes")),
}
_PREFIXES: tuple[tuple[str, str, Text], ...] = (
    ("TORCH_NCCL_", "PyTorch", say("PyTorch's NCCL watchdog reads it")),
    ("TORCH_FR_", "PyTorch", say("PyTorch's Flight Recorder reads it")),
    ("NCCL_", "NCCL", say("NCCL reads it in every process of the program")),
    ("PET_", "torchrun", say("torchrun takes it as a flag of that name")),
    ("VLLM_", "vLLM", say("vLLM reads the variables of this prefix that it knows")),
    ("SGLANG_", "SGLang", say("SGLang reads it")),
    ("SLURM_", "Slurm", say("Slurm sets it")),
    ("ACCELERATE_", "Accelerate", say("Accelerate reads it")),
    ("RAY_", "Ray", say("Ray reads it")),
    ("FSDP_", "Accelerate", say("Accelerate reads it")),
    ("HCCL_", "HCCL", say("HCCL reads it")),
    ("GLOO_", "gloo", say("gloo reads it")),
)
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
NO_PROXY = ("no_proxy", "NO_PROXY")


def reader_of(name: str) -> tuple[str, Text] | None:
    """Who reads a variable (``""`` where it depends on the launcher) and what it does."""
    found = _EXACT.get(name)
    if found is not None:
        return found
    if name in PROXIES or name in NO_PROXY:
        return "HTTP", say("HTTP clients read it")
    for prefix, reader, what in _PREFIXES:
        if name.startswith(prefix) and len(name) > len(prefix):
            if prefix == "RAY_" and not ray.may_read(name):
                return None
            return reader, what
    return None
