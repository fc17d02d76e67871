"""``engine-desync``: engines of one inference server that step together fell out of step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from unstall import stacks
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
    no_network_trouble,
    waiting,
)
from unstall.job import Blocked, Job
from unstall.model.facts import (
    EngineLoad,
    EngineNotice,
    Fact,
    GroupStatus,
    ProcessStack,
    Progress,
    PythonException,
)
from unstall.model.findings import Evidence, Exonerated, Finding, Fix, Origin, ProcessGroup
from unstall.model.plan import Program
from unstall.model.text import Text, say
from unstall.programs.identify import probabilities
from unstall.programs.remedies import remedies
from unstall.programs.waves import wave_reading

ENGINES = ("vllm", "sglang")
SERVING = ("rollout", "inference", "reward")

#: Reasons by which the group was recognised count together at most so much: they are one
#: conclusion (whose group it is), not as many independent ones.
GROUP_WEIGHT = STRONG

#: Below this likelihood that the group is an engine's no claim is made from time-outs alone.
LIKELY = 0.6


def examine(job: Job) -> Iterable[Finding]:
    """A claim from time-outs, from stacks, or from both."""
    seen = _Stacks.of(job)
    for blocked in job.blocked:
        if _in_engine(blocked) and (blocked.absent or seen.out_of_step):
            yield _stalled(job, blocked, seen)
            return
    if seen.out_of_step:
        yield _from_stacks(job, seen)


def _in_engine(blocked: Blocked) -> bool:
    best, program = blocked.best, blocked.program
    if best is None or best.framework not in ENGINES or best.group is None:
        return False
    if blocked.stall.default_group:
        return False
    return (program is None or program.role in SERVING) and _share(blocked) >= LIKELY


def _share(blocked: Blocked) -> float:
    """How likely the group is an inference engine's, over all readings of its tag."""
    shares = probabilities(blocked.matches)
    return sum(
        share
        for match, share in zip(blocked.matches, shares, strict=True)
        if match.framework in ENGINES and match.group is not None
    )


# --- from time-outs --------------------------------------------------------------------------


def _stalled(job: Job, blocked: Blocked, seen: _Stacks) -> Finding:
    best, stall = blocked.best, blocked.stall
    assert best is not None  # noqa: S101 - _in_engine saw it
    program = blocked.program
    support: list[Evidence] = [*_recognised(best.support), *absence(blocked)]
    against: list[Evidence] = [*best.against, *died_before(job, blocked)]
    support.extend(_entered(blocked))
    wave = wave_reading(stall.work.seq, best, program, job.versions)
    if wave is not None:
        first = stall.first
        weight = min(-math.log(max(wave.chance, 1e-3)), STRONG) if wave.first_of_wave else 0.0
        support.append(evidence(wave.text, weight, first, source=wave.source))
    support.extend(_loads(job))
    support.extend(_bars(job, blocked))
    support.extend(seen.evidence)
    support.extend(began_evidence(job, blocked))
    support.append(waiting(blocked))
    missing = blocked.absent
    return Finding(
        cause="engine-desync",
        summary=_summary(program, missing, sorted(r for r in stall.waiters if r >= 0)),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(job, program),
        next_step=_next_step(),
        origin=origin_of(program, missing, role="inference", group=group_of(blocked)),
        collective=collective_of(blocked),
        waiting_ranks=tuple(sorted(r for r in stall.waiters if r >= 0)),
        started_at=began(job, blocked),
        exonerated=tuple(_exonerated(job, blocked)),
        excerpts=tuple(excerpts_of(blocked)),
        timeline=tuple(_timeline(job, blocked)),
        # no surer of the cause than of whose group it is; sizes that nobody told make less sure,
        # unless the count of steps agrees with them; outside the engines' step group a worker
        # can be missing for its own reasons
        ceiling=round(
            min(0.97 if wave is not None or seen.out_of_step else 0.85, _share(blocked))
            * (0.75 if best.guessed and not (wave and wave.first_of_wave) else 1.0),
            2,
        ),
    )


def _recognised(reasons: Sequence[Evidence]) -> list[Evidence]:
    """The reasons for whose group it is, their weights scaled to one conclusion's."""
    total = sum(item.weight for item in reasons)
    scale = min(1.0, GROUP_WEIGHT / total) if total > 0 else 0.0
    return [
        Evidence(item.text, item.place, round(item.weight * scale, 2), item.source)
        for item in reasons
    ]


def _entered(blocked: Blocked) -> list[Evidence]:
    """That a waiter was in the operation after the last one it had finished."""
    found = []
    for rank, status in sorted(blocked.stall.statuses.items()):
        if rank not in blocked.stall.waiters or status.last_enqueued is None:
            continue
        if status.last_completed is not None and (
            status.last_enqueued == status.last_completed + 1
        ):
            found.append(
                evidence(
                    say(
                        "rank {rank} had completed {completed} and entered {enqueued}: all before "
                        "it went well, only this one lacked its partner",
                        rank=rank,
                        completed=status.last_completed,
                        enqueued=status.last_enqueued,
                    ),
                    WEAK,
                    status,
                )
            )
    return found[:2]


def _summary(program: Program | None, missing: Sequence[int], waiters: Sequence[int]) -> Text:
    label = program.label if program is not None else "inference server"
    if missing and waiters:
        return say(
            "The engines of the {label} fell out of step: {waiting} waited in a collective that "
            "{missing} never entered; the fault is not the trainer's.",
            label=label,
            waiting=ranks_text(waiters),
            missing=ranks_text(missing),
        )
    return say(
        "The engines of the {label} fell out of step: one waits in a collective that another never "
        "entered.",
        label=label,
    )


def _loads(job: Job) -> list[Evidence]:
    """Engine statistics: one engine has requests and produces nothing, another has none."""
    stuck = next(
        (s for s in job.all(EngineLoad) if (s.running or 0) > 0 and s.throughput == 0), None
    )
    if stuck is None:
        return []
    found = [
        evidence(
            say(
                "engine {engine} had {running} running requests and produced nothing: the "
                "stall had begun by {time}",
                engine=stuck.engine or 0,
                running=stuck.running or 0,
                time=_clock(job, stuck),
            ),
            FAIR,
            stuck,
        )
    ]
    for other in job.all(EngineLoad):
        near = abs(other.place.line - stuck.place.line) <= 8
        if near and other.engine != stuck.engine and other.running == 0:
            text = say(
                "engine {engine} had 0 running requests then: an idle engine out of step",
                engine=other.engine or 0,
            )
            found.append(evidence(text, FAIR, other))
            break
    return found


def _clock(job: Job, fact: Fact) -> str:
    moment = job.chronology.moment_of(fact)
    return moment.stamp.strftime("%H:%M:%S") if moment is not None else "?"


def _bars(job: Job, blocked: Blocked | None) -> list[Evidence]:
    """Two bars of one size, of which one ended and the other stood still: two front ends."""
    limit = blocked.stall.first.place if blocked is not None else None
    bars = [
        bar
        for bar in job.all(Progress)
        if bar.total is not None
        and not bar.label.strip()
        and (limit is None or bar.place.source != limit.source or bar.place < limit)
    ]
    tail = bars[-12:]
    if not tail:
        return []
    total = tail[-1].total
    same = [bar for bar in tail if bar.total == total]
    ended = next((bar for bar in reversed(same) if bar.done == total), None)
    stood = next((bar for bar in reversed(same) if bar.done == 0), None)
    if ended is None or stood is None:
        return []
    return [
        evidence(
            say(
                "of the last progress bars of {total} one reached {total}/{total} and another "
                "stands at 0/{total}: one front end returned, the other still waits (bars carry no "
                "process id, so which is which cannot be told)",
                total=total or 0,
            ),
            WEAK,
            stood,
        )
    ]


def _timeline(job: Job, blocked: Blocked) -> list[Evidence]:
    told = say("the watchdog of the waiting rank reports the time-out")
    return [*began_evidence(job, blocked), evidence(told, 0.0, blocked.stall.first)]


# --- from stacks -----------------------------------------------------------------------------


class _Stacks:
    """What stacks say of engines that step together."""

    def __init__(self) -> None:
        self.stepping: list[tuple[ProcessStack, int | None]] = []
        self.idle: list[tuple[ProcessStack, int | None]] = []
        self.returned: list[ProcessStack] = []
        self.waiting_front: list[ProcessStack] = []
        self.program: Program | None = None

    @classmethod
    def of(cls, job: Job) -> _Stacks:
        seen = cls()
        for stack in job.all(ProcessStack):
            main = stacks.main_thread(stack)
            if main is None:
                continue
            identity = stacks.identify(stack)
            wait = stacks.wait_of(main)
            if identity.process in ("engine", "worker") and identity.role in SERVING:
                if "data-parallel-sync" in wait.keys or "dummy-step" in wait.keys:
                    seen.stepping.append((stack, identity.engine_index))
                elif "engine-idle" in wait.keys:
                    seen.idle.append((stack, identity.engine_index))
            elif identity.process == "front end":
                if "awaits-engine" in wait.keys:
                    seen.waiting_front.append(stack)
                elif wait.kind == "pipe":
                    seen.returned.append(stack)
        serving = [p for p in job.programs if p.role in SERVING]
        seen.program = next((p for p in serving if p.role == "rollout"), None) or next(
            iter(serving), None
        )
        return seen

    @property
    def out_of_step(self) -> bool:
        return bool(self.stepping and self.idle)

    @property
    def evidence(self) -> list[Evidence]:
        if not self.out_of_step:
            return []
        found: list[Evidence] = []
        for stack, index in self.stepping[:2]:
            text = say(
                "engine {engine} waits in the collective that all engines make once in "
                "each step ({frame})",
                engine=_engine(index),
                frame=_within(stack),
            )
            found.append(evidence(text, STRONG, stack))
        for stack, index in self.idle[:2]:
            text = say(
                "engine {engine} waits for a request in its input queue ({frame}): it is "
                "not in the step",
                engine=_engine(index),
                frame=_within(stack),
            )
            found.append(evidence(text, STRONG, stack))
        if self.returned and self.waiting_front:
            found.append(
                evidence(
                    say(
                        "one front end has returned and waits for its next call, another still "
                        "waits for its engine's output"
                    ),
                    WEAK,
                    self.waiting_front[0],
                )
            )
        return found


def _within(stack: ProcessStack) -> str:
    """The function in which a process's main thread waits."""
    main = stacks.main_thread(stack)
    wait = stacks.wait_of(main) if main is not None else None
    return wait.within.function if wait is not None and wait.within else "?"


def _engine(index: int | None) -> str:
    return "?" if index is None else f"DP{index}"


def _from_stacks(job: Job, seen: _Stacks) -> Finding:
    missing = tuple(sorted(i for _, i in seen.idle if i is not None))
    waiters = tuple(sorted(i for _, i in seen.stepping if i is not None))
    ranks = tuple(sorted({*missing, *waiters})) or None
    group = ProcessGroup(name="dp", meaning=say("data-parallel group of the engines"), ranks=ranks)
    support = [*seen.evidence, *_bars(job, None), *_loads(job)]
    quiet = not job.blocked and not any(
        isinstance(death.fact, PythonException) for death in job.deaths
    )
    if quiet:
        support.append(
            evidence(
                say("nothing failed before: no traceback and no watchdog line in the input"),
                0.0,
                seen.stepping[0][0],
            )
        )
    first = seen.stepping[0][0]
    base = origin_of(seen.program, missing, role="inference", group=group)
    return Finding(
        cause="engine-desync",
        summary=_summary(seen.program, missing, waiters),
        support=tuple(support),
        fixes=_fixes(job, seen.program),
        next_step=say(
            "see which front end submitted late: its log around the last request, or stacks taken "
            "again after a minute (the same frames prove a hang rather than a slow step)"
        ),
        origin=Origin(base.program, base.role, base.software, missing, group),
        waiting_ranks=waiters,
        exonerated=(
            Exonerated(
                "slow-rollout",
                say("the idle engine has no request and is in no step: more time changes nothing"),
                (seen.idle[0][0].place,),
            ),
            *no_network_trouble(job),
        ),
        excerpts=(
            excerpt(first, "messenger"),
            *(excerpt(stack, "origin") for stack, _ in seen.idle[:2]),
        ),
    )


# --- shared ----------------------------------------------------------------------------------


def _exonerated(job: Job, blocked: Blocked) -> Iterable[Exonerated]:
    trainer = job.trainer
    if trainer is not None and trainer is not blocked.program:
        unused = [
            s
            for s in job.all(GroupStatus)
            if s.group.pg_id == 0 and s.last_enqueued is not None and s.last_enqueued < 0
        ]
        yield Exonerated(
            "trainer-collectives",
            say(
                "the group that waited belongs to the {label}; the trainer only waited for its "
                "answer",
                label=blocked.program.label if blocked.program is not None else "server",
            ),
            (unused[0].place,) if unused else (blocked.stall.first.place,),
        )
    yield Exonerated(
        "time-out-too-short",
        say("the missing rank is idle, not late; a longer time-out would only wait longer"),
        (blocked.stall.first.place,),
    )
    yield from boilerplate(job)
    yield from no_network_trouble(job)
    if not any(notice.kind == "request-failed" for notice in job.all(EngineNotice)):
        yield Exonerated(
            "python-exception",
            say("no front end shows a traceback or a failed request"),
            (),
        )


def _next_step() -> Text:
    return say(
        "at the next hang take stacks of all server processes (py-spy dump --pid PID): one engine "
        "in the all-reduce of its step, the other waiting in its input queue proves it. A "
        "traceback in a front end's log instead would mean that its request failed before it was "
        "submitted. The Flight Recorder helps only if it is on in the server's processes "
        "(TORCH_FR_BUFFER_SIZE), and it shows who is missing, not why"
    )


def _fixes(job: Job, program: Program | None) -> tuple[Fix, ...]:
    own = remedies("engine-desync", program, job.programs, job.versions)
    if own:
        return tuple(own)
    return (
        Fix(say("run independent engines instead of one data-parallel server")),
        Fix(say("upgrade the inference engine to a release that keeps idle engines in step")),
        Fix(say("for a tensor-parallel group: custom all-reduce off, to confirm")),
    )


CAUSE = Cause(
    id="engine-desync",
    family="serving and RL coupling",
    title=say("engines of one inference server fell out of step"),
    about=say(
        "Data-parallel engines step together: every step begins with a small collective in which "
        "an idle engine takes part too. If one engine believes that the work is done and leaves "
        "the loop while another begins a step, the first collective of that step waits for ever. "
        "After the time-out the server dies and the trainer, which only waited for an HTTP answer, "
        "dies with it; both print rank 0."
    ),
    shows=(
        say(
            "a time-out in a group that is not the trainer's: as many ranks as the server has, the "
            "default group never used, as many elements as data-parallel ranks"
        ),
        say("one rank had entered the operation, the other's last one is the one before"),
        say("an engine with running requests and no throughput beside one with no requests"),
    ),
    decide=say("stacks of all engine processes while it hangs"),
    remedies=(
        say(
            "independent engines instead of one data-parallel server (a dense model needs no "
            "exchange)"
        ),
        say("one coordinator for all front ends (an asynchronous engine)"),
        say("a release that contains the fix"),
    ),
    look_alikes=(
        LookAlike("slow-rollout", say("requests are still running on every engine")),
        LookAlike("slow-checkpoint-or-eval", say("the group is the trainer's own")),
        LookAlike(
            "weight-sync-failure",
            say("trainer and server wait for each other in the weight exchange"),
        ),
        LookAlike(
            "python-exception",
            say(
                "a request failed in one front end before it was "
                "submitted; a traceback or a failed request tells"
            ),
        ),
    ),
    examine=examine,
    sources=(
        "vLLM 0.11.0 vllm/v1/engine/core.py (DPEngineCoreProc), vllm/forward_context.py",
        "vLLM issue 28224; ms-swift pull request 9295",
    ),
)
