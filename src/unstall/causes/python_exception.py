"""``python-exception``: one rank raised an exception and left; the others waited for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from unstall.causes.aftermath import Aftermath, aftermath
from unstall.causes.base import (
    FAIR,
    STRONG,
    WEAK,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    ranks_text,
)
from unstall.causes.deaths import apart, echo_evidence, ranks_told, survived_evidence
from unstall.causes.reasons import judged
from unstall.job import Job
from unstall.job.deaths import is_device, is_messenger, of_one_request, tried_again
from unstall.model.facts import Frame, Phase, ProcessEnd, PythonException, SignalSent
from unstall.model.findings import Evidence, Exonerated, Finding, Fix
from unstall.model.text import Text, say

#: Exceptions by which other causes show themselves on the Python side: a time-out or refusal of a
#: connection, a library that does not load, a refused resource, a device that others use.
ELSEWHERE = re.compile(
    r"[Tt]imed? ?out|Timeout|Connect(?:ion)?Error|Connection refused|Max retries exceeded"
    # what was tried again and again, the last word does not tell
    r"|(?:after|exceeded) (?:the )?(?:\d{1,6}|max\w{0,4}|all|several) (?:re)?(?:tries|try|attempts)"
    r"|undefined symbol|cannot open shared object|GLIBC|DLL load failed|[Vv]ersion mismatch"
    r"|[Cc]annot allocate memory|MemoryError|shared memory|Too many open files|ancdata"
    r"|No CUDA GPUs are available|invalid device ordinal|[Dd]uplicate GPU"
    r"|Gloo|gloo|rendezvous|Rendezvous|TCPStore|environment variable .{1,40} expected"
    r"|Name or service not known|name resolution|MASTER_ADDR|monitoredBarrier"
    r"|^KeyError: '(?:(?:LOCAL_)?(?:RANK|WORLD_SIZE)|MASTER_PORT|SLURM_\w+ID|OMPI_COMM_\w+)'$"
    r"|StreamCapture(?!Status)|stream is capturing|captured event|capture (?:mode|invalid)"
    r"|cudaGetDeviceCount|NVML|ncclUnhandled|unhandled (?:cuda|system) error"
)

#: vLLM's own words for a device without enough memory at its start: another fault's only where the
#: launch script lets programs share a device.
_FULL = re.compile(
    r"Free memory on device \S{0,12} ?\(([\d.]{1,9})/([\d.]{1,9}) GiB\)"
    r".{0,60}GPU memory utilization \((0?\.\d{1,4}|1(?:\.0)?), ([\d.]{1,9}) GiB\)"
    r"|No available memory for the cache"
)

#: Functions in which programs give back what they hold, often because something had failed.
_CLEANING = re.compile(
    r"^_{0,2}(?:\w{1,30}_)?(?:finally|cleanup|clean_up|shutdown|teardown|release|destroy)_{0,2}$"
)

#: SGLang puts this before whatever was raised while it captured (``cuda_graph_runner.py``).
_WRAPPED = re.compile(r"Capture (?:piecewise )?cuda graph failed: ", re.IGNORECASE)

#: Directories of installed packages: frames outside of them are the user's own.
_INSTALLED = re.compile(r"(?:site|dist)-packages/|/lib/python3|<frozen|^<")
#: How a reader names what argparse says before it exits with code 2.
_REFUSED = "argparse.ArgumentError"


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the exception that came first and was not another fault's echo."""
    own = [fact for fact in job.all(PythonException) if _own(job, fact)]
    fatal = [fact for fact in own if not survived_evidence(job, fact)]
    if not own:
        return
    first = (_ordered(job, fatal) or _ordered(job, own))[0]
    same = [f for f in own if f.type == first.type and _headline(f) == _headline(first)]
    after = aftermath(job, first, ranks_told(job, same))
    yield _finding(job, first, same, after)


def _ordered(job: Job, found: Sequence[PythonException]) -> list[PythonException]:
    return [one for one in job.chronology.in_order(found) if isinstance(one, PythonException)]


def _own(job: Job, fact: PythonException) -> bool:
    """Whether an exception can be a failure of its own: no messenger, no device error, no wrap."""
    if is_messenger(fact) or is_device(fact) or of_one_request(fact) or tried_again(fact):
        return False
    if not fact.notes:
        return True
    roots = [
        other
        for other in job.all(PythonException)
        if other.type in fact.notes
        and other is not fact
        and other.place.source == fact.place.source
        # Ray prints the wrapper first, with the root's traceback inside
        and (other.place.line < fact.place.line or "RayTaskError" in fact.type)
    ]
    # the chain's root is a fact of its own and tells more
    return not roots


def _finding(
    job: Job, first: PythonException, same: Sequence[PythonException], after: Aftermath
) -> Finding:
    # a last line without its traceback may have been quoted or logged by anyone
    weight = STRONG if first.frames else FAIR + WEAK
    support: list[Evidence] = [evidence(_raised(first), weight, first)]
    against: list[Evidence] = [
        *survived_evidence(job, first),
        *echo_evidence(job, first),
    ]
    for phase in job.all(Phase):
        done = phase.kind == "end" and not apart(phase, first)
        if done and job.chronology.before(phase, first) is True:
            against.append(evidence(say("the program had done its work before it"), STRONG, phase))
            break
    against.extend(_while_cleaning(first))
    words = f"{first.type}: {first.message}"[:2000]
    overlap = _FULL.search(words) is not None and judged(job, "device-overlap")
    if overlap or ELSEWHERE.search(_WRAPPED.sub("", words)) is not None:
        against.append(
            evidence(
                say("an exception of this kind usually only shows another fault"), STRONG, first
            )
        )
    for wrapper in job.all(PythonException):
        if first.type in wrapper.notes and not is_messenger(wrapper):
            support.append(
                evidence(
                    say(
                        "{type} was raised from it: the later exception of one chain",
                        type=wrapper.type,
                    ),
                    0.0,
                    wrapper,
                )
            )
            break
    if not against and not after.against:
        support.extend(_first_of_all(job, first))
    support.extend(_ended(job, after))
    at_exit = [f for f in job.all(PythonException) if f.frames_from == "ignored"]
    if at_exit:
        support.append(
            evidence(say("exceptions in destructors at exit are consequences"), 0.0, at_exit[0])
        )
    if len(same) > 1 and len(after.ranks) > 1:
        support.append(
            evidence(
                say(
                    "the same exception was raised by {ranks}: it lies in what they share, not in "
                    "one rank's data",
                    ranks=ranks_text(after.ranks),
                ),
                WEAK,
                same[1],
            )
        )
    frame = user_frame(first)
    return after.finding(
        "python-exception",
        _summary(first, after),
        support,
        against,
        fixes=_fixes(first, after, frame),
        next_step=_next_step(first, after, frame),
        exonerated=_exonerated(after),
        excerpts=[excerpt(other, "origin") for other in same[1:3]],
        ceiling=0.95,
    )


def _while_cleaning(fact: PythonException) -> list[Evidence]:
    """That it was raised while the program gave back what it held, perhaps after a failure."""
    for frame in fact.frames[-12:]:
        if _CLEANING.search(frame.function.rpartition(".")[2]):
            text = say(
                "it was raised while the program cleaned up ({function}): what had failed before "
                "may not be in the traceback",
                function=frame.function,
            )
            return [evidence(text, FAIR, fact)]
    return []


def _first_of_all(job: Job, first: PythonException) -> list[Evidence]:
    """That nothing else failed by itself, or only later."""
    later = [
        d.fact
        for d in job.deaths
        if d.fact is not first and not isinstance(d.fact, (ProcessEnd, SignalSent))
    ]
    unclear = [
        fact
        for fact in later
        if not isinstance(fact, PythonException) and job.chronology.before(first, fact) is None
    ]
    if unclear:
        return []
    return [
        evidence(
            say("it is the first failure of the input; what others say comes later"), FAIR, first
        )
    ]


def _ended(job: Job, after: Aftermath) -> list[Evidence]:
    """That its process ended as Python ends after it: exit code 1, argparse's is 2."""
    refused = any(one.type == _REFUSED for one in job.all(PythonException))
    for end in job.all(ProcessEnd):
        if end.exit_code != (2 if refused else 1):
            continue
        if after.ranks and end.rank is not None and end.rank not in after.ranks:
            continue
        text = (
            say("a process ended with exit code 2, as argparse does")
            if refused
            else say("a process ended with exit code 1, as Python does after an exception")
        )
        return [evidence(text, FAIR, end)]
    return []


def _raised(fact: PythonException) -> Text:
    frame = user_frame(fact)
    if frame is None:
        return say("{type} was raised: {message}", type=fact.type, message=_headline(fact))
    return say(
        "{type} was raised in {function} ({file}:{line}): {message}",
        type=fact.type,
        function=frame.function,
        file=frame.file,
        line=frame.line or 0,
        message=_headline(fact),
    )


def user_frame(fact: PythonException) -> Frame | None:
    """The innermost frame of the user's own code, else the innermost of all."""
    for frame in reversed(fact.frames):
        if _INSTALLED.search(frame.file) is None:
            return frame
    return fact.frames[-1] if fact.frames else None


def _headline(fact: PythonException) -> str:
    """The message's first line, without the type where the writer repeated it."""
    line = fact.message.split("\n", 1)[0].strip()
    return line[:240]


def _summary(fact: PythonException, after: Aftermath) -> Text:
    if fact.type == _REFUSED:
        return say("A program refused its arguments: {message}.", message=_headline(fact)[:160])
    if after.ranks and after.waiting:
        return say(
            "{who} raised {type} ({message}) and left; {others} only waited for it.",
            who=ranks_text(after.ranks),
            type=fact.type,
            message=_headline(fact)[:160],
            others=ranks_text(after.waiting),
        )
    if after.ranks:
        return say(
            "{who} raised {type} ({message}); that ended the job.",
            who=ranks_text(after.ranks),
            type=fact.type,
            message=_headline(fact)[:160],
        )
    return say(
        "A process raised {type} ({message}); that ended the job.",
        type=fact.type,
        message=_headline(fact)[:160],
    )


def _fixes(fact: PythonException, after: Aftermath, frame: Frame | None) -> list[Fix]:
    place = f"{frame.file}:{frame.line or '?'}" if frame is not None else ""
    if full := _memory_fixes(fact):
        return full
    if fact.type == _REFUSED:
        return [
            Fix(
                say(
                    "write the command as this version of the program wants it: its --help lists "
                    "the arguments; a switch has no value, and a launcher's own options stand "
                    "before the program's name"
                )
            )
        ]
    fixes = [
        Fix(
            say("remove the exception's cause at {place}: {type}", place=place, type=fact.type)
            if place
            else say("remove the exception's cause: {type}", type=fact.type)
        )
    ]
    if len(after.ranks) == 1:
        fixes.append(
            Fix(
                say(
                    "if one sample caused it, skip or repair the sample on every rank alike; an "
                    "except on one rank only leaves the others in their collectives"
                )
            )
        )
    if after.blocked is not None:
        fixes.append(
            Fix(
                say(
                    "let one failed rank end all at once: start with torchrun, decorate main with "
                    "torch.distributed.elastic.multiprocessing.errors.record, and do not catch "
                    "exceptions around collectives"
                )
            )
        )
    return fixes


def _memory_fixes(fact: PythonException) -> list[Fix]:
    """Where an engine found less free memory at its start than it was told to take."""
    found = _FULL.search(f"{fact.type}: {fact.message}"[:2000])
    if found is None:
        return []
    if found[1] is None:
        return [
            Fix(
                say(
                    "weights and activations leave no room for the KV cache: more "
                    "--gpu-memory-utilization if the device is otherwise empty, more tensor "
                    "parallelism, a smaller --max-model-len or --max-num-seqs"
                )
            )
        ]
    free, total = float(found[1]), float(found[2])
    share = int(free / total * 100) / 100 if total else 0.0
    return [
        Fix(
            say(
                "see with nvidia-smi who holds the other {held} GiB of that device: an earlier "
                "run that was not ended, another server, a desktop; free it or choose another "
                "device (CUDA_VISIBLE_DEVICES)",
                held=round(total - free, 2),
            )
        ),
        Fix(
            say(
                "or ask for less than is free: --gpu-memory-utilization below {share}",
                share=share,
            )
        ),
    ]


def _next_step(fact: PythonException, after: Aftermath, frame: Frame | None) -> Text:
    if _memory_fixes(fact):
        return say(
            "run nvidia-smi on that node just before the start: its list of processes and the "
            "memory in use tell whether the device was empty"
        )
    if fact.type == _REFUSED:
        return say(
            "see the usage that the program printed above that line; what the script hands on is "
            "shown by unstall check"
        )
    if frame is None:
        return say(
            "get the whole traceback of {type} from that rank's own log (torchrun --log-dir DIR "
            "--tee 3 keeps one for each rank)",
            type=fact.type,
        )
    if after.ranks:
        return say(
            "read the traceback of {who} from its first line down to {function}; run that step "
            "alone in one process with the same input",
            who=ranks_text(after.ranks),
            function=frame.function,
        )
    return say(
        "read the traceback down to {function}; run that step alone in one process with the same "
        "input",
        function=frame.function,
    )


def _exonerated(after: Aftermath) -> list[Exonerated]:
    if after.blocked is None:
        return []
    return [
        Exonerated(
            "time-out",
            say(
                "the time-outs are consequences: with a longer one the others would wait longer "
                "for a rank that is gone"
            ),
            (after.blocked.stall.first.place,),
        )
    ]


CAUSE = Cause(
    id="python-exception",
    family="one process died first",
    title=say("a rank raised an exception and left"),
    about=say(
        "One rank raised an exception. If its process ends at once, the launcher stops the others; "
        "if it lingers (an atexit handler, a thread, a caught exception), the others wait in their "
        "next collective until the time-out, and their watchdogs are what the log is full of."
    ),
    shows=(
        say("a traceback about one time-out before the watchdog lines"),
        say("the rank of the traceback is missing from the time-outs"),
        say("exit code 1 on that rank; -6 or -15 on the others"),
    ),
    decide=say("the traceback of the rank that is missing from the time-outs, with its time"),
    remedies=(
        say("remove the exception's cause"),
        say("let one failed rank end the whole job, so that the traceback is the last line"),
    ),
    look_alikes=(
        LookAlike(
            "device-assert",
            say("the traceback says “CUDA error: device-side assert triggered”"),
        ),
        LookAlike("cuda-oom", say("the traceback is an OutOfMemoryError that names a GPU")),
        LookAlike(
            "network-transport",
            say("the exception is a remote error or closed connection: it only reports a death"),
        ),
        LookAlike(
            "slow-checkpoint-or-eval",
            say("the missing rank is alive, no traceback stands before the time-outs"),
        ),
    ),
    examine=examine,
    sources=(
        "torch.distributed.elastic.multiprocessing.errors, PyTorch 1.9-2.13",
        "Python documentation, exception chaining",
    ),
)
