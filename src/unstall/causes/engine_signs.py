"""What an inference engine says when it gives up, and what that leaves open.

Sources: vLLM 0.8 to 0.33: ``v1/executor/multiproc_executor.py`` (an answer that does not come
within ``VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS``, 300 s in 0.11, or 40 s in 0.8.5 is a time-out of an
RPC), ``v1/engine/core.py``, ``engine/multiprocessing/client.py`` of 0.8 (heartbeats, within
``VLLM_RPC_TIMEOUT``), ``distributed/device_communicators/shm_broadcast.py`` (workers wait for
orders without a notice: whoever gives one waits for an answer or a free block); SGLang 0.4 to
0.5.19: ``srt/utils/watchdog.py`` (a forward pass longer than ``--watchdog-timeout``, 300 s, ends
the server by SIGQUIT, and ``kill_process_tree`` all its processes by SIGKILL); Ray's compiled
graphs (``RAY_CGRAPH_get_timeout``).
"""

from __future__ import annotations

from unstall.causes.base import WEAK, evidence, excerpt, origin_of
from unstall.causes.reasons import finished, went_on
from unstall.job import Job
from unstall.model.facts import EngineNotice, Fact, HttpExchange, Phase
from unstall.model.findings import Finding
from unstall.model.text import Text, say

#: How near each kind is to what failed: an engine that ended only tells of its worker's end.
_DISTANCE = {
    "watchdog": 0,
    "rpc-timeout": 1,
    "worker-died": 1,
    "engine-dead": 2,
    "request-failed": 3,
}

#: So many notices of one kind are looked at.
_ENOUGH = 30

#: Requests that failed for want of something in the engine, not by what was asked.
_LOST = ("Decode transfer failed", "Prefill transfer failed", "Method execution failed")


def signs(job: Job) -> list[EngineNotice]:
    """What engines said of their own failure, where the work did not go on after it."""
    if finished(job) is not None:
        return []
    found: dict[str, list[EngineNotice]] = {}
    for notice in job.all(EngineNotice):
        if notice.kind in _DISTANCE and _fails(notice):
            found.setdefault(notice.kind, []).append(notice)
    return [
        notice
        for kind, notices in found.items()
        # a dead engine says so to every request: the last ones are enough to tell
        for notice in notices[-_ENOUGH:]
        if kind == "request-failed" or went_on(job, notice) is None
    ]


def _fails(notice: EngineNotice) -> bool:
    """Whether a notice tells a failure, and not only that something was late."""
    if notice.kind == "request-failed":
        return notice.detail.startswith(_LOST)
    # a health check that gets no answer in time is repeated, and a busy engine fails it too; a
    # soft watchdog only writes
    return not notice.detail.startswith("Health check failed") and "soft=True" not in notice.detail


def distance(notice: EngineNotice) -> int:
    """0 for the engine's own standstill, more for what only tells of another process."""
    return _DISTANCE.get(notice.kind, 2)


def _kept_waiting(job: Job) -> list[EngineNotice]:
    """Notices that an engine waited for its workers, if they are several and the last of the log.

    One alone is what every slow start prints.
    """
    found = [
        notice
        for notice in job.all(EngineNotice)
        # older releases print another text, also while nothing is asked of them
        if notice.kind == "broadcast-idle" and "typically happens when" in notice.quote
    ]
    if len(found) < 2 or went_on(job, found[-1]) is not None:
        return []
    last = found[-1]
    work: list[Fact] = [
        *(one for one in job.all(HttpExchange) if one.status == 200 and one.method == "POST"),
        *(one for one in job.all(Phase) if one.kind in ("compile", "graph-capture", "init")),
    ]
    if any(job.chronology.before(last, one) is True for one in work):
        return []
    source = last.place.source
    reached = max((one.place.line for one in work if one.place.source == source), default=0)
    rest = [n for n in found if n.place.source == source and n.place.line > reached]
    return rest if len(rest) > 1 else []


def engine_waits(job: Job) -> Finding | None:
    """An engine that said again and again that it waits for its workers, to the end of the log."""
    seen = _kept_waiting(job)
    if not seen:
        return None
    owner = job.owner(seen[0])
    return Finding(
        cause="unknown",
        summary=say(
            "To the end of the log the inference engine waited for its workers ({count} notices); "
            "whether they were slow or stuck is not told.",
            count=len(seen),
        ),
        support=(
            evidence(
                say("the first sign of it: {quote}", quote=seen[0].quote.strip()[:160]),
                WEAK,
                seen[0],
            ),
        ),
        next_step=say(
            "take stacks of every worker of the engine while it waits, twice with a minute between "
            "(py-spy dump --pid PID): frames that change are slow work (loading, compiling), the "
            "same frames in a collective are a standstill"
        ),
        origin=origin_of(owner, ()) if owner is not None else None,
        started_at=job.chronology.with_year(seen[0].moment),
        excerpts=(excerpt(seen[0], "messenger"),),
    )


def headline(notice: EngineNotice) -> Text:
    """What is certain of an engine's own words."""
    if notice.kind == "request-failed":
        return say(
            "Requests failed inside the inference engine ({words}); the input does not tell why.",
            words=notice.detail[:80],
        )
    if "PyExecutor" in notice.detail:
        return say(
            "TensorRT-LLM's executor loop made no progress until its hang detector ended it "
            "({words}); the input does not tell where it stood.",
            words=notice.detail[:80],
        )
    if notice.kind == "watchdog":
        return say(
            "SGLang's scheduler did not finish a step within its watchdog's time and ended the "
            "server; the input does not tell where it stood."
        )
    if "heartbeat" in notice.detail:
        return say(
            "The server heard nothing from its engine ({words}): the engine's process had ended or "
            "was in one long step; the input does not tell which.",
            words=notice.detail[:80],
        )
    if notice.kind == "rpc-timeout":
        return say(
            "The inference engine gave up waiting for its workers ({words}): a worker was stuck or "
            "slow; the input does not tell in what.",
            words=notice.detail[:80],
        )
    if notice.kind == "worker-died":
        return say(
            "A process of the inference engine ended ({words}); its own last words are not in the "
            "input.",
            words=notice.detail[:80],
        )
    if _start(notice):
        return say(
            "The inference engine did not start; what its worker met there is not in the input."
        )
    return say("The inference engine ended; its own reason is not in the input.")


def _start(notice: EngineNotice) -> bool:
    return "failed to start" in notice.detail or "initialization failed" in notice.detail


def step(notice: EngineNotice) -> Text:
    """What would tell why an engine gave up."""
    if notice.kind == "request-failed":
        return say(
            "compare the logs of both sides at the time of the first failed request: of a transfer "
            "between prefill and decode the side that names an error of its own is at fault, the "
            "other only lost it"
        )
    if "PyExecutor" in notice.detail:
        return say(
            "take stacks of every rank before the detector fires (py-spy dump --native --pid PID): "
            "all in one collective is a standstill of the transport, one elsewhere is the rank "
            "that the others wait for"
        )
    if notice.kind == "watchdog":
        return say(
            "take stacks of every scheduler process before its watchdog fires (py-spy dump --pid "
            "PID of each sglang::scheduler); newer releases write them into the log themselves "
            "where py-spy is installed and may trace (docker run --cap-add SYS_PTRACE)"
        )
    if "heartbeat" in notice.detail:
        return say(
            "see whether the engine's process lived at that time: if not, its own last lines and "
            "dmesg tell why; if so, take its stack (py-spy dump --pid PID) and give it time "
            "(VLLM_RPC_TIMEOUT, in milliseconds)"
        )
    if notice.kind == "rpc-timeout":
        return say(
            "take stacks of every worker while the engine still waits (py-spy dump --pid PID of "
            "each worker; a larger VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS, with Ray "
            "RAY_CGRAPH_get_timeout, gives time for it), and nvidia-smi: GPUs at 100 % with low "
            "power wait in a collective"
        )
    if notice.kind == "worker-died":
        return say(
            "read that process's own output before this line, and the kernel's log (dmesg) for a "
            "kill or a fault at that time"
        )
    if _start(notice):
        return say(
            "look further up in the server's log for the first traceback of a worker (“WorkerProc "
            "failed to start”): the lines here only pass it on"
        )
    return say(
        "look further up in the server's log for the first traceback of an engine or worker: the "
        "lines here only pass it on"
    )
