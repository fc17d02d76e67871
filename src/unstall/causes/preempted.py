"""``preempted``: a signal or a scheduler's decision from outside ended a healthy job."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.aftermath import Aftermath, aftermath
from unstall.causes.base import (
    DECISIVE,
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    origin_of,
)
from unstall.causes.deaths import survived
from unstall.job import Job
from unstall.model.facts import (
    EngineLoad,
    Fact,
    GroupCreated,
    HttpExchange,
    Identity,
    Moment,
    NcclInit,
    NcclTransport,
    Phase,
    ProcessEnd,
    Progress,
    PythonException,
    SchedulerEvent,
    SignalSent,
    TrainingStep,
)
from unstall.model.findings import Evidence, Exonerated, Finding, Fix
from unstall.model.text import Text, say

#: Scheduler's events by how plainly they say that the job was ended for the scheduler's sake.
_KINDS = {
    "preempted": STRONG + STRONG,
    "evicted": STRONG + STRONG,
    "time-limit": STRONG + STRONG,
    "requeued": STRONG + FAIR,
    "cancelled": STRONG,
    "node-failure": FAIR,
}

#: Nothing said for so many seconds before the end: the job hung, and was ended for that.
SILENCE = 1800.0

#: What a job tells while it starts and works.
_WORK = (
    EngineLoad,
    GroupCreated,
    HttpExchange,
    Identity,
    NcclInit,
    NcclTransport,
    Phase,
    Progress,
    TrainingStep,
)

#: Signals that ask a process to end, and what sends them. Python prints the number only.
_SIGNALS = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT")
_NUMBERS = {"got signal: 15": "SIGTERM", "got signal: 1": "SIGHUP", "got signal: 2": "SIGINT"}


def examine(job: Job) -> Iterable[Finding]:
    """One claim where an order from outside is the first event of the end."""
    events = [event for event in job.all(SchedulerEvent) if event.kind in _KINDS]
    events.sort(key=lambda event: -_KINDS[event.kind])
    signals = [s for s in job.all(SignalSent) if s.received and s.signal in _SIGNALS]
    raised = [e for e in job.all(PythonException) if _signal_of(e) is not None]
    if not events and not signals and not raised:
        return
    told: list[Fact] = [*events, *signals, *raised]
    first = job.chronology.in_order(told)[0]
    name = _name(first)
    after = aftermath(job, first)
    support: list[Evidence] = []
    if events:
        event = events[0]
        support.append(evidence(_said(event), _KINDS[event.kind], event))
    launcher = [s for s in signals if s.speaker.rank is None and s.speaker.name is None]
    if signals or raised:
        known: Fact = (launcher or raised or signals)[0]
        support.append(
            evidence(
                say(
                    "the launcher or a rank received {signal} from outside",
                    signal=_name(known) or "a signal",
                ),
                _weight(known, bool(launcher or raised)),
                known,
            )
        )
    earlier = _failed_before(job, first)
    against: list[Evidence] = []
    if earlier is not None:
        against.append(
            evidence(
                say("something failed before it: {quote}", quote=earlier.quote[:140]),
                DECISIVE + STRONG,
                earlier,
            )
        )
    begun = _begun_before(job, first)
    if earlier is None and begun:
        support.append(
            evidence(say("nothing failed before it: it is the first event of the end"), FAIR, first)
        )
    elif earlier is None:
        support.append(
            evidence(
                say("what the job did before it is not in the input: a failure may be missing"),
                0.0,
                first,
            )
        )
    against.extend(_hung_before(job, first))
    against.extend(item for item in after.against if item.weight >= STRONG)
    hangup = name == "SIGHUP"
    origin = origin_of(None, (), role="node")
    if after.program is not None and not events:
        origin = origin_of(after.program, (), role="launcher")
    yield after.finding(
        "preempted",
        _summary(events, name),
        support,
        against,
        fixes=_fixes(events, hangup),
        next_step=_next_step(events, hangup),
        origin=origin,
        exonerated=_exonerated(after, first),
        excerpts=[excerpt(one, "origin") for one in told[:3] if one is not first],
        ceiling=_ceiling(events, begun, hangup),
    )


def _ceiling(events: list[SchedulerEvent], begun: bool, hangup: bool) -> float:
    if not begun and (not events or events[0].kind in ("cancelled", "time-limit", "requeued")):
        return 0.65  # so do failed and hanging jobs end, in logs that were cut above their end
    return 0.95 if events else 0.85 if hangup else 0.75


def _begun_before(job: Job, first: Fact) -> bool:
    """Whether the input shows the job at work, or its start, before the order."""
    return any(
        isinstance(fact, _WORK) and job.chronology.before(fact, first) is not False
        for fact in job.facts
    )


def _weight(fact: Fact, launcher: bool) -> float:
    """How much a signal says; one rank's is as likely its own launcher's or Ray's doing."""
    if not launcher:
        return WEAK
    return STRONG if _name(fact) in ("SIGTERM", "SIGHUP") else FAIR


def _signal_of(fact: PythonException) -> str | None:
    if not fact.type.endswith("SignalException"):
        return None
    return next(
        (name for words, name in _NUMBERS.items() if fact.message.rstrip().endswith(words)), None
    )


def _name(fact: Fact) -> str | None:
    if isinstance(fact, SignalSent):
        return fact.signal
    return _signal_of(fact) if isinstance(fact, PythonException) else None


def _said(event: SchedulerEvent) -> Text:
    who = event.scheduler
    if event.kind == "preempted":
        return say("{scheduler} preempted the job", scheduler=who)
    if event.kind == "evicted":
        return say("{scheduler} evicted it from its node", scheduler=who)
    if event.kind == "time-limit":
        return say("{scheduler} ended the job at its time limit", scheduler=who)
    if event.kind == "requeued":
        return say("{scheduler} put the job back into the queue", scheduler=who)
    if event.kind == "node-failure":
        return say("{scheduler} lost a node of the job", scheduler=who)
    return say("{scheduler} cancelled the job; by whose order is not told", scheduler=who)


def _failed_before(job: Job, first: Fact) -> Fact | None:
    """A failure or time-out that came before the order: then the order is a consequence."""
    for death in job.deaths:
        if isinstance(death.fact, (SignalSent, ProcessEnd)):
            continue
        if job.chronology.before(death.fact, first) is True and not survived(job, death.fact):
            return death.fact
    for blocked in job.blocked:
        if job.chronology.before(blocked.stall.first, first) is True:
            return blocked.stall.first
        began, ordered = blocked.stall.began, first.moment
        if _seconds(ordered, began) > 60:
            return blocked.stall.first
    for end in job.all(ProcessEnd):
        own = end.exit_code is not None and end.exit_code not in (0, -15, -1, -2)
        if own and job.chronology.before(end, first) is True:
            return end
    return None


def _seconds(later: Moment | None, earlier: Moment | None) -> float:
    if later is None or earlier is None:
        return 0.0
    return later.seconds_since(earlier)


def _hung_before(job: Job, first: Fact) -> list[Evidence]:
    """Silence before the order: the job hung before somebody ended it."""
    if first.moment is None:
        return []
    last = [
        fact
        for fact in job.facts
        if fact.moment is not None and fact is not first and job.chronology.before(fact, first)
    ]
    gaps = [job.chronology.seconds_between(fact, first) for fact in last]
    known = [gap for gap in gaps if gap is not None and gap >= 0]
    silent = min(known, default=None)
    if silent is None or silent < SILENCE:
        return []
    return [
        evidence(
            say(
                "the line with a time before it is {minutes} minutes older: perhaps the job hung "
                "and was ended for that",
                minutes=round(silent / 60),
            ),
            FAIR,
            first,
        )
    ]


def _summary(events: list[SchedulerEvent], name: str | None) -> Text:
    kind = events[0].kind if events else ""
    if kind == "time-limit":
        return say("The job ran into its time limit: the scheduler ended it, nothing failed.")
    if kind == "node-failure":
        return say("A node of the job was lost, as its scheduler says; why is not told.")
    if kind in ("preempted", "evicted", "requeued"):
        return say("The scheduler took the job's place away (preemption); nothing failed in it.")
    if kind == "cancelled":
        return say("The job was cancelled from outside; nothing had failed before.")
    if name == "SIGHUP":
        return say(
            "The terminal or session that started the job was closed: its processes got SIGHUP."
        )
    if name == "SIGINT":
        return say("The job was interrupted by hand (Ctrl-C, SIGINT).")
    return say("The job was told to end from outside (SIGTERM); nothing had failed before.")


def _fixes(events: list[SchedulerEvent], hangup: bool) -> list[Fix]:
    if hangup and not events:
        return [
            Fix(
                say(
                    "start it so that it outlives the session: in tmux or screen, or with setsid "
                    "(nohup alone is undone by torchrun, which sets its own handler)"
                )
            ),
            Fix(say("resume from the last checkpoint")),
        ]
    fixes = [Fix(say("requeue the job and resume from the last checkpoint"))]
    if events and events[0].kind == "time-limit":
        fixes.append(Fix(say("ask for more time, or let the job save and requeue itself before")))
    fixes.append(
        Fix(
            say(
                "save when the warning signal comes (Slurm: --signal=B:USR1@300 --requeue; "
                "Kubernetes: terminationGracePeriodSeconds), and save more often"
            )
        )
    )
    return fixes


def _next_step(events: list[SchedulerEvent], hangup: bool) -> Text:
    if events and events[0].scheduler == "kubernetes":
        return say("ask who ended it: kubectl describe pod POD and kubectl get events")
    if events and events[0].scheduler == "slurm":
        return say(
            "ask who ended it: sacct -j JOB --format=JobID,State,ExitCode,Reason,End and scontrol "
            "show job JOB"
        )
    if hangup:
        return say("see whether the terminal, ssh session or notebook was closed at that time")
    return say(
        "find who sent the signal: the scheduler's or container's log at that time, and "
        "dmesg; bare SIGTERM also comes from an operator's kill"
    )


def _exonerated(after: Aftermath, first: Fact) -> list[Exonerated]:
    found = []
    if after.blocked is not None or after.messengers:
        found.append(
            Exonerated(
                "network-transport",
                say("ranks that were ended by a signal leave closed connections behind"),
                (first.place,),
            )
        )
    return found


CAUSE = Cause(
    id="preempted",
    family="one process died first",
    title=say("ended from outside: preemption, time limit, cancellation"),
    about=say(
        "A scheduler, an operator or a closing session told the job to end. SIGTERM lines and "
        "closed connections follow. They are only the cause where nothing failed before: a "
        "launcher sends SIGTERM to the survivors of every crash, and a scheduler cancels the rest "
        "of a failed job."
    ),
    shows=(
        say("“CANCELLED AT … DUE TO PREEMPTION” or “DUE TO TIME LIMIT” of Slurm"),
        say("“Received SIGTERM death signal” or “got signal: 15” as the first event"),
        say("“Evicted”, “Preempted” of Kubernetes"),
    ),
    decide=say("the scheduler's accounting: state, reason and time of the end"),
    remedies=(
        say("requeue and resume from the last checkpoint"),
        say("save on the warning signal"),
    ),
    look_alikes=(
        LookAlike(
            "python-exception",
            say("a failure stands before the signal: SIGTERM went to the survivors"),
        ),
        LookAlike(
            "host-oom", say("SIGKILL without warning, and a kernel or scheduler memory line")
        ),
        LookAlike(
            "driver-stall", say("a long silence before the end: the job hung and was ended for it")
        ),
    ),
    examine=examine,
    sources=(
        "Slurm slurmstepd and srun, 18.08-24.11",
        "PyTorch torch/distributed/elastic/multiprocessing/api.py, SignalException",
    ),
)
