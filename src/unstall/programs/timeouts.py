"""How long collectives wait before a watchdog gives up: PyTorch's defaults and who changes them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unstall.model.facts import Place
from unstall.model.plan import Program
from unstall.model.text import Text, say
from unstall.programs.groups import within


class GroupTimeout(msgspec.Struct, frozen=True):
    """The time-out of a program's groups.

    Attributes:
        milliseconds: its value.
        name: what sets it: a flag, a variable, a package's default.
        given: the launch script says so itself, it is no default.
        source: where a default can be checked; the flag's name where it was given.
        place: the line that gives it.
    """

    milliseconds: int
    name: str | Text
    given: bool
    source: str
    place: Place | None = None


class _Default(msgspec.Struct, frozen=True):
    """A default of a package, for versions in ``[since, until)``."""

    software: tuple[str, ...]
    package: str
    milliseconds: int
    name: str | Text
    source: str
    since: str | None = None
    until: str | None = None


TORCH = (
    _Default(
        ("torch",),
        "torch",
        600_000,
        say("NCCL's default in PyTorch"),
        "torch 2.2, torch/distributed/constants.py: default_pg_nccl_timeout",
        since="2.2",
    ),
    _Default(
        ("torch",),
        "torch",
        1_800_000,
        say("PyTorch's default"),
        "torch 2.1, torch/distributed/constants.py: default_pg_timeout",
        until="2.2",
    ),
)

DEFAULTS = (
    _Default(
        ("ms-swift", "swift"),
        "ms-swift",
        18_000_000_000,
        "ddp_timeout",
        "ms-swift 3.10.3 and 4.6.0, arguments/base_args/base_args.py: ddp_timeout = 18000000 s",
    ),
    _Default(
        ("megatron", "megatron-lm", "megatron-core"),
        "megatron-core",
        600_000,
        "--distributed-timeout-minutes",
        "Megatron-LM core 0.13, megatron/training/arguments.py: 10 minutes",
    ),
    _Default(
        ("verl",),
        "verl",
        600_000,
        "nccl_timeout",
        "verl 0.5.0, trainer/config/ppo_trainer.yaml: nccl_timeout 600 s",
    ),
    _Default(
        ("openrlhf",),
        "openrlhf",
        3_600_000,
        "setup_distributed",
        "OpenRLHF 0.9.0, openrlhf/utils/deepspeed/deepspeed.py: 60 minutes",
    ),
    _Default(
        ("transformers", "trl", "llama-factory", "axolotl"),
        "transformers",
        1_800_000,
        "ddp_timeout",
        "transformers 4.57, training_args.py: ddp_timeout 1800 s",
    ),
    _Default(
        ("deepspeed",),
        "deepspeed",
        1_800_000,
        "DEEPSPEED_TIMEOUT",
        "DeepSpeed 0.14 to 0.19.4, deepspeed/constants.py: 30 minutes",
        until="0.19.5",
    ),
    _Default(
        ("deepspeed",),
        "deepspeed",
        600_000,
        "DEEPSPEED_TIMEOUT",
        "DeepSpeed 0.19.6, deepspeed/constants.py: 10 minutes",
        since="0.19.5",
    ),
    _Default(
        ("lightning", "pytorch-lightning"),
        "lightning",
        1_800_000,
        "DDPStrategy(timeout)",
        "Lightning 2.5, strategies/ddp.py: default_pg_timeout",
    ),
)
"""What packages set where nobody asks. Accelerate, torchrun, vLLM and SGLang leave PyTorch's
default in place (vLLM unless ``distributed_timeout_seconds``, SGLang unless ``--dist-timeout``)."""

VLLM_SUBGROUPS = "0.25"
"""From this vLLM on ``distributed_timeout_seconds`` reaches the groups that work (tensor, pipeline,
expert parallel). It is there since 0.18, but only ``init_process_group`` got it: the world group,
in which nothing waits (``distributed/parallel_state.py`` of 0.18, 0.24 and 0.25,
``GroupCoordinator`` and ``init_distributed_environment``)."""

ENGINES = ("vllm", "sglang")


def torch_default(version: str | None) -> GroupTimeout:
    """PyTorch's default for NCCL groups; an unknown version counts as new."""
    row = next(d for d in TORCH if within(version, d.since, d.until))
    return GroupTimeout(row.milliseconds, row.name, False, row.source)


def _world_only(name: str, version: str | None) -> bool:
    """Whether a vLLM, known to be an old one, gives its groups PyTorch's default all the same."""
    return name == "distributed_timeout_seconds" and within(version, None, VLLM_SUBGROUPS)


def group_timeout(
    program: Program, framework: str, versions: Mapping[str, str]
) -> GroupTimeout | None:
    """The time-out that a program's groups have; ``None`` where its script hides it."""
    known = {**versions, **program.versions}
    if framework not in ENGINES or program.software in ENGINES:
        for timeout in program.timeouts:
            if timeout.reaches == "process groups" and not timeout.value.default:
                if _world_only(timeout.name, known.get("vllm")):
                    continue
                if timeout.milliseconds is None:
                    return None
                return GroupTimeout(
                    timeout.milliseconds, timeout.name, True, timeout.name, timeout.value.place
                )
    if framework not in ENGINES:
        for row in DEFAULTS:
            names = (program.software, framework)
            if any(name in row.software for name in names) and within(
                known.get(row.package), row.since, row.until
            ):
                return GroupTimeout(row.milliseconds, row.name, False, row.source)
        for timeout in program.timeouts:
            if timeout.reaches == "process groups" and timeout.milliseconds is not None:
                return GroupTimeout(timeout.milliseconds, timeout.name, False, timeout.name)
    return torch_default(known.get("torch"))
