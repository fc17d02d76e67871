"""``weight-sync-failure``: trainer and server do not meet in the exchange of weights."""

from __future__ import annotations

import re
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
    origin_of,
)
from unstall.causes.reasons import (
    began,
    died_before,
    from_settings,
    judged,
    went_on,
)
from unstall.causes.weight_exchange import FUNCTION, ROUTE, broken_off, is_port, meets
from unstall.causes.weight_stall import Sign, of_stacks, of_stall, stalled
from unstall.job import Blocked, Job
from unstall.model.facts import (
    EngineNotice,
    Fact,
    HttpExchange,
    NcclError,
    NcclWarning,
    PythonException,
    Remark,
    StoreFailure,
    WarningLine,
)
from unstall.model.findings import Evidence, Exonerated, Finding, Fix
from unstall.model.plan import Program
from unstall.model.text import Text, say

_SAID = re.compile(
    r"[Ww]eight[s_ ]?update group (?:is )?(?:already|not) ?(?:been )?(?:initialized|exist)"
    r"|[Cc]ommunicator not initialized|Call `?(?:init|close)_communicator`?"
    r"|weights?[_ ](?:update|transfer|sync).{0,60}(?:already|not (?:initialized|ready)|mismatch)"
    r"|(?:shape|dtype|size) mismatch.{0,80}(?:weight|param)|unexpected (?:key|parameter|weight)"
)
_UNKNOWN_ROUTE = (404, 405, 422, 501)


def examine(job: Job) -> Iterable[Finding]:
    """One claim where the exchange itself shows trouble, or where a stall stands in it."""
    signs = [sign for sign in _signs(job) if went_on(job, sign[0]) is None]
    blocked = stalled(job)
    if blocked is not None:
        signs.extend(of_stall(job, blocked))
    signs.extend(of_stacks(job))
    if not signs:
        return
    first, _, _, kind = max(signs, key=lambda sign: sign[2])
    support: list[Evidence] = []
    kinds: set[str] = set()
    for fact, text, weight, sort in sorted(signs, key=lambda sign: -sign[2]):
        if sort not in kinds:
            kinds.add(sort)
            support.append(evidence(text, weight, fact))
    support.extend(from_settings(judged(job, "weight-sync-failure", "conflict"), FAIR))
    for line in job.all(WarningLine):
        if line.topic == "version" and line.values.get("wanted"):
            support.append(
                evidence(
                    say(
                        "the trainer says itself which releases of the engine it supports: {quote}",
                        quote=line.quote[:140],
                    ),
                    FAIR,
                    line,
                )
            )
            break
    against = _against(job, first, blocked)
    server = next(iter(job.of_role("rollout")), None) or next(iter(job.of_role("inference")), None)
    program = job.owner(first) or server or job.trainer
    waiters = tuple(sorted(rank for rank in blocked.stall.waiters if rank >= 0)) if blocked else ()
    missing = blocked.absent if blocked is not None and len(blocked.absent) <= 2 else ()
    yield Finding(
        cause="weight-sync-failure",
        summary=_summary(kind),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(kind, kinds, server),
        next_step=say(
            "take stacks of the trainer's rank 0 and of the server's workers while it hangs "
            "(py-spy dump --pid PID): both must be in the same broadcast of the same parameter; "
            "the server's own log shows why it is not (an error there is often never sent back)"
        ),
        origin=origin_of(
            blocked.program if blocked is not None and missing else program, missing, role="rollout"
        ),
        collective=collective_of(blocked) if blocked is not None else None,
        waiting_ranks=waiters,
        started_at=began(job, blocked)
        if blocked is not None
        else job.chronology.with_year(first.moment),
        exonerated=tuple(_exonerated(job, first, kind)),
        excerpts=tuple(excerpt(fact, "origin") for fact, *_ in signs[:4]),
    )


_UNSURE = ("ncclSystemError", "ncclUnhandledCudaError", "ncclInternalError")


def _signs(job: Job) -> list[Sign]:
    found: list[Sign] = []
    for exchange in job.all(HttpExchange):
        route = ROUTE.search(exchange.url)
        if route is None:
            continue
        if exchange.status in _UNKNOWN_ROUTE:
            found.append(
                (
                    exchange,
                    say(
                        "the server answered {status} to {route}: it does not know that request, "
                        "so trainer and server are of different releases",
                        status=exchange.status or 0,
                        route=route[0],
                    ),
                    STRONG + STRONG,
                    "version",
                )
            )
        elif (exchange.status or 0) >= 500 or exchange.error in ("timeout", "reset"):
            found.append(
                (
                    exchange,
                    say(
                        "the request {route} of the weight exchange failed ({what})",
                        route=route[0],
                        what=exchange.error or str(exchange.status),
                    ),
                    STRONG + WEAK,
                    "request",
                )
            )
    for exception in job.all(PythonException):
        if _SAID.search(exception.message) is not None:
            found.append(
                (
                    exception,
                    say(
                        "the exchange was not in the state that the other side expects: {message}",
                        message=exception.message[:160],
                    ),
                    STRONG + FAIR + WEAK,
                    "state",
                )
            )
        elif (told := broken_off(job, exception)) is not None:
            found.append((exception, *told))
        elif meets(exception) and re.search(
            r"wait timeout|[Tt]imed out|timeout|EOF|connect|ncclUniqueId", exception.message
        ):
            found.append(
                (
                    exception,
                    say(
                        "one side waited for the other in the exchange of weights and gave up: "
                        "{message}",
                        message=exception.message[:160] or exception.type,
                    ),
                    STRONG + FAIR,
                    "one side",
                )
            )
    for failure in job.all(StoreFailure):
        if failure.kind == "connect" and failure.timeout_ms and is_port(job, failure.port):
            found.append(
                (
                    failure,
                    say(
                        "the trainer waited for port {port}, which the server opens for the "
                        "exchange of weights: it was not opened or is not reached",
                        port=failure.port or 0,
                    ),
                    STRONG + FAIR,
                    "one side",
                )
            )
    for failed in job.all(NcclError):
        if failed.result in _UNSURE and FUNCTION.search(failed.where or "") and not _named(failed):
            found.append(
                (
                    failed,
                    say(
                        "NCCL failed while the weight exchange was set up ({result})",
                        result=failed.result,
                    ),
                    FAIR,
                    "nccl",
                )
            )
    return found


def _named(failed: NcclError) -> bool:
    """Whether NCCL's own words name another trouble: devices, memory, sockets, versions."""
    return bool(
        failed.last_error and re.search(r"Duplicate|/dev/shm|ersion|ibv_|NET/IB", failed.last_error)
    )


def _against(job: Job, first: Fact, blocked: Blocked | None) -> list[Evidence]:
    found: list[Evidence] = []
    if blocked is not None:
        found.extend(died_before(job, blocked))
    for notice in job.all(EngineNotice):
        if _heads(notice, first):
            continue
        if notice.kind in ("engine-dead", "worker-died") and (
            job.chronology.before(notice, first) is True
        ):
            found.append(
                evidence(
                    say("the server's engine had died before: {quote}", quote=notice.quote[:120]),
                    STRONG,
                    notice,
                )
            )
            break
    for one in judged(job, "device-overlap", "conflict"):
        found.extend(from_settings([one], STRONG))
        break
    for warning in job.all(NcclWarning):
        if warning.topic in ("duplicate-gpu", "version", "shm", "ib"):
            found.append(
                evidence(
                    say("NCCL names another trouble: {quote}", quote=warning.message[:120]),
                    STRONG,
                    warning,
                )
            )
            break
    return found


def _heads(notice: EngineNotice, first: Fact) -> bool:
    """Whether a notice is the headline of that very exception."""
    at, its = notice.place, first.place
    return at.source == its.source and 0 <= its.line - at.line <= 2


def _summary(kind: str) -> Text:
    if kind == "version":
        return say(
            "Trainer and server are of different releases: the server does not know the trainer's "
            "requests for the weight exchange."
        )
    if kind == "state":
        return say(
            "The server's side of the weight exchange was in another state than the trainer "
            "expects: set up by an earlier run, or not at all."
        )
    if kind in ("trainer stack", "server stack", "one side", "frames", "rank 0"):
        return say("Only one side was in the exchange of weights; it waited for the other.")
    return say("The exchange of weights between trainer and server failed.")


def _exonerated(job: Job, first: Fact, kind: str) -> Iterable[Exonerated]:
    if kind == "version":
        yield Exonerated(
            "network-transport",
            say("the server was reached and answered"),
            (first.place,),
        )
    if not job.all(StoreFailure) and not any(r.topic == "gpu-idle" for r in job.all(Remark)):
        yield Exonerated(
            "slow-rollout", say("nothing was being generated: the exchange comes between rollouts")
        )


def _fixes(kind: str, kinds: set[str], server: Program | None) -> tuple[Fix, ...]:
    label = server.label if server is not None else "server"
    fixes: list[Fix] = []
    if kind == "version" or "version" in kinds:
        fixes.append(
            Fix(
                say(
                    "install the same release of the framework (and the engine version that it "
                    "names as supported) on both sides, trainer and {server}, and restart both",
                    server=label,
                )
            )
        )
    if kind == "state" or "state" in kinds:
        fixes.append(
            Fix(
                say(
                    "restart the {server} together with the trainer: a trainer that crashed leaves "
                    "the old exchange group in the server",
                    server=label,
                )
            )
        )
    fixes.append(
        Fix(
            say(
                "exchange weights only while the server is idle, with all ranks of the trainer "
                "waiting for it (a barrier before and after), and check the server's answer before "
                "the broadcast begins"
            )
        )
    )
    fixes.append(
        Fix(
            say(
                "make sure that the exchange's own port is free and reached from the server "
                "(a second trainer on the host takes the same default)"
            )
        )
    )
    return tuple(fixes)


CAUSE = Cause(
    id="weight-sync-failure",
    family="serving and RL coupling",
    title=say("trainer and server do not meet in the weight exchange"),
    about=say(
        "After a step the trainer hands its weights to the server, usually by an HTTP request that "
        "tells the server what comes, and an NCCL broadcast. If only one side enters the "
        "broadcast (another release, an error that was never sent back, a group left over from an "
        "earlier run, a server still busy), it waits for ever: NCCL has no time-out of its own."
    ),
    shows=(
        say("“Weight update group already initialized”, 404 or 500 for /update_named_param"),
        say(
            "a time-out called from update_named_param or init_communicator; the last request in "
            "the server's log is one of the exchange"
        ),
    ),
    decide=say("stacks of the trainer's rank 0 and of the server's workers"),
    remedies=(
        say("the same release on both sides; restart both together"),
        say("all ranks wait for the exchange; exchange only while the server is idle"),
    ),
    look_alikes=(
        LookAlike("engine-desync", say("the group that waits belongs to the server alone")),
        LookAlike("device-overlap", say("NCCL refuses the communicator: one GPU on both sides")),
        LookAlike(
            "rank-dependent-branch",
            say("a training-group failure: the exchange had ended and training went on"),
        ),
    ),
    examine=examine,
    sources=(
        "TRL 0.16+ trl/extras/vllm_client.py, trl/scripts/vllm_serve.py; huggingface/trl issues "
        "3408, 3925, pull request 6913",
        "SGLang update_weights_from_distributed; vLLM examples of RLHF",
    ),
)
