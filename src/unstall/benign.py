"""Lines that look alarming and are not: what a user might take for the cause."""

from __future__ import annotations

from unstall.job import Job
from unstall.job.deaths import of_one_request
from unstall.model.facts import (
    EngineNotice,
    GroupStatus,
    HttpExchange,
    ProcessTakenDown,
    PythonException,
    RecorderFile,
    ResourceLeak,
    SignalSent,
    WarningLine,
)
from unstall.model.findings import Exonerated
from unstall.model.text import say


def harmless(job: Job) -> tuple[Exonerated, ...]:
    """Each kind of harmless line that the job has, once, with why it is harmless."""
    found: list[Exonerated] = []
    leaks = job.all(ResourceLeak)
    shared = [leak for leak in leaks if leak.what in ("semaphore", "shared_memory")]
    if shared:
        found.append(
            Exonerated(
                "leaked-resources",
                say(
                    "leaked semaphores or shared memory at shutdown: left behind by a process that "
                    "was ended; a consequence, never a cause"
                ),
                (shared[0].place,),
            )
        )
    undestroyed = [leak for leak in leaks if leak.what == "process-group"]
    if undestroyed:
        found.append(
            Exonerated(
                "destroy-process-group",
                say("destroy_process_group() was not called: said at exit, stops nothing"),
                (undestroyed[0].place,),
            )
        )
    dumps = [s for s in job.all(GroupStatus) if s.reason in ("local-dump", "remote-dump")]
    if dumps:
        found.append(
            Exonerated(
                "dump-message",
                say(
                    "“incorrect usages of collectives, e.g., wrong sizes … GIL deadlock”: the same "
                    "text is printed with every dump; it is no finding"
                ),
                (dumps[0].place,),
            )
        )
    off = [file for file in job.all(RecorderFile) if file.state == "disabled"]
    if off:
        found.append(
            Exonerated(
                "recorder-off",
                say(
                    "“Stack trace of the failed collective not found”: the Flight Recorder is off; "
                    "no fault"
                ),
                (off[0].place,),
            )
        )
    down = job.all(ProcessTakenDown)
    if down:
        found.append(
            Exonerated(
                "taken-down",
                say(
                    "a rank ended itself after its watchdog had spoken: a consequence (exit code "
                    "-6 is SIGABRT, not an out-of-memory kill)"
                ),
                (down[0].place,),
            )
        )
    sent = [signal for signal in job.all(SignalSent) if not signal.received]
    if sent and (job.blocked or job.deaths):
        found.append(
            Exonerated(
                "launcher-signals",
                say(
                    "{signal} sent by the launcher: it stops the surviving ranks after the first "
                    "one failed",
                    signal=sent[0].signal,
                ),
                (sent[0].place,),
            )
        )
    idle = [notice for notice in job.all(EngineNotice) if notice.kind == "broadcast-idle"]
    if idle:
        found.append(
            Exonerated(
                "broadcast-idle",
                say(
                    "“No available shared memory broadcast block”: an engine process waits for "
                    "another; it tells that something is slow or stuck, not what"
                ),
                (idle[0].place,),
            )
        )
    refused = [e for e in job.all(PythonException) if of_one_request(e)]
    if refused:
        found.append(
            Exonerated(
                "request-refused",
                say(
                    "{type} while one request was read ({message}): the server answers that "
                    "request with an error and serves the others; what the client asked for has "
                    "to change",
                    type=refused[0].type,
                    message=refused[0].message.split("\n", 1)[0][:160],
                ),
                (refused[0].place,),
            )
        )
    refusals = [
        one
        for one in job.all(HttpExchange)
        if one.status is not None and 400 <= one.status < 500 and one.url.startswith("/v1/")
    ]
    if refusals and not refused:
        found.append(
            Exonerated(
                "request-refused",
                say(
                    "the server answered {url} with {status}: what was asked for does not fit (the "
                    "model's name, the path, a key, the length); the server itself is in order",
                    url=refusals[0].url[:80],
                    status=refusals[0].status or 0,
                ),
                (refusals[0].place,),
            )
        )
    threads = [w for w in job.all(WarningLine) if w.topic == "omp-threads"]
    if threads:
        found.append(
            Exonerated(
                "omp-threads",
                say("OMP_NUM_THREADS set to 1 by the launcher: a note about speed"),
                (threads[0].place,),
            )
        )
    return tuple(found)
