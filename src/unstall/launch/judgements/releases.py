"""Settings that a known bug of a release makes dangerous.

Sources: vLLM pull request 30739 (0.14: dense online data parallel is independent, dense offline
data
parallel is refused) and issue 28224; ms-swift pull request 9295 (4.3.0: one independent engine for
each
slice of devices); ``vllm/v1/engine/core.py`` 0.8 to 0.13 (``DPEngineCoreProc``: all engines take a
step together as long as any of them has work, and ask each other every 32 steps).
"""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places, show
from unstall.model.plan import Judgement
from unstall.model.text import say
from unstall.programs.base import Launch

_VLLM_FIXED = (0, 14)
_SWIFT_FIXED = (4, 3)


def judge(context: Context) -> Iterator[Judgement]:
    """A row for each data-parallel vLLM server in the range."""
    for launch in context.launches:
        if launch.engine != "vllm" or not launch.server or (launch.parallel.data or 1) < 2:
            continue
        if launch.parallel.expert_enabled:
            continue
        row = _swift(launch) if launch.software == "ms-swift" else _vllm(launch)
        if row is not None:
            yield row


def _swift(launch: Launch) -> Judgement | None:
    mode = launch.settings.get("engine mode")
    swift, vllm = launch.version("ms-swift"), launch.version("vllm")
    if mode is None or mode.text != "synchronous":
        return None
    if swift is not None and swift >= _SWIFT_FIXED:
        return None
    sure = swift is not None and vllm is not None and vllm < _VLLM_FIXED
    return Judgement(
        "data parallel engines",
        {launch.label: f"{launch.parallel.data} engines, {mode.text}"},
        "conflict" if sure else "suspicious",
        say(
            "the {count} engines of one data-parallel server take their steps together without a "
            "coordinator: where one front end still prepares requests while the others are done, "
            "an "
            "engine enters a step that the others have left, and its all-reduce waits for ever; a "
            "dense "
            "model needs no exchange between engines. ms-swift 4.3.0 starts independent engines",
            count=launch.parallel.data or 0,
        ),
        places(launch.flag("vllm_data_parallel_size"), launch.place),
        "--vllm_use_async_engine true",
        ("engine-desync",),
    )


def _vllm(launch: Launch) -> Judgement | None:
    vllm = launch.version("vllm")
    if vllm is not None and vllm >= _VLLM_FIXED:
        return None
    value = launch.flag("data_parallel_size")
    return Judgement(
        "data parallel engines",
        {launch.label: show(value)},
        "suspicious",
        say(
            "before vLLM 0.14 the engines of a data-parallel server take their steps together even "
            "for a "
            "dense model, which needs no exchange between them; engines that fell out of step wait "
            "for "
            "ever in an all-reduce over the data-parallel group. Independent servers avoid it"
        ),
        places(value, launch.place),
        None,
        ("engine-desync",),
    )
