"""What frames of torch.distributed, NCCL, gloo and the device runtimes tell.

Sources: torch 2.13 (``distributed_c10d.py``, ``rendezvous.py``; native names of
``libtorch``); NCCL 2 and the CUDA runtime (exported names). Rows that were checked on
running processes say ``run``.
"""

from __future__ import annotations

from unstall.stacks.rows import PRIMITIVE, FrameSign

COLLECTIVES = (
    "all_reduce",
    "all_reduce_coalesced",
    "all_gather",
    "all_gather_object",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_gather_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reduce_scatter_single",
    "scatter",
    "scatter_object_list",
    "_all_gather_base",
    "_reduce_scatter_base",
    "_coalescing_manager",
)
POINT_TO_POINT = (
    "send",
    "recv",
    "isend",
    "irecv",
    "batch_isend_irecv",
    "send_object_list",
    "recv_object_list",
)
_C10D = "torch/distributed/distributed_c10d.py"

SIGNS: tuple[FrameSign, ...] = (
    # torch.distributed
    FrameSign(COLLECTIVES, _C10D, "collective", source="torch 2.13, distributed_c10d.py (run)"),
    FrameSign(POINT_TO_POINT, _C10D, "point-to-point", source="torch 2.13, distributed_c10d.py"),
    FrameSign(
        ("_store_based_barrier", "_new_process_group_helper", "_get_default_store"),
        _C10D,
        "store",
        source="torch 2.13, distributed_c10d.py: waits until every rank has come",
    ),
    FrameSign(
        (
            "_create_c10d_store",
            "_rendezvous_helper",
            "_env_rendezvous_handler",
        ),
        "torch/distributed/rendezvous.py",
        "store",
        source="torch 2.13, rendezvous.py: connects to the TCPStore",
    ),
    FrameSign(
        ("get_all", "synchronize", "barrier", "_barrier_nonblocking", "store_timeout"),
        "torch/distributed/elastic/utils/store.py",
        "store",
        source="torch 2.13, elastic/utils/store.py",
    ),
    FrameSign(
        ("all_reduce", "all_gather_tensor", "reduce_scatter_tensor", "wait_tensor"),
        "torch/distributed/_functional_collectives.py",
        "collective",
        source="torch 2.13, _functional_collectives.py",
    ),
    # native frames: torch, NCCL, gloo, CUDA
    FrameSign(
        ("getNcclComm", "broadcastUniqueNCCLID", "getNCCLComm", "initNCCLComm"),
        "",
        "store",
        native=True,
        source="torch 2.13, ProcessGroupNCCL.cpp: waits for rank 0's ncclUniqueId",
    ),
    FrameSign(
        ("doGet", "doWait", "waitForWorkers", "doWaitForWorkers"),
        "",
        "store",
        native=True,
        source="torch 2.13, TCPStore.cpp",
    ),
    FrameSign(
        ("synchronizeInternal", "synchronizeStream"),
        "",
        "collective",
        level=PRIMITIVE,
        native=True,
        source="torch, ProcessGroupNCCL.cpp: Work::wait",
    ),
    FrameSign(
        ("wait",),
        "libtorch_cpu.so",
        "collective",
        level=PRIMITIVE,
        native=True,
        source="torch 2.13, Work::wait of ProcessGroupGloo.cpp (run)",
    ),
    FrameSign(
        (
            "ncclAllReduce",
            "ncclAllGather",
            "ncclReduceScatter",
            "ncclBroadcast",
            "ncclBcast",
            "ncclReduce",
            "ncclGroupEnd",
            "ncclGroupEndInternal",
            "ncclCommInitRank",
            "ncclCommInitRankConfig",
            "ncclCommInitRankDev",
            "ncclCommSplit",
            "ncclCommAbort",
            "ncclCommDestroy",
            "ncclCommFinalize",
        ),
        "",
        "collective",
        native=True,
        source="NCCL 2, exported functions",
    ),
    FrameSign(("ncclSend", "ncclRecv"), "", "point-to-point", native=True, source="NCCL"),
    FrameSign(
        ("waitRecv", "waitSend"),
        "",
        "collective",
        level=PRIMITIVE,
        native=True,
        source="gloo, transport/tcp/unbound_buffer.cc",
    ),
    FrameSign(
        (
            "cudaStreamSynchronize",
            "cudaDeviceSynchronize",
            "cudaEventSynchronize",
            "cuStreamSynchronize",
            "cuEventSynchronize",
            "cuCtxSynchronize",
            "cudaMemcpyAsync",
            "cudaMemcpy",
            "cuMemcpyDtoHAsync_v2",
            "cuMemcpyDtoH_v2",
            "hipStreamSynchronize",
            "hipDeviceSynchronize",
            "hipEventSynchronize",
            "aclrtSynchronizeStream",
            "aclrtSynchronizeDevice",
        ),
        "",
        "gpu",
        native=True,
        source="CUDA runtime and driver, HIP, Ascend runtime: exported functions",
    ),
    FrameSign(
        ("synchronize",),
        "torch/cuda/__init__.py",
        "gpu",
        source="torch 2.13, cuda/__init__.py",
    ),
    FrameSign(
        ("synchronize", "wait"), "torch/cuda/streams.py", "gpu", source="torch, cuda/streams.py"
    ),
)
