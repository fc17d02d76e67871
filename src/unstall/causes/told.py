"""What people saw themselves and wrote down, where it decides between causes.

A person's word is weaker than a log's line: claims stay below what logs can reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.causes.base import FAIR, STRONG, WEAK, evidence, excerpt, origin_of
from unstall.causes.reasons import from_settings, judged, remark_on, reported
from unstall.job import Job
from unstall.model.facts import EnvironmentValue, Fact, Remark, TrainingStep
from unstall.model.findings import Finding, Fix
from unstall.model.text import say

_EXPERTS = re.compile(r"\bexperts?\b|专家", re.IGNORECASE)
_STILL = ("stuck", "no-output", "gpu-busy")

#: Settings whose effect is the test that decides: where one helped, it was what it changes.
_PROVES = {
    "NCCL_IB_DISABLE": "network-transport",
    "NCCL_IB_GID_INDEX": "network-transport",
    "NCCL_IB_HCA": "network-transport",
    "NCCL_IB_TC": "network-transport",
    "NCCL_IB_SL": "network-transport",
    "NCCL_NET_GDR_LEVEL": "network-transport",
    "NCCL_CROSS_NIC": "network-transport",
    "NCCL_SOCKET_IFNAME": "network-interface",
    "GLOO_SOCKET_IFNAME": "network-interface",
    "NCCL_SHM_DISABLE": "shm-too-small",
    "NCCL_NVLS_ENABLE": "fabric-manager",
}
#: Settings that only go round the fault, with the value that does: what they switch off is to be
#: mended.
_ROUND = {"NCCL_IB_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
#: Lines of a block of settings between "after adding" and "it works", at most, and how far above
#: the first of them the former may stand.
_BLOCK, _ABOVE = 10, 3


def claims(job: Job, cause: str) -> Iterable[Finding]:
    """The claim of one cause that rests on a person's words alone."""
    yield from _proved(job, cause)
    if cause == "rank-dependent-branch":
        yield from _apart(job)
    elif cause == "uneven-batches":
        yield from _data_ended(job)
    elif cause == "data-dependent-graph":
        yield from _experts(job)
    elif cause == "slow-preprocessing":
        yield from _preparing(job)
    elif cause == "rendezvous-environment":
        yield from _never_met(job)


def _apart(job: Job) -> Iterable[Finding]:
    seen = remark_on(job, "ranks-apart")
    if seen is None or job.deaths:
        return
    mine, other = seen.values["mine"], seen.values["other"]
    rank = seen.values.get("rank")
    yield Finding(
        cause="rank-dependent-branch",
        summary=say(
            "As reported, some ranks are in {mine} and others in {other}: they do not wait for "
            "each other, but took different ways through the program.",
            mine=mine,
            other=other,
        ),
        support=(reported(seen, STRONG + WEAK),),
        fixes=(
            Fix(
                say(
                    "let every rank reach the same collectives in the same order: decide on one "
                    "rank and broadcast the decision, and keep collectives out of conditions on "
                    "the rank, the clock or a local value"
                )
            ),
        ),
        next_step=say(
            "stacks of both parties (py-spy dump --pid PID) name the two lines; the condition that "
            "parts them is where their call paths part. Flight Recorder dumps show whether it is "
            "one process group"
        ),
        origin=origin_of(job.trainer, (int(rank),) if rank is not None else ()),
        excerpts=(excerpt(seen, "origin"),),
        ceiling=0.7,
    )


def _data_ended(job: Job) -> Iterable[Finding]:
    seen = remark_on(job, "data-ended")
    still = remark_on(job, *_STILL)
    if seen is None or (still is None and not job.blocked) or job.deaths:
        return
    rank = seen.values.get("rank")
    yield Finding(
        cause="uneven-batches",
        summary=say(
            "As reported, {who} ran out of data before the others, which wait for it in a "
            "collective of their next step.",
            who=say("rank {rank}", rank=rank) if rank is not None else say("one rank"),
        ),
        support=(reported(seen, STRONG + WEAK),),
        fixes=(
            Fix(
                say(
                    "give every rank the same number of steps: pad or drop the last batches "
                    "(DistributedSampler, drop_last), or agree on the end with one all_reduce "
                    "before each step"
                )
            ),
        ),
        next_step=say(
            "print on every rank how many batches its loader gives, in training and in evaluation"
        ),
        origin=origin_of(job.trainer, (int(rank),) if rank is not None else ()),
        excerpts=(excerpt(seen, "origin"),),
        ceiling=0.7,
    )


def _experts(job: Job) -> Iterable[Finding]:
    idle = next(
        (r for r in job.all(Remark) if r.topic == "mixed-data" and _EXPERTS.search(r.quote)), None
    )
    still = remark_on(job, *_STILL)
    if idle is None or (still is None and not job.blocked) or job.deaths:
        return
    yield Finding(
        cause="data-dependent-graph",
        summary=say(
            "As reported, experts without tokens are skipped on some ranks: those miss the "
            "collectives of these experts' parameters, and the others wait."
        ),
        support=(
            reported(idle, STRONG),
            *([reported(still, WEAK)] if still is not None else []),
        ),
        fixes=(
            Fix(
                say(
                    "DeepSpeed ZeRO-3: set_z3_leaf_modules(model, [the sparse MoE block's class]) "
                    "before deepspeed.initialize, so that the block's parameters are gathered and "
                    "reduced as one"
                )
            ),
            Fix(
                say(
                    "elsewhere: let every expert take part in each step, if only with a zero-sized "
                    "or dummy input whose result is multiplied by 0"
                )
            ),
        ),
        next_step=say(
            "print on every rank how many tokens each expert got at the step that hangs; with one "
            "dummy token for each expert it must run through"
        ),
        origin=origin_of(job.trainer, ()),
        excerpts=(excerpt(idle, "origin"),),
        ceiling=0.7,
    )


def _preparing(job: Job) -> Iterable[Finding]:
    told = remark_on(job, "slow-data")
    if told is None or job.deaths:
        return
    against = [
        evidence(say("training steps were told before"), STRONG, step)
        for step in job.all(TrainingStep)[:1]
    ]
    yield Finding(
        cause="slow-preprocessing",
        summary=say(
            "As reported, preparing the data takes longer than the ranks wait for each other."
        ),
        support=(reported(told, STRONG + WEAK),),
        against=tuple(against),
        fixes=(
            Fix(
                say(
                    "prepare the data set once beforehand, in a run without the launcher, and "
                    "train from the saved result"
                )
            ),
            Fix(
                say(
                    "a longer time-out where the ranks wait: ddp_timeout (Transformers), "
                    "init_process_group(timeout=...); on Ascend HCCL_CONNECT_TIMEOUT and "
                    "HCCL_EXEC_TIMEOUT"
                )
            ),
        ),
        next_step=say("compare the time that preparation takes with the time-out"),
        origin=origin_of(job.trainer, (0,)),
        excerpts=(excerpt(told, "origin"),),
        ceiling=0.7,
    )


def _never_met(job: Job) -> Iterable[Finding]:
    """It stands still, and the launch script shows why the ranks cannot meet."""
    still = remark_on(job, *_STILL)
    conflicts = judged(job, "rendezvous-environment", "conflict")
    if still is None or not conflicts or job.blocked or job.deaths or job.all(TrainingStep):
        return
    yield Finding(
        cause="rendezvous-environment",
        summary=say(
            "It stands still, as reported, and with these settings the ranks cannot meet: "
            "{setting}.",
            setting=conflicts[0].name,
        ),
        support=(
            *from_settings(conflicts, STRONG),
            reported(still, WEAK),
        ),
        fixes=tuple(
            Fix(say("in the launch script: {correction}", correction=text))
            for one in conflicts[:3]
            if (text := one.correction)
        ),
        next_step=say("mend these settings; if it fails still, give the log of that run as well"),
        origin=origin_of(job.trainer, (), role="launcher"),
        excerpts=(excerpt(still, "messenger"),),
        ceiling=0.75,
    )


def _proved(job: Job, cause: str) -> Iterable[Finding]:
    """A person says that a setting made it work."""
    found = next(
        (
            (r, r.values["name"], r.values.get("value", ""))
            for r in job.all(Remark)
            if r.topic == "setting-works" and _PROVES.get(r.values.get("name", "")) == cause
        ),
        None,
    ) or _block(job, cause)
    if found is None:
        return
    told, name, value = found
    if value != _ROUND.get(name, value):
        return
    yield Finding(
        cause=cause,
        summary=say(
            "As reported, it works with {name}={value}: what that setting changes was at fault.",
            name=name,
            value=value,
        ),
        support=(
            evidence(
                say("reported, the test that decides: {quote}", quote=told.quote[:200]),
                STRONG + FAIR,
                told,
            ),
        ),
        fixes=(
            Fix(
                say(
                    "keep {name}={value} for now, at the price of speed: it goes round the fault. "
                    "Then mend what it switches off",
                    name=name,
                    value=value,
                )
                if name in _ROUND
                else say("set {name}={value} on all nodes", name=name, value=value)
            ),
        ),
        next_step=say(
            "run once with it and once without, NCCL_DEBUG=INFO both times: the lines in which "
            "the two differ (“Using network”, “via …”) show what NCCL chose instead"
        ),
        origin=origin_of(job.trainer, (), role="node"),
        excerpts=(excerpt(told, "origin"),),
        ceiling=0.75,
    )


def _block(job: Job, cause: str) -> tuple[Fact, str, str] | None:
    """A setting of a block between "after adding" and "it works"."""
    begun = [one for one in job.all(Remark) if one.topic == "after-adding"]
    for worked in job.all(Remark):
        if worked.topic != "works-now":
            continue
        block = [one for one in job.all(EnvironmentValue) if _above(one, worked, _BLOCK)]
        if not block or not any(_above(one, block[0], _ABOVE) for one in begun):
            continue
        for one in block:
            if _PROVES.get(one.name) == cause:
                return one, one.name, one.value
    return None


def _above(one: Fact, other: Fact, lines: int) -> bool:
    """Whether a fact stands at most so many lines above another."""
    return one.place.source == other.place.source and 0 < other.place.line - one.place.line <= lines
