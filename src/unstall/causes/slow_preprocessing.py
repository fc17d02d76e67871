"""``slow-preprocessing``: one rank prepares data while the others wait in the first collective."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    collective_of,
    evidence,
    excerpt,
    group_of,
    origin_of,
    ranks_text,
)
from unstall.causes.reasons import (
    absence,
    began,
    began_evidence,
    boilerplate,
    died_before,
    excerpts_of,
    last_before,
    network_trouble,
    no_network_trouble,
    waiting,
)
from unstall.job import Blocked, Job
from unstall.model.facts import NcclInit, Phase, Progress, StoreFailure
from unstall.model.findings import Change, Evidence, Exonerated, Finding, Fix
from unstall.model.plan import Program
from unstall.model.text import say

PREPARING = ("tokenize", "load-data")


def examine(job: Job) -> Iterable[Finding]:
    """A claim for the first stall that is a group's first collective, or for a late unique id."""
    blocked = next((b for b in job.blocked if b.stall.is_first_collective), None)
    if blocked is not None and not _serves(blocked.program) and not blocked.everyone_waits:
        finding = _stalled(job, blocked)
        if finding is not None:
            yield finding
        return
    late = [f for f in job.all(StoreFailure) if f.kind in ("unique-id", "wait-timeout")]
    bars = [bar for bar in job.all(Progress) if _prepares(bar)]
    if late and bars and not job.blocked:
        yield _unpublished(job, late[0], bars[-1])


def _stalled(job: Job, blocked: Blocked) -> Finding | None:
    stall = blocked.stall
    bars = [bar for bar in last_before_or_during(job, blocked) if _prepares(bar)]
    phases = [p for p in last_before(job, Phase, blocked) if p.kind in PREPARING]
    if not bars and not phases:
        return None
    support: list[Evidence] = [
        waiting(blocked),
        evidence(
            say(
                "it is the first collective of the group, a barrier or the like: ranks meet there "
                "after preparing data"
            )
            if stall.looks_like_barrier
            else say("it is the first collective of the group: nothing was ever completed in it"),
            FAIR if stall.looks_like_barrier else WEAK,
            stall.first,
        ),
        *absence(blocked),
        *began_evidence(job, blocked),
    ]
    against: list[Evidence] = list(died_before(job, blocked))
    missing = blocked.absent
    if bars:
        support.extend(_bar_evidence(job, blocked, bars[0]))
    else:
        unfinished = not phases[0].finished
        support.append(
            evidence(
                say(
                    "the last phase told before the wait is data preparation: {quote}",
                    quote=phases[0].quote[:120],
                ),
                FAIR if unfinished else WEAK,
                phases[0],
            )
        )
    if job.all(NcclInit) and any(i.stage == "complete" for i in job.all(NcclInit)):
        against.append(
            evidence(
                say("communicators were complete on the ranks that waited"),
                WEAK,
                job.all(NcclInit)[0],
            )
        )
    for trouble in network_trouble(job)[:1]:
        if job.chronology.before(trouble, stall.first) is not False:
            against.append(
                evidence(say("the network complained before the time-outs"), FAIR, trouble)
            )
    return Finding(
        cause="slow-preprocessing",
        summary=say(
            "{ranks} was still preparing data when the others' first collective timed out.",
            ranks=ranks_text(missing),
        )
        if len(missing) == 1
        else say("One rank was still preparing data when the others' first collective timed out."),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(job, blocked.program),
        next_step=say(
            "compare the time that preparation takes with the time-out; a stack of the missing "
            "rank (py-spy dump --pid PID) shows it in the data-set code"
        ),
        origin=origin_of(
            blocked.program, missing if len(missing) <= 2 else (), group=group_of(blocked)
        ),
        collective=collective_of(blocked),
        waiting_ranks=tuple(sorted(r for r in stall.waiters if r >= 0)),
        started_at=began(job, blocked),
        exonerated=(
            *no_network_trouble(job),
            *boilerplate(job),
            Exonerated(
                "peer-to-peer-blocked",
                say("the missing rank never entered the collective, so its transport was not used"),
                (),
            ),
        ),
        excerpts=(*excerpts_of(blocked), *(excerpt(bar, "origin") for bar in bars[:2])),
    )


def last_before_or_during(job: Job, blocked: Blocked) -> list[Progress]:
    """Bars up to the last time-out of the stall, the latest first: lines of ranks interleave."""
    last = max(fact.place for fact in blocked.stall.waiters.values())
    bars = [
        bar
        for bar in job.all(Progress)
        if bar.place.source != last.source or bar.place.line <= last.line
    ]
    return sorted(bars, key=lambda bar: bar.place, reverse=True)


def _bar_evidence(job: Job, blocked: Blocked, bar: Progress) -> list[Evidence]:
    del job
    found: list[Evidence] = []
    shown = bar.label.strip() or bar.quote[:60]
    unfinished = bar.done is None or bar.total is None or bar.done < bar.total
    if unfinished:
        found.append(
            evidence(
                say(
                    "“{label}” stood at {percent} % after {elapsed} s when the time-out fired",
                    label=shown[:80],
                    percent=_percent(bar),
                    elapsed=_seconds(bar.elapsed),
                ),
                STRONG,
                bar,
            )
        )
        if bar.remaining is not None and bar.remaining > 0:
            found.append(
                evidence(
                    say(
                        "about {minutes} more minutes were needed",
                        minutes=max(1, round(bar.remaining / 60)),
                    ),
                    0.0,
                    bar,
                )
            )
    limit = blocked.stall.timeout_ms
    if bar.elapsed and limit and 0.5 <= bar.elapsed * 1000 / limit <= 2:
        found.append(
            evidence(
                say(
                    "the time-out of {limit} s equals the time since preparation began",
                    limit=round(limit / 1000),
                ),
                FAIR,
                bar,
            )
        )
    return found


def _percent(bar: Progress) -> str:
    if bar.percent is not None:
        return f"{bar.percent:.0f}"
    if bar.done is not None and bar.total:
        return f"{100 * bar.done / bar.total:.0f}"
    return "?"


def _seconds(value: float | None) -> str:
    return "?" if value is None else str(round(value))


def _prepares(bar: Progress) -> bool:
    label = bar.label.lower()
    words = (
        "token",
        "map",
        "dataset",
        "preprocess",
        "packing",
        "grouping",
        "filter",
        "train split",
        "examples",
        "converting format",
        "sharding",
        "index",
        "cache",
        "数据",
        "预处理",
        "分词",
    )
    return any(word in label for word in words)


def _serves(program: Program | None) -> bool:
    return program is not None and program.role in ("rollout", "inference", "reward")


def _unpublished(job: Job, late: StoreFailure, bar: Progress) -> Finding:
    return Finding(
        cause="slow-preprocessing",
        summary=say(
            "A rank was still preparing data when the others gave up waiting for it to "
            "publish the communicator's id."
        ),
        support=(
            evidence(
                say(
                    "ranks waited in the store for a key that the missing rank sets on its "
                    "first collective"
                ),
                FAIR,
                late,
            ),
            evidence(say("“{label}” was still running", label=bar.label.strip()[:80]), STRONG, bar),
        ),
        fixes=_fixes(job, job.trainer),
        next_step=say("compare the time that preparation takes with the store's time-out"),
        origin=origin_of(job.trainer, (0,)),
        started_at=None,
        exonerated=tuple(no_network_trouble(job)),
        excerpts=(excerpt(late, "messenger"), excerpt(bar, "origin")),
    )


def _fixes(job: Job, program: Program | None) -> tuple[Fix, ...]:
    del job
    fixes = [
        Fix(
            say(
                "prepare the data once before the run (tokenize beforehand, save to a path, reuse "
                "the cache)"
            )
        ),
        Fix(
            say(
                "raise the process groups' time-out above the time that preparation needs "
                "(--ddp_timeout SECONDS, or timeout= of init_process_group): the rank is alive and "
                "only late"
            ),
            Change(program.label, {"ddp_timeout": "7200"})
            if program is not None and "ddp_timeout" not in program.flags and program.flags
            else None,
        ),
        Fix(say("more workers for preparation (--preprocessing_num_workers, num_proc)")),
    ]
    if program is not None:
        lacking = [
            f for f in ("ddp_timeout", "preprocessing_num_workers") if f not in program.flags
        ]
        if lacking and program.flags:
            fixes.append(
                Fix(
                    say(
                        "the launch command sets neither: {flags}",
                        flags=", ".join("--" + flag for flag in lacking),
                    )
                )
            )
    return tuple(fixes)


CAUSE = Cause(
    id="slow-preprocessing",
    family="one rank is alive but late",
    title=say("one rank still prepares data"),
    about=say(
        "Frameworks let rank 0 tokenize or index the data set first and have the others wait in a "
        "barrier, the first collective of the group. When that takes longer than the group's "
        "time-out, the waiting ranks are shot by their watchdogs, and the launcher names one of "
        "them as the first failure."
    ),
    shows=(
        say(
            "every rank but one times out in SeqNum 1, a barrier (NumelIn 1), or in store->get of "
            "the ncclUniqueId"
        ),
        say("a data-set progress bar whose elapsed time is about the time-out"),
    ),
    decide=say(
        "a stack of the missing rank while the others wait, or the time that preparation "
        "takes alone"
    ),
    remedies=(
        say("prepare the data once, before the run"),
        say("a longer time-out: here it helps, for the rank is alive"),
        say("more or fewer preprocessing workers"),
    ),
    look_alikes=(
        LookAlike(
            "peer-to-peer-blocked",
            say("every rank, 0 included, hangs in the first collective after Init COMPLETE"),
        ),
        LookAlike("network-transport", say("the network's own errors stand in the log")),
        LookAlike(
            "rendezvous-environment",
            say("it fails in the launcher's rendezvous, before any process group exists"),
        ),
    ),
    examine=examine,
    sources=("transformers TrainingArguments.main_process_first", "datasets.map progress bars"),
)
