"""Which software a command starts."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from unstall.launch import docker
from unstall.launch.calls import Call
from unstall.model.plan import Value
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
    config: dict[str, Value] | None = None,
) -> Launch | None:
    """The program that a call starts, ``None`` where it starts none of interest.

    Args:
        call: the command.
        origins: token of an unknown value to where it comes from.
        versions: package to version.
        comment: the comment behind the command.
        directives: the batch script's ``#SBATCH`` options.
        config: keys of the configuration file that the command names; flags win over them.
    """
    launch = Launch(
        call=call,
        words=call.words,
        environment=dict(call.environment),
        not_exported=dict(call.not_exported),
        versions=versions,
        comment=comment,
        launchers=[],
        flags={f"config:{k}": v for k, v in (config or {}).items()},
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
    for number, outer in enumerate(launch.call.outer):
        if outer.name == "mpirun":
            mpi.apply_mpirun(launch, outer)
        elif outer.name == "srun":
            mpi.apply_srun(launch, outer, directives)
        elif outer.name in ("docker", "singularity"):
            docker.apply(launch, outer)
        elif outer.name in ("kubernetes", "compose"):
            docker.apply_manifest(launch, outer)
        elif outer.name in ("ssh", "pdsh"):
            launch.host = outer.operands[0] if outer.operands else outer.name
        for name, rest in launch.call.within.items():
            if number < len(launch.call.outer) - rest and name in launch.call.environment:
                # set behind it, which therefore can neither keep nor change it
                launch.environment[name] = launch.call.environment[name]
                launch.not_exported.pop(name, None)
                launch.ignores.pop(name, None)


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
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            launch.reads.pop(name, None)  # the launcher decides now, not the program itself
        slurm = [n for n in launch.launchers if n in ("srun", "mpirun")]
        nodes = launch.nodes
        launcher.peel(launch, origins)
        if slurm and launch.nodes is None and nodes is not None and launch.per_node is not None:
            # one launcher for each task
            launch.nodes = nodes
            launch.processes = nodes * launch.per_node
    if not launch.words:
        return None
    for entry in software():
        if entry.claims(launch.words):
            entry.read(launch, origins)
            _forget_config(launch)
            return launch
    if python.claims(launch.words):
        launch.take_config()
        python.read(launch, origins)
        _forget_config(launch)
        return launch if python.worth_a_place(launch) else None
    return None


def _forget_config(launch: Launch) -> None:
    """Drop the file's keys in their reserved spelling; the reader took those that it wanted."""
    for name in [n for n in launch.flags if n.startswith("config:")]:
        del launch.flags[name]
