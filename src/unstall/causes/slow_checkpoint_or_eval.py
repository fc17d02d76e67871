"""``slow-checkpoint-or-eval``: one rank saves or evaluates while the others wait for it."""

from __future__ import annotations

from collections.abc import Iterable

from unstall.causes.activity import apart_evidence, waiters_within
from unstall.causes.base import (
    DECISIVE,
    FAIR,
    STRONG,
    Cause,
    LookAlike,
    evidence,
    excerpt,
    origin_of,
    ranks_text,
)
from unstall.causes.divergence import SMALL
from unstall.causes.reasons import (
    boilerplate,
    died_before,
    network_before,
    no_network_trouble,
)
from unstall.causes.scene import Scene, outlasts, scenes, waits_elsewhere
from unstall.job import Job
from unstall.model.facts import Fact, Phase, Progress, TrainingStep
from unstall.model.findings import Change, Evidence, Excerpt, Finding, Fix
from unstall.model.plan import Program
from unstall.model.text import Text, say

KINDS = ("save", "evaluate")

#: Bars of saving, uploading and evaluating (transformers, torchtune, huggingface_hub, Lightning).
_SAVING = ("saving", "checkpoint", "upload", "write", "保存")
_EVALUATING = ("evaluat", "validat", "predict", "testing", "评估", "验证")
_NOT_SAVING = ("loading", "download", "fetching")

#: What a program does before it trains: behind a save it shows that another run had begun.
_PREPARING = ("tokenize", "load-data", "load-model", "init")

#: A wait that began so long after the last word of saving has another reason.
LATE = 1800.0


def examine(job: Job) -> Iterable[Finding]:
    """A claim for the first wait in which few ranks are missing and saving or evaluating."""
    for scene in scenes(job):
        if not scene.few_missing and not scene.seen.split:
            continue
        if scene.blocked is not None and scene.blocked.everyone_waits:
            continue
        finding = _claim(job, scene)
        if finding is not None:
            yield finding
            return


def _claim(job: Job, scene: Scene) -> Finding | None:
    words = _words(job, scene)
    apart = apart_evidence(scene.seen, KINDS, DECISIVE)
    inside = waiters_within(job, scene.program, scene.waiters, KINDS)
    if not words and not apart and not inside:
        return None
    support = [*scene.support]
    stall = scene.blocked.stall if scene.blocked is not None else None
    if stall is not None and (
        stall.looks_like_barrier or (stall.work.numel_in or SMALL + 1) <= SMALL
    ):
        support.append(
            evidence(
                say(
                    "it is a barrier or an operation of few elements: ranks meet there, they do "
                    "not exchange gradients"
                ),
                0.0 if inside else FAIR,
                stall.first,
            )
        )
    last = words[0] if words else None
    phase = _name(last, apart, inside)
    if last is not None:
        support.extend(_told(job, scene, words))
    support.extend(apart)
    support.extend(inside)
    against = [
        *died_before(job, scene.blocked),
        *waits_elsewhere(job, scene),
        *network_before(job, scene.first),
    ]
    if stall is not None and len({key[1] for key in stall.operations}) > 1:
        against.append(
            evidence(
                say("ranks of the group wait in different operations"),
                STRONG,
                stall.first,
            )
        )
    if not scene.missing and not apart:
        return None
    missing = scene.missing if len(scene.missing) <= max(1, len(scene.waiters)) else ()
    return Finding(
        cause="slow-checkpoint-or-eval",
        summary=_summary(missing, phase),
        support=tuple(support),
        against=tuple(against),
        fixes=_fixes(scene.program, phase),
        next_step=say(
            "take a stack of the missing rank while the others wait (py-spy dump --pid PID): "
            "frames of saving or evaluating prove it; and time one save or evaluation alone"
        ),
        origin=origin_of(scene.program, missing, group=scene.group),
        collective=scene.collective,
        waiting_ranks=scene.waiters,
        started_at=scene.began,
        exonerated=(*no_network_trouble(job), *boilerplate(job)),
        excerpts=(*scene.excerpts, *_lines(words)),
    )


def _lines(words: list[Fact]) -> list[Excerpt]:
    return [excerpt(fact, "origin") for fact in words[:3]]


def _words(job: Job, scene: Scene) -> list[Fact]:
    """What was said of saving or evaluating since the last training step, the latest first.

    Lines of a rank that waits itself tell nothing of the missing one.
    """
    last = _last_place(scene)
    told: list[Fact] = []
    of_bars = {bar.place for bar in job.all(Progress) if _bar_kind(bar) is not None}
    for fact in job.facts:
        if isinstance(fact, Phase):
            relevant = fact.kind in KINDS and fact.place not in of_bars
        elif isinstance(fact, Progress):
            relevant = _bar_kind(fact) is not None
        else:
            continue
        if not relevant or _other_program(job, scene, fact):
            continue
        if fact.speaker.rank is not None and fact.speaker.rank in scene.waiters:
            continue
        if isinstance(fact, Progress) and not outlasts(fact, scene):
            continue
        told.append(fact)
    # what goes on behind the time-outs shows that the rank was alive; it must have begun before
    begun = {_kind(fact) for fact in told if last is None or not _after(job, fact, last)}
    told = [fact for fact in told if _kind(fact) in begun]
    told.sort(key=lambda fact: fact.place, reverse=True)
    if not told:
        return []
    newest = told[0]
    if _begun_anew(job, newest, scene.first):
        return []
    for step in reversed(job.all(TrainingStep)):
        if step.place.source == newest.place.source and step.place > newest.place:
            evaluated = any(name.startswith("eval") for name in step.metrics)
            if not _after(job, step, last) and not evaluated:
                return []
            break
    if scene.began is not None and newest.moment is not None:
        gap = scene.began.seconds_since(newest.moment)
        if gap > LATE and (scene.limit_ms is None or gap > scene.limit_ms / 1000):
            return []
    started = next((p for p in reversed(told) if p.place.source == newest.place.source), newest)
    steps = [s for s in job.all(TrainingStep) if started.place < s.place < newest.place]
    floor = steps[-1].place if steps and steps[-1].place.source == newest.place.source else None
    return [fact for fact in told if floor is None or fact.place > floor]


def _begun_anew(job: Job, newest: Fact, first: Fact) -> bool:
    """Whether training ended, or data were prepared, between the last such word and the wait.

    What was saved or evaluated before belongs to a run before, or was long over.
    """
    return any(
        (phase.kind in _PREPARING or (phase.kind == "end" and phase.finished))
        and phase.place.source == newest.place.source == first.place.source
        and newest.place < phase.place <= first.place
        and phase.speaker.rank == newest.speaker.rank
        for phase in job.all(Phase)
    )


def _last_place(scene: Scene) -> Fact | None:
    """The last time-out of the wait: lines of ranks interleave with it."""
    if scene.blocked is None:
        return scene.first if scene.told != "stacks" else None
    return max(scene.blocked.stall.waiters.values(), key=lambda fact: fact.place)


def _after(job: Job, fact: Fact, last: Fact | None) -> bool:
    if last is None:
        return False
    if fact.place.source == last.place.source:
        return fact.place > last.place
    return job.chronology.before(last, fact) is True


def _other_program(job: Job, scene: Scene, fact: Fact) -> bool:
    owner = job.owner(fact)
    return owner is not None and scene.program is not None and owner is not scene.program


def _bar_kind(bar: Progress) -> str | None:
    label = bar.label.lower()
    if any(word in label for word in _NOT_SAVING):
        return None
    if any(word in label for word in _SAVING) or label.endswith((".safetensors", ".bin", ".pt")):
        return "save"
    if any(word in label for word in _EVALUATING):
        return "evaluate"
    return None


def _kind(fact: Fact) -> str:
    if isinstance(fact, Phase):
        return fact.kind
    return (_bar_kind(fact) or "save") if isinstance(fact, Progress) else "save"


def _name(last: Fact | None, apart: list[Evidence], inside: list[Evidence]) -> str:
    if last is not None:
        return _kind(last)
    quotes = " ".join(str(item.text.values.get("frame", "")) for item in (*apart, *inside)).lower()
    return "evaluate" if ("eval" in quotes or "valid" in quotes) else "save"


def _told(job: Job, scene: Scene, words: list[Fact]) -> list[Evidence]:
    """That saving or evaluating was the last thing told, and went on while the others waited."""
    newest = words[0]
    saving = _kind(newest) == "save"
    ended = isinstance(newest, Phase) and newest.finished
    bars = [newest] if isinstance(newest, Progress) else []
    bars += [bar for bar in job.all(Progress) if bar.place == newest.place]
    ended = ended or any(bar.total is not None and bar.done == bar.total for bar in bars)
    # of another log, without a time: whether it came before is not known
    unordered = (
        newest.place.source != scene.first.place.source
        and newest.speaker.rank is None
        and job.chronology.before(newest, scene.first) is None
    )
    during = _during(job, scene, newest)
    going_on = during or len([f for f in words if _kind(f) == _kind(newest)]) > 2
    quote = newest.quote[-160:]
    found = [
        evidence(
            say("the last thing told before the time-outs is saving: {quote}", quote=quote)
            if saving
            else say(
                "the last thing told before the time-outs is evaluation: {quote}", quote=quote
            ),
            STRONG if (going_on or not ended) and not unordered else FAIR,
            newest,
        )
    ]
    if during:
        found.append(
            evidence(
                say(
                    "that line stands among the time-outs: the missing rank was alive and busy, "
                    "only late"
                ),
                FAIR,
                newest,
            )
        )
    oldest = words[-1]
    if oldest is not newest:
        found.append(
            evidence(say("it began here: {quote}", quote=oldest.quote[-160:]), 0.0, oldest)
        )
    if scene.began is not None and oldest.moment is not None:
        gap = scene.began.seconds_since(oldest.moment)
        if -60 <= gap <= 120:
            found.append(
                evidence(
                    say(
                        "the others began to wait {seconds} s after it had begun",
                        seconds=round(gap),
                    ),
                    FAIR,
                    oldest,
                )
            )
    return found


def _during(job: Job, scene: Scene, fact: Fact) -> bool:
    """Whether a line was written after the others had begun to wait."""
    del job
    if scene.began is not None and fact.moment is not None:
        return fact.moment.seconds_since(scene.began) > 5
    first = scene.first.place
    return fact.place.source == first.source and fact.place > first


def _summary(missing: tuple[int, ...], phase: str) -> Text:
    saving = phase == "save"
    if not missing:
        return (
            say("One rank was still saving a checkpoint when the others gave up waiting for it.")
            if saving
            else say("One rank was still evaluating when the others gave up waiting for it.")
        )
    if saving:
        return say(
            "{ranks} was still saving a checkpoint when the others gave up waiting.",
            ranks=ranks_text(missing),
        )
    return say(
        "{ranks} was still evaluating when the others gave up waiting.", ranks=ranks_text(missing)
    )


def _fixes(program: Program | None, phase: str) -> tuple[Fix, ...]:
    change = (
        Change(program.label, {"ddp_timeout": "7200"})
        if program is not None and program.flags and "ddp_timeout" not in program.flags
        else None
    )
    longer = Fix(
        say(
            "raise the process groups' time-out above what a save or an evaluation takes "
            "(--ddp_timeout SECONDS, or timeout= of init_process_group): the rank is alive and "
            "only late"
        ),
        change if program is not None and _takes_ddp_timeout(program) else None,
    )
    if phase == "evaluate":
        return (
            Fix(say("evaluate on every rank, each on its share, instead of on one")),
            longer,
            Fix(say("evaluate less: fewer samples, or less often")),
        )
    return (
        Fix(
            say(
                "save in shards from every rank, or asynchronously (torch.distributed.checkpoint, "
                "async_save), so that no rank writes alone"
            )
        ),
        longer,
        Fix(say("save to a local disk and copy afterwards; save less often, or the adapter only")),
    )


def _takes_ddp_timeout(program: Program) -> bool:
    """Whether the program's command takes transformers' training arguments."""
    return program.software in (
        "transformers",
        "trl",
        "ms-swift",
        "llamafactory",
        "axolotl",
        "accelerate",
    )


CAUSE = Cause(
    id="slow-checkpoint-or-eval",
    family="one rank is alive but late",
    title=say("one rank saves or evaluates, the others wait"),
    about=say(
        "Rank 0 writes a checkpoint, uploads it or evaluates alone, and the others wait for it in "
        "the next operation of the group, often a barrier of one element. A full state dict of a "
        "large model on a network disk takes longer than the time-out of ten minutes that NCCL "
        "groups have since PyTorch 2.2 (thirty before). The watchdogs of the ranks that wait then "
        "end the job, and the launcher names one of them."
    ),
    shows=(
        say("every rank but one shares one SeqNum, in a barrier or an operation of 1 element"),
        say("the missing rank's last enqueued work is the one before; it only hears of the dump"),
        say("a line of saving or evaluating stands just before, or among the time-outs"),
    ),
    decide=say("a stack of the missing rank, or the time that one save or evaluation takes alone"),
    remedies=(
        say("sharded or asynchronous saving; evaluation on every rank"),
        say("a longer time-out: here it helps, for the rank is alive"),
        say("a faster disk"),
    ),
    look_alikes=(
        LookAlike(
            "size-mismatch",
            say(
                "“wrong sizes” in the dump message is printed with every dump; sizes that differ "
                "stand in the time-out lines"
            ),
        ),
        LookAlike(
            "rank-dependent-branch",
            say("the missing rank waits too, in another operation or in another group"),
        ),
        LookAlike("python-exception", say("a traceback of the missing rank stands before")),
        LookAlike("device-assert", say("the missing rank printed a CUDA error before")),
    ),
    examine=examine,
    sources=(
        "PyTorch 2.2 release notes: default time-out of NCCL groups is 10 minutes",
        "torchtune recipes: save_checkpoint on rank 0 after gathering the full state dict",
    ),
)
