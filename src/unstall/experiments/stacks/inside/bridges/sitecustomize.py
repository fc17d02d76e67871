"""What has to be bridged on a CPU, and how the processes of a stack can be asked for their state.

Python imports this module at its start because the launch script puts its folder on
``PYTHONPATH``; nothing of it is active elsewhere. Each bridge is a function below that runs when
the module it is about has been imported. None is on the path under test: the requests, the waves
and the all-reduces of the engines are vLLM's own.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

Bridge = Callable[[Any], None]
_AFTER: dict[str, Bridge] = {}


def after(name: str) -> Callable[[Bridge], Bridge]:
    """Run the decorated function with the module ``name`` once that has been imported."""

    def keep(function: Bridge) -> Bridge:
        _AFTER[name] = function
        return function

    return keep


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as Python does, and has their bridges run after them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        bridge = _AFTER.pop(name, None)
        if bridge is None:
            return None
        spec: Any = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            bridge(module)

        spec.loader.exec_module = exec_module
        return spec


@after("vllm.v1.engine.core")
def answer_for_the_recorder(module: Any) -> None:
    """An engine process writes its Flight Recorder dump when it is asked to through a pipe."""
    folder = os.environ.get("UNSTALL_STATE_FOLDER")
    if not folder:
        return
    run = module.EngineCoreProc.run_engine_core

    @functools.wraps(run)  # its name too: spawned processes are told what to run by name
    def run_engine_core(*args: Any, **kwargs: Any) -> Any:
        number = kwargs.get("dp_rank") or os.environ.get("VLLM_DP_RANK") or "0"
        threading.Thread(
            target=_serve_dumps, args=(folder, number), daemon=True, name="FlightRecorderDump"
        ).start()
        return run(*args, **kwargs)

    module.EngineCoreProc.run_engine_core = staticmethod(run_engine_core)


@after("torch.distributed.distributed_c10d")
def answer_as_a_rank(module: Any) -> None:
    """So does a rank that torchrun started, where ``UNSTALL_RANKS`` names its program."""
    del module
    folder, program = os.environ.get("UNSTALL_STATE_FOLDER"), os.environ.get("UNSTALL_RANKS")
    rank = os.environ.get("RANK")
    if folder and program and rank:
        threading.Thread(
            target=_serve_dumps,
            args=(folder, rank, program),
            daemon=True,
            name="FlightRecorderDump",
        ).start()


def _serve_dumps(folder: str, number: object, program: str = "rollout") -> None:
    pipe = os.path.join(folder, f"pipe.{program}.{number}")
    target = os.path.join(folder, f"dump.{program}.{number}")
    with contextlib.suppress(FileExistsError):
        os.mkfifo(pipe)
    while True:
        with open(pipe, "rb") as requests:
            requests.read(1)
        from torch._C import _distributed_c10d

        dump = getattr(_distributed_c10d, "_dump_fr_trace", None)
        dump = dump or getattr(_distributed_c10d, "_dump_nccl_trace", None)
        if dump is None:
            return
        with open(target + ".part", "wb") as file:
            file.write(dump())
        os.replace(target + ".part", target)


@after("swift.llm.argument.deploy_args")  # ms-swift 3
@after("swift.arguments.deploy_args")  # ms-swift 4
def count_devices(module: Any) -> None:
    """``swift rollout`` wants as many devices as engines, and counts GPUs."""
    count = int(os.environ.get("UNSTALL_DEVICES") or 0)
    if count:
        module.get_device_count = lambda: count


@after("swift.llm.infer.rollout")  # ms-swift 3
@after("swift.pipelines.infer.rollout")  # ms-swift 4
def fork_the_server(module: Any) -> None:
    """The server's processes are forked instead of spawned.

    Spawned, each of them imports all of it again: on a CPU, where nothing forbids to fork, that
    is most of a run's time. Which processes there are, and what they do, stays the same.
    """
    if not os.environ.get("UNSTALL_FORK"):
        return
    import multiprocessing

    import vllm.model_executor.models.qwen3
    import vllm.v1.engine.async_llm
    import vllm.v1.engine.coordinator
    import vllm.v1.engine.llm_engine
    import vllm.v1.engine.utils
    import vllm.v1.worker.cpu_worker

    del module
    fork = multiprocessing.get_context("fork")
    multiprocessing.set_start_method("fork", force=True)
    vllm.v1.engine.utils.get_mp_context = lambda: fork
    vllm.v1.engine.coordinator.get_mp_context = lambda: fork
    # a process of its own only finds out what the model's class can do
    vllm.model_executor.models.registry._run_in_subprocess = lambda function: function()


@after("vllm.platforms")
def ask_for_no_intel_gpu(module: Any) -> None:
    """Each process that asks vLLM what it runs on would load Intel's extension to look for a GPU.

    That is several seconds of a trainer's start; an engine loads it anyway, for its attention.
    """
    module.builtin_platform_plugins.pop("xpu", None)


@after("vllm.distributed.device_communicators.pynccl")
def exchange_weights_without_nccl(module: Any) -> None:
    """The trainer sends its weights through the store instead of an NCCL communicator.

    The store is the one that vLLM's ``StatelessProcessGroup`` already has. Only the exchange of
    weights uses this class on a CPU; the engines step in a gloo group of ``torch.distributed``.
    """
    if not os.environ.get("UNSTALL_DEVICES"):
        return

    class PyNcclCommunicator:
        def __init__(self, group: Any, device: Any = None, library_path: Any = None) -> None:
            del library_path
            self.group, self.device = group, device
            self.rank, self.world_size = group.rank, group.world_size
            self.available, self.disabled = True, False

        def broadcast(self, tensor: Any, src: int, stream: Any = None) -> None:
            del stream
            if self.rank == src:
                self.group.broadcast_obj(tensor.detach().cpu(), src)
            else:
                tensor.copy_(self.group.broadcast_obj(None, src))

    module.PyNcclCommunicator = PyNcclCommunicator


@after("trl.extras.vllm_client")
def name_a_device(module: Any) -> None:
    """TRL's trainer tells the server which GPU it is on, so that both do not use the same one.

    Its side of the weight exchange always listens on port 51216, where any other trainer on this
    machine does too; ``UNSTALL_GROUP_PORT`` is one that is free.
    """
    import types

    import torch

    if not torch.cuda.is_available():
        cuda: Any = torch.cuda
        cuda.current_device = lambda: 0
        cuda.get_device_properties = lambda _=None: types.SimpleNamespace(uuid="no GPU")
    port = os.environ.get("UNSTALL_GROUP_PORT")
    if port:
        begin = module.VLLMClient.__init__

        def begin_there(self: Any, *args: Any, **kwargs: Any) -> None:
            begin(self, *args, **{"group_port": int(port), **kwargs})

        module.VLLMClient.__init__ = begin_there


@after("swift.utils.torch_utils")
def measure_no_memory(module: Any) -> None:
    """The trainer asks its device how much memory it used; ``torch.cpu`` cannot tell.

    ms-swift 4 waits for the GPU before and after the weight exchange, also where there is none.
    """
    import torch

    if hasattr(module, "synchronize") and not torch.cuda.is_available():
        module.synchronize = lambda *_args, **_kwargs: None

    for name in ("max_memory_reserved", "max_memory_allocated", "reset_peak_memory_stats"):
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, lambda *_args, **_kwargs: 0)


@after("vllm.v1.engine.processor")
def prepare_images(module: Any) -> None:
    """Stands for a vision model's processor: the questions of the tiny model have no images.

    In the front end, where vLLM prepares a request before it goes to the engine, every so many
    requests (the completions of one prompt share its image) a JPEG is decoded, resized and
    normalised. ``UNSTALL_IMAGES`` is ``kilopixels,spread,every``; without it nothing is done.
    """
    given = os.environ.get("UNSTALL_IMAGES")
    if not given:
        return
    import argparse

    from engines import image_pool, prepare

    kilopixels, spread, every = given.split(",")
    begin, process = module.Processor.__init__, module.Processor.process_inputs
    state: dict[str, Any] = {"count": 0, "pool": ()}

    def begin_with_images(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        # not before: a front end that is forked is told its place after this module's import
        place = os.environ.get("VLLM_DP_RANK") or os.environ.get("SWIFT_ROLLOUT_DP_RANK") or 0
        seed = int(place) + int(os.environ.get("UNSTALL_SEED") or 0) * 100
        state["pool"] = image_pool(
            argparse.Namespace(kilopixels=float(kilopixels), spread=float(spread), seed=seed)
        )

    def process_inputs(self: Any, *args: Any, **kwargs: Any) -> Any:
        if state["count"] % int(every) == 0:
            prepare(state["pool"][state["count"] // int(every) % len(state["pool"])])
        state["count"] += 1
        return process(self, *args, **kwargs)

    module.Processor.__init__ = begin_with_images
    module.Processor.process_inputs = process_inputs


if _AFTER:
    sys.meta_path.insert(0, _Finder())
