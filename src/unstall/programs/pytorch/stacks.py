"""Stacks of PyTorch's own wrappers and launcher (torch 2.13)."""

from __future__ import annotations

from unstall.model.text import say
from unstall.stacks.rows import Circumstance, RoleSign

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance(
        "parameter-gather",
        ("FSDPParamGroup.unshard", "FSDPParamGroup.wait_for_unshard", "_unshard"),
        "",
        ("collective", "gpu"),
        say("the rank gathers a layer's sharded parameters"),
        "torch 2.13, distributed/fsdp/_runtime_utils.py and _fully_shard/_fsdp_param_group.py",
    ),
    Circumstance(
        "checkpoint",
        ("save", "async_save"),
        "torch/distributed/checkpoint/state_dict_saver.py",
        ("collective", "disk", "queue", "lock", "store"),
        say("the rank is saving a checkpoint"),
        "torch 2.13, distributed/checkpoint/state_dict_saver.py",
    ),
    Circumstance(
        "start-up",
        ("init_process_group", "_sync_module_states", "_verify_param_shape_across_processes"),
        "",
        ("collective", "store"),
        say("the rank is still starting up"),
        "torch 2.13, distributed_c10d.py, nn/parallel/distributed.py",
    ),
    Circumstance(
        "data-loading",
        ("_MultiProcessingDataLoaderIter._next_data", "_BaseDataLoaderIter.__next__"),
        "torch/utils/data/dataloader.py",
        ("queue", "pipe", "lock", "disk", "http", "sleep"),
        say("the rank waits for its next batch of data"),
        "torch 2.13, utils/data/dataloader.py",
    ),
)

ROLES: tuple[RoleSign, ...] = (
    RoleSign(
        "torchrun",
        "launcher",
        "launcher",
        "torch 2.13, distributed/elastic/agent/server/api.py",
        functions=("SimpleElasticAgent.run", "SimpleElasticAgent._invoke_run"),
        file="torch/distributed/elastic/agent/server/api.py",
        weight=26,
    ),
    RoleSign(
        "torchrun",
        "launcher",
        "launcher",
        "torch, command line",
        command=("torch.distributed.run", "torch.distributed.launch", "bin/torchrun"),
        weight=24,
    ),
    RoleSign(
        "pytorch",
        "trainer",
        "loader",
        "torch 2.13, utils/data/_utils/worker.py",
        functions=("_worker_loop",),
        file="torch/utils/data/_utils/worker.py",
        weight=45,
    ),
    RoleSign(
        "pytorch",
        "launcher",
        "helper",
        "CPython 3.8 to 3.14, multiprocessing/resource_tracker.py: it is started with -c",
        command=("from multiprocessing.resource_tracker import",),
        weight=60,
    ),
    RoleSign(
        "pytorch",
        "trainer",
        "trainer",
        "torch 2.13: a process that is in a collective of its own",
        functions=(
            "all_reduce",
            "barrier",
            "broadcast",
            "all_gather_into_tensor",
            "reduce_scatter_tensor",
            "DistributedDataParallel.forward",
            "FullyShardedDataParallel.forward",
        ),
        weight=2,
    ),
)
