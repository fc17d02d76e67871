"""``driver-stall``: the program that drives the ranks is stuck outside any collective."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from unstall import stacks
from unstall.causes.activity import Activity, activity_of
from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    origin_of,
)
from unstall.causes.reasons import remark_on
from unstall.causes.servers import server
from unstall.job import Job
from unstall.model.facts import (
    CollectiveTimeout,
    CudaError,
    Fact,
    HttpExchange,
    NcclError,
    Phase,
    ProcessStack,
    PythonException,
    Remark,
    TrainingStep,
    WatchdogError,
)
from unstall.model.findings import Evidence, Exonerated, Finding, Fix
from unstall.model.text import Text, say
from unstall.stacks import Wait

#: The longest time-out that groups have by default (torch before 2.2, DeepSpeed: 30 minutes),
#: and some minutes more for the watchdog to speak.
QUIET_HOURS = 0.6

#: Facts by which a collective or the device has spoken.
SPEAKING: tuple[type[Fact], ...] = (CollectiveTimeout, WatchdogError, CudaError, NcclError)

_WAITS = ("http", "process", "sleep", "lock", "queue", "pipe", "disk", "computing", "unknown")


class _Driver(msgspec.Struct, frozen=True):
    """The driver's stack."""

    stack: ProcessStack
    wait: Wait
    doing: Activity | None


def examine(job: Job) -> Iterable[Finding]:
    """A claim where everything is silent, no collective timed out, and the driver is suspect."""
    if any(job.by_type.get(kind) for kind in SPEAKING):
        return
    driver = _driver(job)
    stage = _stage(job)
    proxy = next((x for x in job.all(HttpExchange) if x.error == "proxy"), None)
    seen = server(job)
    silent = [r for r in job.all(Remark) if r.topic == "no-output"]
    idle_gpus = remark_on(job, "gpu-idle")
    own = [*_from_stack(driver), *_from_stage(stage, driver), *_from_proxy(proxy)]
    hung = bool(silent or idle_gpus or driver is not None or proxy is not None)
    if not own or not hung:
        return
    support = [*_quiet(silent), *_gpus(idle_gpus), *own]
    if seen.idle is not None:
        support.append(evidence(say("the server had no request: nobody asks it"), FAIR, seen.idle))
    against = list(_against(job))
    reward = _is_reward(driver, stage)
    yield Finding(
        cause="driver-stall",
        summary=_summary(reward, proxy),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(reward, proxy),
        next_step=_next_step(job),
        origin=origin_of(job.trainer, (), role="trainer"),
        exonerated=_exonerated(silent, idle_gpus),
        excerpts=tuple(
            excerpt(fact, role)
            for fact, role in (
                (stage, "origin"),
                (proxy, "origin"),
                (driver.stack if driver is not None else None, "origin"),
                (silent[0] if silent else None, "messenger"),
            )
            if fact is not None
        ),
    )


def _driver(job: Job) -> _Driver | None:
    """The stack of the process that drives the others, where it waits for none of them."""
    found: list[_Driver] = []
    for stack in job.all(ProcessStack):
        identity = stacks.identify(stack)
        main = stacks.main_thread(stack)
        if main is None:
            continue
        wait = stacks.wait_of_process(stack)
        if wait.kind in ("collective", "point-to-point", "gpu", "store"):
            return None
        if wait.kind not in _WAITS or "awaits-actors" in wait.keys or "worker-idle" in wait.keys:
            continue
        doing = _busiest(stack, wait)
        if identity.process == "driver" or (doing is not None and doing.kind == "reward"):
            found.append(_Driver(stack, wait, doing))
    telling = [one for one in found if one.doing is not None and one.doing.kind == "reward"]
    return next(iter(telling or found), None)


def _busiest(stack: ProcessStack, wait: Wait) -> Activity | None:
    for thread in stacks.working_threads(stack):
        doing = activity_of(wait, stacks.own_frames(thread))
        if doing is not None and doing.kind == "reward":
            return doing
    main = stacks.main_thread(stack)
    return activity_of(wait, stacks.own_frames(main)) if main is not None else None


def _from_stack(driver: _Driver | None) -> list[Evidence]:
    if driver is None:
        return []
    if driver.doing is not None and driver.doing.kind == "reward":
        return [
            evidence(
                say("the driver stands in the reward function: {frame}", frame=driver.doing.shown),
                STRONG + STRONG,
                driver.stack,
            )
        ]
    frame = driver.wait.within or driver.wait.frame
    if frame is None:
        return []
    return [
        evidence(
            say(
                "the driver waits outside any collective: {frame}",
                frame=f"{frame.function} ({frame.file.rpartition('/')[2]})",
            ),
            STRONG,
            driver.stack,
        )
    ]


def _stage(job: Job) -> Phase | None:
    """The last phase told, where it is the reward's or the verifier's."""
    phases = job.all(Phase)
    if not phases or phases[-1].kind != "reward" or phases[-1].finished:
        return None
    last = phases[-1]
    for step in job.all(TrainingStep):
        if step.place.source == last.place.source and step.place > last.place:
            return None
    return last


def _from_stage(stage: Phase | None, driver: _Driver | None) -> list[Evidence]:
    if stage is None:
        return []
    return [
        evidence(
            say(
                "the last line is the reward's: samples are scored there, between generation and "
                "training: {quote}",
                quote=stage.quote[-160:],
            ),
            STRONG if driver is None else WEAK,
            stage,
        )
    ]


def _from_proxy(proxy: HttpExchange | None) -> list[Evidence]:
    if proxy is None:
        return []
    return [
        evidence(
            say("an HTTP proxy stands between the programs: {quote}", quote=proxy.quote[-160:]),
            STRONG,
            proxy,
        )
    ]


def _hours(silent: list[Remark]) -> tuple[Remark, float] | None:
    best: tuple[Remark, float] | None = None
    for remark in silent:
        try:
            hours = float(remark.values.get("hours", ""))
        except ValueError:
            continue
        if best is None or hours > best[1]:
            best = (remark, hours)
    return best


def _quiet(silent: list[Remark]) -> list[Evidence]:
    told = _hours(silent)
    if told is None:
        if not silent:
            return []
        return [
            evidence(
                say("silence, and no watchdog line: no collective is known to wait"),
                WEAK,
                silent[0],
            )
        ]
    remark, hours = told
    if hours < QUIET_HOURS:
        return [
            evidence(
                say(
                    "silent for {hours} h and no watchdog line, though not yet as long as a "
                    "group's time-out",
                    hours=f"{hours:g}",
                ),
                0.0,
                remark,
            )
        ]
    return [
        evidence(
            say(
                "silent for {hours} h and no watchdog line: no collective is waiting, for it would "
                "have timed out within 10 to 30 minutes",
                hours=f"{hours:g}",
            ),
            FAIR,
            remark,
            source="PyTorch ProcessGroupNCCL, default time-outs",
        )
    ]


def _gpus(idle: Remark | None) -> list[Evidence]:
    if idle is None:
        return []
    return [
        evidence(
            say(
                "the GPUs are at 0 %: a rank that waits inside a NCCL operation shows 100 %, for "
                "its kernel spins"
            ),
            FAIR,
            idle,
        )
    ]


def _against(job: Job) -> Iterable[Evidence]:
    busy = remark_on(job, "gpu-busy")
    if busy is not None:
        yield evidence(say("GPUs are at 100 %: a collective's kernel spins"), STRONG + FAIR, busy)
    for death in job.deaths:
        if isinstance(death.fact, PythonException) and "roxy" not in (
            f"{death.fact.type} {death.fact.message}"
        ):
            yield evidence(
                say("a process failed with an exception: {quote}", quote=death.fact.quote[:160]),
                STRONG,
                death.fact,
            )
            return


def _is_reward(driver: _Driver | None, stage: Phase | None) -> bool:
    return stage is not None or (
        driver is not None and driver.doing is not None and driver.doing.kind == "reward"
    )


def _summary(reward: bool, proxy: Fact | None) -> Text:
    if reward:
        return say(
            "No collective waits: the driver is stuck in the reward function (a verifier or a "
            "request that never returns), and the GPUs have nothing to do."
        )
    if proxy is not None:
        return say(
            "No collective waits: requests between the programs go to an HTTP proxy and do not "
            "arrive."
        )
    return say("No collective waits: the driver is stuck outside, and the ranks have no work.")


def _next_step(job: Job) -> Text:
    if any(p.software == "verl" for p in job.programs) or any(
        "TaskRunner" in (step.speaker.name or "") for step in job.all(TrainingStep)
    ):
        return say(
            "take a stack of the driver while it hangs (py-spy dump --pid PID of the TaskRunner, "
            "with --subprocesses): the frame in which it stands names the sample's verifier"
        )
    return say(
        "take a stack of the driver while it hangs (py-spy dump --pid PID --subprocesses): the "
        "frame in which it stands names the call that does not return"
    )


def _fixes(reward: bool, proxy: Fact | None) -> tuple[Fix, ...]:
    fixes = [
        Fix(
            say(
                "give every sample's scoring a per-sample time-out, and count a sample that "
                "exceeds it as reward 0"
            )
        ),
        Fix(
            say(
                "run the verifier in a subprocess that can be killed: a time-out inside the same "
                "process cannot stop code that holds the GIL (symbolic mathematics, regular "
                "expressions)"
            )
        ),
    ]
    exempt = Fix(
        say(
            "exempt local addresses from the proxy: export no_proxy=localhost,127.0.0.1 and the "
            "nodes' addresses"
        )
    )
    if proxy is not None and not reward:
        return (exempt, fixes[0])
    return tuple([*fixes, exempt] if proxy is not None else fixes)


def _exonerated(silent: list[Remark], idle: Remark | None) -> tuple[Exonerated, ...]:
    places = tuple(fact.place for fact in (*silent[:1], idle) if fact is not None)
    return (
        Exonerated(
            "network-transport",
            say("no watchdog and no collective has complained for longer than any time-out"),
            places,
        ),
    )


CAUSE = Cause(
    id="driver-stall",
    family="one rank is alive but late",
    title=say("the driver is stuck outside any collective"),
    about=say(
        "A driver process scores samples, runs verifiers and calls servers between the steps of "
        "the ranks. If one sample's verifier loops for ever, or a request goes to a proxy that "
        "never answers, nothing waits in a collective: no watchdog speaks, the GPUs are at 0 %, "
        "all processes are alive, and the log just stops."
    ),
    shows=(
        say("no watchdog line for far longer than any time-out"),
        say("GPUs at 0 % with their memory allocated, all actors alive"),
        say("the last line is the reward's, or the server sees no request"),
    ),
    decide=say("a stack of the driver process"),
    remedies=(
        say("a per-sample time-out, in a subprocess that can be killed"),
        say("no_proxy for the addresses of the job's own servers"),
    ),
    look_alikes=(
        LookAlike("pipeline-order", say("GPUs at 100 %, and a watchdog speaks in the end")),
        LookAlike("slow-rollout", say("the server has running requests")),
        LookAlike("engine-desync", say("an engine has requests and produces nothing")),
    ),
    examine=examine,
    sources=("verl pull request 6673", "verl workers/reward_manager/naive.py"),
)
