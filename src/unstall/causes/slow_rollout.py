"""``slow-rollout``: generation takes longer than the trainer's ranks wait for it."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.activity import apart_evidence
from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    origin_of,
    ranks_text,
)
from unstall.causes.reasons import (
    boilerplate,
    died_before,
    network_before,
    no_network_trouble,
    remark_on,
    reported,
)
from unstall.causes.scene import Scene, outlasts, scenes, waits_elsewhere
from unstall.causes.servers import Server, client_timeouts, server, server_evidence_against
from unstall.job import Job
from unstall.model.facts import EngineLoad, Fact, Phase, Progress
from unstall.model.findings import Evidence, Excerpt, Exonerated, Finding, Fix
from unstall.model.plan import Program
from unstall.model.text import Text, say

_GENERATING = ("processed prompts", "generating", "rollout", "生成", "采样")

#: Statistics older than so many seconds do not show what the server did at the time-out.
STALE = 300.0

#: Operations by which one rank hands the answers to the others (TRL, ms-swift: gather_object,
#: broadcast_object_list): sizes first, of one element for each rank.
_OBJECTS = (
    "BROADCAST",
    "ALLGATHER",
    "_ALLGATHER_BASE",
    "GATHER",
    "SCATTER",
    "ALLREDUCE",
    "BARRIER",
)


def examine(job: Job) -> Iterable[Finding]:
    """A claim where ranks waited for one that waits for a server which is still generating."""
    seen = server(job)
    for scene in scenes(job):
        if scene.blocked is not None and scene.blocked.everyone_waits:
            continue
        if scene.few_missing or scene.seen.split:
            finding = _waited(job, scene, seen)
            if finding is not None:
                yield finding
                return
    if not job.blocked:
        finding = _client(job, seen) or _told(job, seen)
        if finding is not None:
            yield finding


def _waited(job: Job, scene: Scene, seen: Server) -> Finding | None:
    busy = _busy(job, seen, scene.first)
    apart = apart_evidence(scene.seen, ("generate",), STRONG)
    bars = _generating(job, scene)
    if not busy and not (apart and bars) and not bars:
        return None
    support = [*scene.support, *busy, *apart, *bars]
    stall = scene.blocked.stall if scene.blocked is not None else None
    if stall is not None and stall.work.op in _OBJECTS and (stall.work.numel_in or 99) <= 64:
        support.append(
            evidence(
                say(
                    "an operation of few elements: ranks wait there for the answers that one "
                    "rank fetches"
                ),
                WEAK,
                stall.first,
            )
        )
    against = [
        *died_before(job, scene.blocked),
        *waits_elsewhere(job, scene),
        *network_before(job, scene.first),
        *server_evidence_against(seen),
        *_idle(seen),
    ]
    missing = scene.missing if scene.few_missing else ()
    return Finding(
        cause="slow-rollout",
        summary=say(
            "{ranks} was still waiting for the rollout's answers when the other ranks gave up: "
            "generation took longer than their time-out.",
            ranks=ranks_text(missing) if missing else say("one rank"),
        ),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(scene.program),
        next_step=_next_step(),
        origin=origin_of(_program(job, scene.program, seen), () if seen.busy else missing),
        collective=scene.collective,
        waiting_ranks=scene.waiters,
        waiting_program=scene.program.label if scene.program is not None else None,
        started_at=scene.began,
        exonerated=(*_not_desync(seen), *no_network_trouble(job), *boilerplate(job)),
        excerpts=(*scene.excerpts, *_lines(seen)),
    )


def _program(job: Job, trainer: Program | None, seen: Server) -> Program | None:
    """The server where its own log shows it busy; else the program whose ranks generate."""
    serving = job.of_role("rollout") or job.of_role("inference")
    if seen.busy is not None and len(serving) == 1:
        return serving[0]
    return trainer


def _busy(job: Job, seen: Server, when: Fact) -> list[Evidence]:
    """That the server still worked; its statistics come every ten seconds, so old ones say less."""
    if seen.busy is None:
        return []
    gap = job.chronology.seconds_between(seen.busy, when)
    stale = gap is not None and gap > STALE
    return [
        evidence(
            say(
                "the server's last statistics: {running} requests running, {rate} tokens/s: it "
                "works and is not done",
                running=seen.busy.running or 0,
                rate=round(seen.busy.throughput or 0),
            ),
            WEAK if stale else STRONG,
            seen.busy,
        )
    ]


def _idle(seen: Server) -> list[Evidence]:
    if seen.idle is None:
        return []
    return [
        evidence(
            say("the server had no request at the end: it was not the one to wait for"),
            STRONG,
            seen.idle,
        )
    ]


def _generating(job: Job, scene: Scene) -> list[Evidence]:
    """A bar of generation that had not ended, or a word of generation as the last phase."""
    last = max(
        scene.blocked.stall.waiters.values() if scene.blocked is not None else [scene.first],
        key=lambda fact: fact.place,
    )
    for bar in reversed(job.all(Progress)):
        if not any(word in bar.label.lower() for word in _GENERATING):
            continue
        if bar.place.source == last.place.source and bar.place > last.place:
            continue
        if bar.speaker.rank is not None and bar.speaker.rank in scene.waiters:
            continue
        if bar.total is not None and bar.done is not None and bar.done < bar.total:
            return [
                evidence(
                    say(
                        "“{label}” stood at {done} of {total}",
                        label=bar.label.strip()[:80],
                        done=round(bar.done),
                        total=round(bar.total),
                    ),
                    STRONG if outlasts(bar, scene) else FAIR,
                    bar,
                )
            ]
        return []
    phases = [p for p in job.all(Phase) if p.place < scene.first.place]
    if phases and phases[-1].kind == "generate" and not phases[-1].finished:
        rank = phases[-1].speaker.rank
        if rank is None or rank not in scene.waiters:
            return [
                evidence(
                    say(
                        "the last thing told before the wait is generation: {quote}",
                        quote=phases[-1].quote[-160:],
                    ),
                    FAIR,
                    phases[-1],
                )
            ]
    return []


# --- without a watchdog: the client gave up ----------------------------------------------------


def _client(job: Job, seen: Server) -> Finding | None:
    """The trainer's HTTP client gave up while the server was still generating."""
    given_up = client_timeouts(job)
    if not given_up or seen.busy is None:
        return None
    first = given_up[0]
    support = [
        evidence(
            say("the trainer's request to the server timed out: {quote}", quote=first.quote[:160]),
            FAIR,
            first,
        ),
        *_busy(job, seen, first),
    ]
    return Finding(
        cause="slow-rollout",
        summary=say(
            "The trainer stopped waiting for the rollout server's answer while the server was "
            "still generating."
        ),
        support=tuple(support),
        against=(*server_evidence_against(seen), *_idle(seen)),
        fixes=_fixes(job.trainer),
        next_step=_next_step(),
        origin=origin_of(_program(job, job.trainer, seen), (), role="rollout"),
        started_at=job.chronology.with_year(first.moment),
        exonerated=tuple(_not_desync(seen)),
        excerpts=(excerpt(first, "messenger"), *_lines(seen)),
    )


def _told(job: Job, seen: Server) -> Finding | None:
    """A person says that rollouts last longer than the ranks wait, and that a time-out follows."""
    told, timeout = remark_on(job, "slow-rollout"), remark_on(job, "collective-timeout")
    if told is None or timeout is None or job.deaths:
        return None
    return Finding(
        cause="slow-rollout",
        summary=say("As reported, rollouts take longer than the trainer's ranks wait for them."),
        support=(
            reported(told, STRONG),
            reported(timeout, WEAK),
        ),
        against=tuple(server_evidence_against(seen)),
        fixes=_fixes(job.trainer),
        next_step=say("compare the time that a rollout takes with the time-out of the group"),
        origin=origin_of(job.trainer, (), role="trainer"),
        excerpts=(excerpt(told, "origin"),),
        ceiling=0.7,
    )


def _lines(seen: Server) -> list[Excerpt]:
    lines: list[Fact] = [load for load in (seen.busy,) if isinstance(load, EngineLoad)]
    return [excerpt(line, "origin") for line in lines]


def _not_desync(seen: Server) -> list[Exonerated]:
    if seen.busy is None:
        return []
    return [
        Exonerated(
            "engine-desync",
            say("the server still produced tokens at the end"),
            (seen.busy.place,),
        )
    ]


def _next_step() -> Text:
    return say(
        "compare the time that the longest answer takes (tokens over tokens per second) with the "
        "time-out; see in the server's log whether its last requests end after the trainer's death"
    )


def _fixes(program: Program | None) -> tuple[Fix, ...]:
    del program
    return (
        Fix(
            say(
                "raise the time-out of the group in which the ranks wait for the answers "
                "(--ddp_timeout SECONDS, or timeout= of init_process_group; the HTTP client's own "
                "time-out too): the server is alive and only late"
            )
        ),
        Fix(
            say(
                "shorter rollouts: a lower max_completion_length, fewer generations for each "
                "prompt, an overlong filter"
            )
        ),
        Fix(say("more devices or replicas for the rollout, or smaller batches for each request")),
    )


CAUSE = Cause(
    id="slow-rollout",
    family="one rank is alive but late",
    title=say("generation outlasts the ranks' time-out"),
    about=say(
        "In reinforcement learning one rank of the trainer asks the rollout server and hands the "
        "answers to the others, which wait in a small object collective meanwhile. A long answer, "
        "a long queue or a slow engine makes that wait longer than the group's time-out: the "
        "waiting ranks end the job while the server is still generating."
    ),
    shows=(
        say("every rank but one waits in an operation of few elements (object collectives)"),
        say("the server's statistics show running requests and tokens per second above 0"),
        say("a progress bar of generation that has not ended"),
    ),
    decide=say("the server's log at the time of the time-outs"),
    remedies=(
        say("a longer time-out for the group of the object collectives: here it helps"),
        say("shorter rollouts"),
        say("more rollout devices"),
    ),
    look_alikes=(
        LookAlike("engine-desync", say("an engine has running requests and 0 tokens per second")),
        LookAlike("weight-sync-failure", say("the server has no request and waits for weights")),
        LookAlike("driver-stall", say("the server has no request, and no watchdog speaks")),
        LookAlike("python-exception", say("the server's log has a traceback")),
    ),
    examine=examine,
    sources=("TRL trainer/grpo_trainer.py (gather_object, broadcast_object_list)",),
)
