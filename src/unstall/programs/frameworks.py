"""Which described framework a launched program is, and the sizes that it may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product

import msgspec

from unstall.model.plan import Program
from unstall.programs.deepspeed.groups import DEEPSPEED
from unstall.programs.default_group import DDP, HYBRID
from unstall.programs.groups import Framework, Layout, Row, layout, outline, within
from unstall.programs.megatron.groups import MEGATRON
from unstall.programs.openrlhf.groups import OPENRLHF
from unstall.programs.sglang.groups import SGLANG
from unstall.programs.verl.groups import VERL
from unstall.programs.vllm.groups import VLLM

FRAMEWORKS: tuple[Framework, ...] = (
    VLLM,
    SGLANG,
    MEGATRON,
    DEEPSPEED,
    VERL,
    OPENRLHF,
    HYBRID,
    DDP,
)
BY_NAME = {framework.name: framework for framework in FRAMEWORKS}

MOST_RANKS = 64
"""Sizes that nobody told are guessed up to so many ranks."""

MOST_HYPOTHESES = 1_500


class Hypothesis(msgspec.Struct, frozen=True):
    """Sizes and version that a program may have.

    Attributes:
        framework: what it is.
        sizes: the sizes, told and guessed.
        version: version that selects the order; the era's where it was not told.
        rows: the numbers of its groups.
        prior: how plausible it is beside the others of its program; 1 where all is known.
        guessed: names of the sizes that were guessed and make a difference.
        version_guessed: the version was not known.
    """

    framework: str
    sizes: Mapping[str, int]
    version: str | None
    rows: tuple[Row, ...]
    prior: float = 1.0
    guessed: tuple[str, ...] = ()
    version_guessed: bool = False

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.rows[0].size

    def layout(self) -> Layout:
        """All groups."""
        return _layout(self.framework, tuple(sorted(self.sizes.items())), self.version)


@lru_cache(maxsize=64)
def _layout(name: str, sizes: tuple[tuple[str, int], ...], version: str | None) -> Layout:
    return layout(BY_NAME[name], dict(sizes), version)


def frameworks_of(program: Program) -> tuple[Framework, ...]:
    """The described frameworks that a program may be, most likely first."""
    serving = program.role in ("rollout", "inference", "reward")
    for name in (program.engine, program.software):
        if name in ("vllm", "sglang") and (serving or name == program.software):
            return (BY_NAME[name],)
    if serving:
        return (VLLM, SGLANG)
    software = program.software
    if software.startswith("megatron") or any(_megatron(word) for word in program.command[:6]):
        return (MEGATRON,)
    engine = (BY_NAME[program.engine],) if program.engine in ("vllm", "sglang") else ()
    if software == "verl":
        megatron = program.parallel.pipeline or "actor tensor" in program.parallel.extra
        return (MEGATRON if megatron else VERL, *engine)
    if software == "openrlhf":
        return (OPENRLHF, *engine)
    if software == "deepspeed" or _deepspeed(program):
        return (DEEPSPEED,)
    if any("fsdp" in name for name in program.flags):
        return (DDP, HYBRID)
    if software in ("ms-swift", "trl", "transformers", "accelerate", "llamafactory", "lightning"):
        return (DDP, DEEPSPEED)
    return (DDP, HYBRID, DEEPSPEED)


def _megatron(word: str) -> bool:
    base = word.rsplit("/", 1)[-1]
    return base == "megatron" or "_megatron" in base or base in ("pretrain_gpt.py", "train_rl.py")


def _deepspeed(program: Program) -> bool:
    names = ("deepspeed", "deepspeed_config", "use_deepspeed", "deepspeed_config_file")
    configured = program.flags.get("config_file")
    return (
        any(word.rsplit("/", 1)[-1] == "deepspeed" for word in program.command[:3])
        or any(name in program.flags for name in names)
        or "ACCELERATE_USE_DEEPSPEED" in program.environment
        or (configured is not None and "deepspeed" in configured.text.lower())
    )


_FIELDS: dict[str, dict[str, str]] = {
    "vllm": {
        "tp": "tensor",
        "dp": "data",
        "pp": "pipeline",
        "dcp": "decode_context",
        "pcp": "context",
    },
    "sglang": {"tp": "tensor", "pp": "pipeline", "ep": "expert", "dcp": "decode_context"},
    "megatron": {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"},
    "verl": {"infer_tp": "tensor"},
    "mesh": {"tp": "tensor", "pp": "pipeline", "cp": "context"},
}
"""Which field of :class:`~unstall.model.plan.Parallel` gives a framework's size."""

_SWITCHES = {
    "vllm": ("eplb", "moe", "split_group", "nodes_per_engine"),
    "sglang": ("attn_dp", "attn_cp", "moe_dp"),
    "megatron": ("etp", "no_gloo", "tp_pp_dp"),
    "deepspeed": ("sp", "hpz"),
    "verl": ("fsdp", "sp", "infer_tp", "infer_pp", "rollout"),
}
"""Sizes and switches that stand in ``Parallel.extra`` under these names."""


def known_sizes(framework: Framework, program: Program) -> dict[str, int]:
    """The sizes that the plan tells of a program, by the framework's short names."""
    sizes: dict[str, int] = {}
    if program.software in ("verl", "openrlhf") and framework in (VLLM, SGLANG):
        # The plan gives the engine's tensor size; each engine is a world of its own.
        return {"tp": program.parallel.tensor, "pp": 1, "dp": 1} if program.parallel.tensor else {}
    if program.software == "verl" and framework is MEGATRON:
        actor = program.parallel.extra.get("actor tensor")
        sizes = {"tp": actor} if actor else {}
        if program.parallel.pipeline:
            sizes["pp"] = program.parallel.pipeline
        return {**sizes, "world": program.processes} if program.processes else sizes
    for short, field in _FIELDS.get(framework.name, {}).items():
        value = getattr(program.parallel, field)
        if isinstance(value, int) and value > 0:
            sizes[short] = value
    for name in _SWITCHES.get(framework.name, ()):
        if name in program.parallel.extra:
            sizes[name] = program.parallel.extra[name]
    if framework is SGLANG and program.parallel.data:
        attention = program.parallel.extra.get("dp attention")
        sizes["attn_dp"] = program.parallel.data if attention else 1
    if framework is VERL and "ulysses" in program.parallel.extra:
        sizes["sp"] = program.parallel.extra["ulysses"]
    if framework is VLLM and "enable_eplb" in program.flags:
        sizes["eplb"] = 1
    if framework is VLLM and program.parallel.expert_enabled:
        sizes["moe"] = 1
    if framework is MEGATRON and "disable_gloo_process_groups" in program.flags:
        sizes["no_gloo"] = 1
    if program.processes and framework not in (VLLM, SGLANG, OPENRLHF):
        sizes["world"] = program.processes
    return sizes


_OPTIONAL = frozenset({"dcp", "pcp", "cp", "ep", "sp", "hpz", "etp", "attn_dp", "infer_pp"})
"""Sizes that a script names where they are not 1: a plan that is silent about them means 1."""


def hypotheses(
    framework: Framework,
    sizes: Mapping[str, int],
    version: str | None,
    *,
    processes: int | None = None,
    planned: bool = True,
    torch: str | None = None,
) -> tuple[Hypothesis, ...]:
    """The layouts that a program may have.

    Args:
        framework: what it is.
        sizes: what is known; other sizes take the framework's guesses.
        version: version of the framework's package; without it every era is tried.
        processes: number of ranks, where it is known; only layouts of so many remain.
        planned: the sizes come from a plan, so optional sizes that it does not name are 1.
        torch: version of torch (meshes before 2.10 are made otherwise).
    """
    return _hypotheses(
        framework.name, tuple(sorted(sizes.items())), version, processes, planned, torch
    )


@lru_cache(maxsize=128)
def _hypotheses(
    name: str,
    given: tuple[tuple[str, int], ...],
    version: str | None,
    processes: int | None,
    planned: bool,
    torch: str | None,
) -> tuple[Hypothesis, ...]:
    framework = BY_NAME[name]
    sizes = dict(given)
    unknown = [
        key
        for key in framework.guesses
        if key not in sizes
        and not (key == "world" and processes)
        and not (planned and key in _OPTIONAL)
        and not (key == "dp" and ("world" in sizes or processes) and framework is not VLLM)
    ]
    if framework in (VLLM, SGLANG) and {"tp", "pp"} <= sizes.keys():
        # The sizes say all: replicas are worlds of their own, so processes may be more.
        processes = None
    if framework is OPENRLHF:
        processes = None  # the plan counts the ranks of all actor groups and engines
    if processes and framework not in (VLLM, SGLANG):
        sizes.setdefault("world", processes)
    eras = (version,) if version else framework.eras
    found: list[Hypothesis] = []
    seen: set[tuple[Row, ...]] = set()
    for age, guess in product(range(len(eras)), list(_guesses(framework, unknown))):
        tried = _mesh_switch({**sizes, **guess}, torch)
        try:
            rows = outline(framework, tried, eras[age])
        except ValueError:
            continue
        world = rows[0].size
        if (processes and world != processes) or (guess and world > MOST_RANKS) or rows in seen:
            continue
        seen.add(rows)
        unusual = sum(value != framework.guesses[key][0] for key, value in guess.items())
        found.append(
            Hypothesis(
                name,
                tried,
                eras[age],
                rows,
                0.75 ** (unusual + age),
                tuple(guess),
                version_guessed=not version,
            )
        )
        if len(found) >= MOST_HYPOTHESES:
            break
    telling = {key for key in unknown if len({guess.sizes.get(key) for guess in found}) > 1}
    several = len({guess.version for guess in found}) > 1
    return tuple(
        msgspec.structs.replace(
            guess,
            guessed=tuple(key for key in guess.guessed if key in telling),
            version_guessed=several,
            prior=guess.prior if len(found) > 1 else 1.0,
        )
        for guess in found
    )


def _mesh_switch(sizes: dict[str, int], torch: str | None) -> dict[str, int]:
    if torch and within(torch, None, "2.10"):
        return {**sizes, "old_mesh": 1}
    return sizes


def _guesses(framework: Framework, unknown: list[str]) -> Iterator[dict[str, int]]:
    for values in product(*(framework.guesses[key] for key in unknown)):
        yield dict(zip(unknown, values, strict=True))
