"""What this machine really has, beside what a plan asks for."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from importlib import metadata

import msgspec

from unstall.launch.judgements.container import ENOUGH
from unstall.model.plan import Judgement, Plan
from unstall.model.text import say

PACKAGES = [
    "torch",
    "vllm",
    "sglang",
    "ms-swift",
    "trl",
    "transformers",
    "accelerate",
    "deepspeed",
    "verl",
    "openrlhf",
    "lightning",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "ray",
]

_SHM = "/dev/shm"  # noqa: S108 - it is looked at, not written


class Machine(msgspec.Struct):
    """What was found; ``None`` where it could not be told.

    Attributes:
        devices: number of NVIDIA devices that the driver lists.
        busy: memory in use on each, in MiB.
        ports: TCP ports that something listens on.
        shm: bytes of /dev/shm, free ones second.
        processes, files, locked: limits of this user; -1 is unlimited.
        versions: installed packages.
        environment: variables of this shell that concern distributed runs.
    """

    devices: int | None = None
    busy: tuple[int, ...] = ()
    ports: frozenset[int] | None = None
    shm: tuple[int, int] | None = None
    processes: int | None = None
    files: int | None = None
    locked: int | None = None
    versions: dict[str, str] = {}
    environment: dict[str, str] = {}


def look(run: Callable[[list[str]], str | None] | None = None) -> Machine:
    """Look at this machine. ``run`` runs a command and gives its output (for tests)."""
    found = Machine(versions=_installed(), environment=_variables())
    listing = (run or _output)(
        ["nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits"]
    )
    if listing is not None:
        rows = [line.split(",") for line in listing.strip().splitlines() if "," in line]
        found.devices = len(rows)
        found.busy = tuple(int(r[1]) for r in rows if r[1].strip().isdigit())
    found.ports = listening()
    try:
        usage = shutil.disk_usage(_SHM)
        found.shm = (usage.total, usage.free)
    except OSError:
        pass
    try:
        import resource

        found.processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        found.files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        found.locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    except (ImportError, OSError, ValueError):  # pragma: no cover - not on this system
        pass
    return found


def listening() -> frozenset[int] | None:
    """TCP ports in the state LISTEN, from ``/proc/net/tcp`` and ``tcp6``."""
    found: set[int] = set()
    read = False
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name, encoding="ascii", errors="replace") as file:
                next(file, None)
                for line in file:
                    fields = line.split()
                    if len(fields) > 3 and fields[3] == "0A":
                        found.add(int(fields[1].rsplit(":", 1)[1], 16))
            read = True
        except (OSError, ValueError, IndexError):
            continue
    return frozenset(found) if read else None


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _installed() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _variables() -> dict[str, str]:
    kept = ("MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE", "NODE_RANK")
    return {
        name: value
        for name, value in os.environ.items()
        if name in kept or name.startswith(("NCCL_", "TORCH_NCCL_", "GLOO_", "TORCH_FR_"))
    }


def with_machine(plan: Plan, machine: Machine) -> Plan:
    """The plan with the judgements that this machine adds."""
    found: list[Judgement] = [*_devices(plan, machine), *_ports(plan, machine)]
    found += _memory(plan, machine)
    found += _limits(machine)
    versions = {**machine.versions, **plan.versions}
    return msgspec.structs.replace(plan, judgements=(*plan.judgements, *found), versions=versions)


def _devices(plan: Plan, machine: Machine) -> list[Judgement]:
    if machine.devices is None:
        return []
    found: list[Judgement] = []
    count = machine.devices
    for program in plan.programs:
        beyond = [d for d in program.devices or () if d >= count]
        if beyond:
            found.append(
                Judgement(
                    "devices of this machine",
                    {program.label: ",".join(map(str, program.devices or ()))},
                    "conflict",
                    say(
                        "{program} wants device {device}, but this machine has {count}",
                        program=program.label,
                        device=beyond[0],
                        count=count,
                    ),
                    (program.place,) if program.place else (),
                    None,
                    ("device-overlap",),
                )
            )
            continue
        taken = [
            d for d in program.devices or () if d < len(machine.busy) and machine.busy[d] > 1024
        ]
        if taken:
            found.append(
                Judgement(
                    "devices of this machine",
                    {program.label: ",".join(map(str, taken))},
                    "suspicious",
                    say(
                        "device {device} of {program} has {used} MiB in use already",
                        device=taken[0],
                        program=program.label,
                        used=machine.busy[taken[0]],
                    ),
                    (program.place,) if program.place else (),
                    None,
                    ("device-overlap", "cuda-oom"),
                )
            )
    if not found:
        found.append(
            Judgement(
                "devices of this machine",
                {p.label: ",".join(map(str, p.devices or ())) or "-" for p in plan.programs},
                "ok",
                say("this machine has {count} devices", count=count),
            )
        )
    return found


def _ports(plan: Plan, machine: Machine) -> list[Judgement]:
    found: list[Judgement] = []
    for program in plan.programs:
        for port in program.ports:
            text = port.value.text
            if not port.listens or not port.value.known or not text.isdigit() or text == "0":
                continue
            if machine.ports is not None and int(text) in machine.ports:
                places = tuple(p for p in (port.value.place, program.place) if p is not None)
                found.append(
                    Judgement(
                        "ports in use",
                        {program.label: text},
                        "conflict",
                        say(
                            "something listens on port {port} of this machine already, which "
                            "{program} wants to bind ({purpose}); ss -ltnp shows what it is",
                            port=text,
                            program=program.label,
                            purpose=port.purpose,
                        ),
                        places,
                        None,
                        ("port-collision",),
                    )
                )
    return found


def _memory(plan: Plan, machine: Machine) -> list[Judgement]:
    if machine.shm is None:
        return []
    total, free = machine.shm
    size = f"{total / (1 << 30):.1f} GiB"
    few = free < ENOUGH
    several = any((p.processes or 2) > 1 for p in plan.programs)
    return [
        Judgement(
            _SHM,
            {"machine": size},
            ("conflict" if several else "suspicious") if few else "ok",
            say(
                "{free} MiB of {size} are free: NCCL's segments and the workers of a DataLoader "
                "may "
                "not fit",
                free=free >> 20,
                size=size,
            )
            if few
            else say("{free} MiB of {size} are free", free=free >> 20, size=size),
            (),
            None,
            ("shm-too-small",),
        )
    ]


def _limits(machine: Machine) -> list[Judgement]:
    found: list[Judgement] = []
    if machine.processes is not None and 0 <= machine.processes < 4096:
        found.append(
            Judgement(
                "ulimit -u",
                {"machine": str(machine.processes)},
                "suspicious",
                say("few processes and threads for several ranks with their loaders"),
                (),
                "ulimit -u 65536",
                ("process-limit",),
            )
        )
    if machine.files is not None and 0 <= machine.files < 4096:
        found.append(
            Judgement(
                "ulimit -n",
                {"machine": str(machine.files)},
                "suspicious",
                say("few open files for several ranks with their loaders"),
                (),
                "ulimit -n 65536",
                ("process-limit",),
            )
        )
    return found
