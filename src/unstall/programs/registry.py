"""Which software a command starts."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from unstall.launch.evaluate import Call
from unstall.programs import accelerate, mpi, torchrun
from unstall.programs.base import Launch, ordinals
from unstall.programs.deepspeed import launch as deepspeed
from unstall.programs.python import launch as python
from unstall.programs.ray import launch as ray


class Software(Protocol):
    """A framework's launch knowledge: ``unstall/programs/<name>/launch.py``."""

    NAME: str

    def claims(self, words: object) -> bool:
        """Whether the words start it."""
        ...

    def read(self, launch: Launch, origins: dict[str, str]) -> None:
        """Fill in what the words say."""
        ...


# A new framework is one line here and its own module. The order matters only for plain Python.
_SOFTWARE = (
    "swift",
    "trl",
    "vllm",
    "sglang",
    "verl",
    "openrlhf",
    "llamafactory",
    "axolotl",
    "megatron",
    "lightning",
)
_LAUNCHERS = (torchrun, accelerate, deepspeed)


def software() -> list[Software]:
    """All frameworks that have launch knowledge."""
    return [cast(Software, import_module(f"unstall.programs.{n}.launch")) for n in _SOFTWARE]


def recognise(
    call: Call,
    origins: dict[str, str],
    *,
    versions: dict[str, str],
    comment: str = "",
    directives: dict[str, str] | None = None,
) -> Launch | None:
    """The program that a call starts, ``None`` where it starts none of interest."""
    launch = Launch(
        call=call,
        words=call.words,
        environment=dict(call.environment),
        not_exported=dict(call.not_exported),
        versions=versions,
        comment=comment,
        launchers=[],
        flags={},
        ports=[],
        timeouts=[],
        reads={},
        ignores={},
        settings={},
        notes=[],
    )
    _devices(launch, directives or {})
    _outer(launch, directives or {})
    return _inner(launch, origins)


def _devices(launch: Launch, directives: dict[str, str]) -> None:
    value = launch.environment.get("CUDA_VISIBLE_DEVICES")
    for name in ("ASCEND_RT_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        value = value or launch.environment.get(name)
    if value is not None:
        launch.devices = ordinals(value)
        launch.device_place = value.place
        if launch.devices is not None:
            launch.visible = len(launch.devices)
        elif value.known and value.text:
            launch.visible = len([p for p in value.text.split(",") if p.strip()])
    elif directives:
        launch.visible = mpi.gpus_per_node(directives)


def _outer(launch: Launch, directives: dict[str, str]) -> None:
    for outer in launch.call.outer:
        if outer.name == "mpirun":
            mpi.apply_mpirun(launch, outer)
        elif outer.name == "srun":
            mpi.apply_srun(launch, outer, directives)
        elif outer.name in ("docker", "singularity"):
            from unstall.launch.docker import apply

            apply(launch, outer)
        elif outer.name in ("ssh", "pdsh"):
            launch.host = outer.operands[0] if outer.operands else outer.name


def _inner(launch: Launch, origins: dict[str, str]) -> Launch | None:
    for _ in range(4):
        if not launch.words:
            return None
        words = launch.words
        if ray.claims(words):
            if not ray.is_submission(words):
                ray.read(launch, origins)
                return launch
            ray.peel(launch, origins)
            continue
        launcher = next((m for m in _LAUNCHERS if m.claims(words)), None)
        if launcher is None:
            break
        slurm = [n for n in launch.launchers if n in ("srun", "mpirun")]
        nodes, tasks = launch.nodes, launch.processes
        launcher.peel(launch, origins)
        if slurm and nodes is not None and tasks is not None and launch.nodes in (None, 1):
            # one launcher for each task
            if launch.nodes is None and launch.per_node is not None:
                launch.nodes = nodes
                launch.processes = nodes * launch.per_node
    if not launch.words:
        return None
    for entry in software():
        if entry.claims(launch.words):
            entry.read(launch, origins)
            return launch
    if python.claims(launch.words):
        python.read(launch, origins)
        return launch if python.worth_a_place(launch) else None
    return None
