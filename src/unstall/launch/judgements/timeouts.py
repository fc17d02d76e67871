"""Time-outs: what each reaches, how they compare, and units that look mistaken."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places
from unstall.model.plan import Judgement, Timeout
from unstall.model.text import say
from unstall.programs.base import NCCL_DEFAULT_MS, Launch, number

_MILLISECOND_LOOKS = (600_000, 1_800_000, 3_600_000, 7_200_000)
_SECOND_LOOKS = (600, 1800, 3600, 5400, 7200, 10_800, 18_000, 36_000)
_TOO_MANY_MINUTES = 100_000
_HEARTBEAT = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"
_NOT_READ = {
    "NCCL_TIMEOUT": "NCCL",
    "TORCH_NCCL_TIMEOUT": "PyTorch",
    "NCCL_COMM_TIMEOUT": "NCCL",
    "DDP_TIMEOUT": "PyTorch",
    "TORCH_DISTRIBUTED_TIMEOUT": "PyTorch",
    "NCCL_TIMEOUT_MS": "NCCL",
    "NCCL_TIMEOUT_S": "NCCL",
    "TORCH_NCCL_BLOCKING_WAIT_TIMEOUT": "PyTorch",
}
"""Variables that people set to lengthen a time-out and that nothing reads: not in NCCL 2.27's
"Environment Variables", nor in PyTorch 2.13's ProcessGroupNCCL.hpp."""


def judge(context: Context) -> Iterator[Judgement]:
    """A row for the collectives' time-outs, and one for each that looks mistaken."""
    having = [
        (la, t) for la in context.launches for t in la.timeouts if t.reaches == "process groups"
    ]
    having = [(la, t) for la, t in having if la.distributed]
    if having:
        yield _collective(context, having)
    for launch, timeout in having:
        yield from _units(launch, timeout)
    for launch in context.launches:
        yield from _heartbeat(launch)
        yield from _without_effect(launch)
        yield from _waits_longer(launch)


def _amount(timeout: Timeout) -> str:
    if timeout.milliseconds is None:
        return timeout.value.text
    seconds = timeout.milliseconds / 1000
    text = f"{seconds:g}" if seconds < 1e6 else str(int(seconds))
    how = " default" if timeout.value.default and timeout.name != "NCCL default" else ""
    return f"{text} s ({timeout.name}{how})"


def _collective(context: Context, having: list[tuple[Launch, Timeout]]) -> Judgement:
    values = {la.label: "none" for la in context.launches if la.distributed}
    values.update({la.label: _amount(t) for la, t in having})
    known = [(la, t) for la, t in having if t.milliseconds is not None]
    amounts = {t.milliseconds for _, t in known}
    where = places(
        *(t.value for _, t in having), *(la.place for la, t in having if t.value.default)
    )
    if len(having) > 1 and len(amounts) > 1:
        low = min(known, key=lambda pair: pair[1].milliseconds or 0)
        high = max(known, key=lambda pair: pair[1].milliseconds or 0)
        why = say(
            "each reaches its own process groups only, so they need not agree; a watchdog that "
            "reports "
            "{low} ms can only speak of a group of {one}, one that reports {high} ms of {other}",
            low=low[1].milliseconds or 0,
            one=low[0].label,
            high=high[1].milliseconds or 0,
            other=high[0].label,
        )
    elif known and known[0][1].milliseconds == NCCL_DEFAULT_MS and known[0][1].value.default:
        why = say("PyTorch's default for NCCL: work that takes longer on one rank ends the others")
    else:
        why = say("reaches the process groups of {program}", program=having[0][0].label)
    return Judgement("collective time-out", values, "ok", why, where)


def _units(launch: Launch, timeout: Timeout) -> Iterator[Judgement]:
    given = number(timeout.value)
    if timeout.value.default or given is None:
        return
    if timeout.name in ("ddp_timeout", "dist_timeout", "actor_rollout_ref.nccl_timeout"):
        if given in _MILLISECOND_LOOKS:
            yield Judgement(
                timeout.name,
                {launch.label: timeout.value.text},
                "suspicious",
                say(
                    "the unit is seconds: {value} is {hours} hours, and {fewer} was probably meant",
                    value=given,
                    hours=given // 3600,
                    fewer=given // 1000,
                ),
                places(timeout.value),
                f"--{timeout.name} {given // 1000}",
            )
        elif 0 < given < 60:
            yield Judgement(
                timeout.name,
                {launch.label: timeout.value.text},
                "suspicious",
                say("the unit is seconds: {value} s is less than a slow step takes", value=given),
                places(timeout.value),
                f"--{timeout.name} {given * 60}",
            )
    elif timeout.name == "distributed_timeout_minutes" and (
        given in _SECOND_LOOKS or given >= _TOO_MANY_MINUTES
    ):
        yield Judgement(
            timeout.name,
            {launch.label: timeout.value.text},
            "suspicious",
            say(
                "the unit is minutes: {value} is {hours} hours",
                value=given,
                hours=given // 60,
            ),
            places(timeout.value),
            f"--distributed-timeout-minutes {max(given // 60, 10)}",
        )


def _waits_longer(launch: Launch) -> Iterator[Judgement]:
    """The main rank may wait for its server longer than the others wait for the main rank.

    Sources: TRL 0.24.0 ``trainer/grpo_trainer.py`` (the main process connects for
    ``vllm_server_timeout`` seconds, then ``wait_for_everyone``), ms-swift 3.10.3
    ``llm/argument/rlhf_args.py`` (the master connects, the others go on to their first collective).
    """
    starts = [t for t in launch.timeouts if t.reaches == "server start" and t.milliseconds]
    groups = [t for t in launch.timeouts if t.reaches == "process groups" and t.milliseconds]
    if not starts or not groups or launch.processes == 1:
        return
    start, group = starts[0], groups[0]
    if (start.milliseconds or 0) <= (group.milliseconds or 0):
        return
    yield Judgement(
        group.name,
        {launch.label: _amount(group)},
        "suspicious",
        say(
            "the main rank waits up to {start} s for the server ({name}), and the others wait for "
            "it in a collective that ends them after {limit} s",
            start=(start.milliseconds or 0) // 1000,
            name=start.name,
            limit=(group.milliseconds or 0) // 1000,
        ),
        places(group.value, start.value, launch.place),
        f"--{group.name} {(start.milliseconds or 0) // 1000 + 600}",
        ("time-out-too-short",),
    )


def _heartbeat(launch: Launch) -> Iterator[Judgement]:
    value = launch.environment.get(_HEARTBEAT)
    seconds = number(value)
    if value is None or seconds is None:
        return
    limit = next(
        (
            t.milliseconds
            for t in launch.timeouts
            if t.reaches == "process groups" and t.milliseconds
        ),
        None,
    )
    if (
        limit is None
        or seconds * 1000 >= limit
        or launch.environment.get("TORCH_NCCL_ENABLE_MONITORING", value).text == "0"
    ):
        yield Judgement(
            _HEARTBEAT,
            {launch.label: value.text},
            "ok",
            say("not shorter than the collectives' time-out"),
            places(value),
        )
        return
    if seconds >= 480 and limit > 3_600_000:
        return
    yield Judgement(
        _HEARTBEAT,
        {launch.label: value.text},
        "suspicious",
        say(
            "{seconds} s without a sign of the watchdog thread end the process, before the "
            "collectives' "
            "own {limit} s: the message then blames the watchdog and not the collective",
            seconds=seconds,
            limit=limit // 1000,
        ),
        places(value),
        f"export {_HEARTBEAT}={limit // 1000 + 120}" if limit < 86_400_000 else None,
    )


def _without_effect(launch: Launch) -> Iterator[Judgement]:
    for name, reader in _NOT_READ.items():
        value = launch.environment.get(name)
        if value is not None:
            yield Judgement(
                name,
                {launch.label: value.text},
                "no effect",
                say(
                    "{reader} has no such variable: the time-out of process groups comes from "
                    "init_process_group(timeout=…), here {name}",
                    reader=reader,
                    name=next(
                        (t.name for t in launch.timeouts if t.reaches == "process groups"),
                        "its default",
                    ),
                ),
                places(value),
            )
