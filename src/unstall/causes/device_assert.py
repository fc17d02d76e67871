"""``device-assert``: a kernel's own assertion failed, as a rule for an index out of range."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

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
    ranks_text,
)
from unstall.causes.deaths import echo_evidence, ranks_told
from unstall.causes.reasons import worked_before
from unstall.job import Job
from unstall.model.facts import (
    CudaError,
    DeviceAssert,
    Fact,
    PythonException,
    TrainingStep,
    WarningLine,
)
from unstall.model.findings import Evidence, Exonerated, Finding, Fix
from unstall.model.text import Text, say

#: Kernels that look an index up; the file says what was indexed (ATen/native/cuda).
_LOOKUPS = (
    (re.compile(r"Indexing\.cu|Embedding"), "embedding"),
    (re.compile(r"Loss\.cu|NLLLoss|nll_loss"), "label"),
    (re.compile(r"IndexKernel|ScatterGather|index"), "index"),
    (re.compile(r"MultinomialKernel|Distributions"), "probability"),
)


def examine(job: Job) -> Iterable[Finding]:
    """One claim for the first assertion or the error that it leaves behind."""
    printed = list(job.all(DeviceAssert))
    errors = [error for error in job.all(CudaError) if error.name == "Assert"]
    if not printed and not errors:
        return
    first: Fact = job.chronology.in_order([*printed, *errors])[0]
    after = aftermath(job, first, ranks_told(job, [*printed, *errors]))
    support: list[Evidence] = []
    for assertion in printed[:1]:
        support.append(
            evidence(
                say(
                    "a kernel's assertion failed: {expression} ({file})",
                    expression=assertion.expression,
                    file=assertion.file.rpartition("/")[2],
                ),
                DECISIVE,
                assertion,
            )
        )
    for error in errors[:1]:
        support.append(
            evidence(
                say("“CUDA error: {text}” followed from it", text=error.text)
                if printed
                else say("“CUDA error: {text}”: a kernel checked an index", text=error.text),
                WEAK if printed else STRONG + FAIR,
                error,
            )
        )
        if not error.blocking:
            support.append(
                evidence(
                    say(
                        "launches were not blocking: the Python line where it surfaced, even one "
                        "of a reduction or of NCCL, did not make it"
                    ),
                    0.0,
                    error,
                )
            )
    too_long = _too_long(job, first)
    if too_long is not None:
        support.append(
            evidence(
                say(
                    "a sequence of {length} tokens went to a model with {maximum} positions",
                    length=too_long.values["length"],
                    maximum=too_long.values["maximum"],
                ),
                FAIR,
                too_long,
            )
        )
    everyone = len(after.ranks) > 1 and worked_before(job, first) is None
    if everyone:
        support.append(
            evidence(
                say(
                    "{ranks} met it before any step was done: the same table is too small for all, "
                    "a vocabulary or position size",
                    ranks=ranks_text(after.ranks),
                ),
                WEAK,
                first,
            )
        )
    elif len(after.ranks) == 1 and worked_before(job, first) is not None:
        support.append(
            evidence(
                say("steps went well before and only one rank met it: one sample of its data"),
                WEAK,
                first,
            )
        )
    kind = _kind(printed)
    yield after.finding(
        "device-assert",
        _summary(after, too_long, everyone),
        support,
        echo_evidence(job, first, besides=(CudaError, DeviceAssert, PythonException)),
        fixes=_fixes(kind, too_long, everyone),
        next_step=_next_step(after),
        origin=after.origin(role="trainer"),
        exonerated=_exonerated(after, first),
        excerpts=[
            *(excerpt(error, "origin") for error in errors[:1]),
            *([excerpt(too_long, "origin")] if too_long is not None else []),
        ],
        ceiling=0.96,
    )


def _too_long(job: Job, first: Fact) -> WarningLine | None:
    """The warning of a sequence beyond the model's positions, if no step was done after it.

    Data is often tokenized whole and cut afterwards, with the same warning.
    """
    before = job.chronology.before
    steps = [step for step in job.all(TrainingStep) if before(step, first) is True]
    return next(
        (
            w
            for w in job.all(WarningLine)
            if w.topic == "sequence-too-long"
            and {"length", "maximum"} <= set(w.values)
            and not any(before(w, step) is True for step in steps[-1:])
        ),
        None,
    )


def _kind(printed: Sequence[DeviceAssert]) -> str:
    for assertion in printed:
        for pattern, kind in _LOOKUPS:
            if pattern.search(assertion.file) is not None:
                return kind
    return "index"


def _summary(after: Aftermath, too_long: WarningLine | None, everyone: bool) -> Text:
    if everyone:
        return say(
            "An index was out of range in a kernel on {who} alike: a vocabulary, label or position "
            "table is smaller than the data needs.",
            who=ranks_text(after.ranks),
        )
    if after.ranks and too_long is not None:
        return say(
            "An index was out of range in a kernel on {who}: a sample of {length} tokens exceeds "
            "the {maximum} positions of the model.",
            who=ranks_text(after.ranks),
            length=too_long.values["length"],
            maximum=too_long.values["maximum"],
        )
    if after.ranks:
        return say(
            "An index was out of range in a kernel on {who}: its input does not fit the model.",
            who=ranks_text(after.ranks),
        )
    return say("An index was out of range in a kernel: an input does not fit the model.")


def _fixes(kind: str, too_long: WarningLine | None, everyone: bool) -> list[Fix]:
    fixes: list[Fix] = []
    if too_long is not None:
        fixes.append(
            Fix(
                say(
                    "truncate or filter samples to at most {maximum} tokens before they reach the "
                    "model",
                    maximum=too_long.values["maximum"],
                )
            )
        )
    if kind == "probability":
        fixes.append(
            Fix(
                say(
                    "sampling met probabilities that are NaN, infinite or negative: check the "
                    "logits for NaN (precision, overflow) before sampling"
                )
            )
        )
    elif kind == "label":
        fixes.append(
            Fix(
                say(
                    "a label is outside of the classes: compare the labels' range with the number "
                    "of classes, and use the ignore index (-100) for padding"
                )
            )
        )
    elif everyone or too_long is None:
        fixes.append(
            Fix(
                say(
                    "compare the largest token id with the embedding's rows; after adding tokens "
                    "call model.resize_token_embeddings(len(tokenizer))"
                )
            )
        )
        if too_long is None:
            fixes.append(Fix(say("truncate samples that are longer than the model's positions")))
    fixes.append(
        Fix(
            say(
                "to see the very line: CUDA_LAUNCH_BLOCKING=1, or run the same batch on the CPU, "
                "where the index error is raised with its value"
            )
        )
    )
    return fixes


def _next_step(after: Aftermath) -> Text:
    if after.ranks and len(after.ranks) == 1:
        return say(
            "print the minimum and maximum of the ids, labels and positions of the batch on {who} "
            "before the forward pass",
            who=ranks_text(after.ranks),
        )
    return say(
        "print the minimum and maximum of the ids, labels and positions of the first batch, and "
        "the rows of the embedding"
    )


def _exonerated(after: Aftermath, first: Fact) -> list[Exonerated]:
    found = [
        Exonerated(
            "nccl",
            say(
                "after a failed assertion every CUDA call of the process fails, those of NCCL and "
                "of the watchdog too: they only report it"
            ),
            (first.place,),
        )
    ]
    if after.blocked is not None:
        found.append(
            Exonerated(
                "time-out",
                say(
                    "the time-outs are consequences: with a longer one the others would wait "
                    "longer for a rank that is gone"
                ),
                (after.blocked.stall.first.place,),
            )
        )
    return found


CAUSE = Cause(
    id="device-assert",
    family="device",
    title=say("a kernel's assertion failed: an index out of range"),
    about=say(
        "A kernel found an index outside of its table (a token id beyond the vocabulary, a "
        "position beyond the model's, a label beyond the classes) and stopped. Every later CUDA "
        "call of that process fails with “device-side assert triggered”, so the Python line, the "
        "watchdog or NCCL that shows it is seldom the place. The other ranks wait until the "
        "time-out."
    ),
    shows=(
        say("“Assertion `…` failed” with block and thread, printed many times"),
        say("“CUDA error: device-side assert triggered”"),
    ),
    decide=say("a run with blocking launches or on the CPU: it names the line and the index"),
    remedies=(
        say("all ranks at the first step: resize the embedding, correct labels or special tokens"),
        say("one rank later: truncate, filter or repair the sample"),
    ),
    look_alikes=(
        LookAlike(
            "illegal-memory-access",
            say("no assertion is printed; the text says “illegal memory access”"),
        ),
        LookAlike("python-exception", say("the exception is not a CUDA error")),
        LookAlike(
            "slow-checkpoint-or-eval",
            say("the missing rank is alive, no assertion stands before the time-outs"),
        ),
    ),
    examine=examine,
    sources=(
        "PyTorch ATen/native/cuda: Indexing.cu, IndexKernel.cu, Loss.cu, 1.13-2.13",
        "CUDA Runtime API, error 710 (cudaErrorAssert)",
    ),
)
