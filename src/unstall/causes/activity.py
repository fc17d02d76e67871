"""What a rank was doing by its frames: saving, evaluating, computing gradients, preparing data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from unstall import stacks
from unstall.causes.base import STRONG, WEAK, evidence
from unstall.job import Job
from unstall.model.facts import FailedStack, Frame, ProcessStack, PythonException, ThreadStack
from unstall.model.findings import Evidence
from unstall.model.plan import Program
from unstall.model.text import Text, say
from unstall.stacks import Wait

SERVING = ("rollout", "inference", "reward")

#: Processes that are no ranks.
_NO_RANKS = ("launcher", "loader", "driver", "http server", "coordinator", "helper")

#: What a function's name says its caller is doing; of several the innermost frame's counts, and
#: of one frame's the first row's. Names of torch, transformers, accelerate, DeepSpeed, Lightning,
#: speechbrain, TRL and verl follow these words.
_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("save", re.compile(r"save|ckpt|checkpoint|gather_full_state|state_dict|streamwriter")),
    ("evaluate", re.compile(r"evaluat|^_?eval|validat|predict|val_loop|val_epoch|test_epoch")),
    ("reward", re.compile(r"reward|verif|compute_score|judge|grade_")),
    ("generate", re.compile(r"generat|rollout|make_experience")),
    (
        "prepare",
        re.compile(r"tokeniz|preprocess|load_dataset|_map_single|prepare_data|get_dataset"),
    ),
    ("load", re.compile(r"next_data|get_batch_samples|collat|__getitem__")),
    ("gradients", re.compile(r"backward|reduce.*grad|allreduce_bucket|clip_grad|grad_norm")),
    ("forward", re.compile(r"forward|fetch_sub_module|unshard|compute_loss|pre_sub_module")),
    (
        "metrics",
        re.compile(
            r"metric|reduce_loss|(?:mean|average|avg)_loss|loss_(?:mean|average|avg)"
            r"|nested_gather|_log$|^log_|_maybe_log|maybe_log"
        ),
    ),
)

#: Where "verify" is no verifier of rewards: DDP compares shapes, TLS certificates, hubs check sums.
_LIBRARIES = re.compile(
    r"(?:^|/)(?:torch|urllib3|requests|httpx|httpcore|huggingface_hub|ssl\.py)(?:/|$)"
)

#: Functions whose names hold such a word and mean something else.
_NOT = re.compile(r"torch/utils/checkpoint\.py|/pydantic/|checkpoint_wrapper\.py|validators?\.py")

KEYS = {
    "checkpoint": "save",
    "evaluation": "evaluate",
    "reward": "reward",
    "awaits-rollout": "generate",
    "data-loading": "load",
    "gradient-reduction": "gradients",
    "parameter-gather": "forward",
    "pipeline-exchange": "pipeline",
    "end-of-step": "metrics",
}


class Activity(msgspec.Struct, frozen=True):
    """What frames say.

    Attributes:
        kind: ``save``, ``evaluate``, ``reward``, ``generate``, ``prepare``, ``load``,
            ``gradients``, ``forward``, ``metrics``, ``pipeline``.
        frame: the frame that says it.
    """

    kind: str
    frame: Frame

    @property
    def shown(self) -> str:
        """``save_checkpoint (trainer.py:12)``."""
        file = self.frame.file.replace("\\", "/").rpartition("/")[2]
        line = f":{self.frame.line}" if self.frame.line is not None else ""
        return f"{self.frame.function} ({file}{line})" if file else self.frame.function


def activity(frames: Sequence[Frame]) -> Activity | None:
    """What a thread is doing by its frames, innermost first.

    Saving and evaluating stand further out than the collective that they make: where an outer
    frame says either, that counts before the forward pass inside.
    """
    found: list[Activity] = []
    for frame in frames[:200]:
        if _NOT.search(frame.file.replace("\\", "/")):
            continue
        name = frame.function.rpartition(".")[2].lower()
        kind = next((kind for kind, words in _WORDS if words.search(name)), None)
        if kind == "reward" and _LIBRARIES.search(frame.file.replace("\\", "/")):
            continue
        if kind is not None:
            found.append(Activity(kind, frame))
    outer = next((one for one in found if one.kind in ("save", "evaluate")), None)
    return outer or (found[0] if found else None)


def activity_of(wait: Wait, frames: Sequence[Frame]) -> Activity | None:
    """The activity by a framework's own known frames, else by the names of functions."""
    for key in wait.keys:
        if key in KEYS and wait.within is not None:
            return Activity(KEYS[key], wait.within)
    return activity(frames)


class RankStack(msgspec.Struct, frozen=True):
    """One rank's stack and what it says; ``calls`` are its frames, innermost first."""

    stack: ProcessStack
    rank: int | None
    wait: Wait
    activity: Activity | None
    calls: tuple[tuple[str, str, int | None], ...] = ()

    @property
    def who(self) -> Text:
        """``rank 3``, or its process."""
        if self.rank is not None:
            return say("rank {rank}", rank=self.rank)
        if self.stack.pid is not None:
            return say("process {pid}", pid=self.stack.pid)
        return say("one process")


def place_of(one: RankStack) -> str:
    """``load_batch (data.py:41)``: where in the program's own code a rank is."""
    frame = one.wait.caller or (one.activity.frame if one.activity is not None else None)
    thread = stacks.main_thread(one.stack)
    if frame is None and thread is not None and thread.frames:
        frame = thread.frames[0]
    if frame is None:
        return "?"
    function = frame.function.partition(".<locals>.<")[0]  # of a comprehension or a lambda: whose
    return Activity("", Frame(function, frame.file, frame.line)).shown


class Standing(msgspec.Struct, frozen=True):
    """Stacks of a training program's ranks.

    Attributes:
        together: those inside a collective, or waiting for the device or the store.
        apart: those that are elsewhere: the ranks that the others wait for.
    """

    together: tuple[RankStack, ...] = ()
    apart: tuple[RankStack, ...] = ()

    @property
    def split(self) -> bool:
        """Whether some wait in a collective and others are elsewhere."""
        return bool(self.together and self.apart) and len(self.apart) <= len(self.together)

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks that are elsewhere."""
        return tuple(sorted({one.rank for one in self.apart if one.rank is not None}))

    @property
    def waiting(self) -> tuple[int, ...]:
        """Ranks in the collective."""
        return tuple(sorted({one.rank for one in self.together if one.rank is not None}))


def rank_stacks(job: Job, *, serving: bool = False) -> tuple[RankStack, ...]:
    """The last stacks of the trainer's ranks, or of an inference engine's workers."""
    known: dict[tuple[int | None, int | None, str | None], RankStack] = {}
    for stack in job.all(ProcessStack):
        identity = stacks.identify(stack)
        if serving != (identity.role in SERVING) or identity.process in _NO_RANKS:
            continue
        if serving and identity.process != "worker":
            continue
        thread = stacks.main_thread(stack)
        if thread is None or not thread.frames:
            continue
        wait = stacks.wait_of_process(stack)
        own = stacks.own_frames(thread)
        calls = tuple((frame.function, frame.file, frame.line) for frame in own)
        rank = identity.rank
        if rank is None and serving and set(identity.parts) == {"TP"}:
            rank = identity.parts["TP"]
        one = RankStack(stack, rank, wait, activity_of(wait, own), calls)
        known[(rank, stack.pid, stack.speaker.host)] = one
    return tuple(known.values())


def standing(job: Job, *, serving: bool = False) -> Standing:
    """The stacks of the trainer's ranks, or an engine's: who is in a collective and who is not."""
    known = rank_stacks(job, serving=serving)
    within = ("collective", "point-to-point")
    if not any(one.wait.kind in within or _synchronizes(one) for one in known):
        return Standing()
    waits = (*within, "gpu", "store")
    return Standing(
        tuple(one for one in known if one.wait.kind in waits),
        tuple(one for one in known if one.wait.kind not in waits),
    )


def _synchronizes(one: RankStack) -> bool:
    """Whether a rank waits for the device inside of a call of a process group."""
    return one.wait.kind == "gpu" and any("ProcessGroupNCCL::" in call for call, _, _ in one.calls)


def apart_evidence(seen: Standing, kinds: Iterable[str], weight: float) -> list[Evidence]:
    """That a rank stands apart from those in the collective, doing one of ``kinds``."""
    wanted = set(kinds)
    found: list[Evidence] = []
    if not seen.split:
        return found
    for one in seen.apart[:3]:
        if one.activity is None or one.activity.kind not in wanted:
            continue
        found.append(
            evidence(
                say(
                    "{who} is in {frame} while {count} other processes wait in a collective",
                    who=one.who,
                    frame=one.activity.shown,
                    count=len(seen.together),
                ),
                weight if not found else 0.0,
                one.stack,
            )
        )
    return found


def frames_of_failed(job: Job, program: Program | None) -> dict[int, tuple[Activity, FailedStack]]:
    """Rank to what it was doing when the operation that timed out was enqueued."""
    found: dict[int, tuple[Activity, FailedStack]] = {}
    for fact in job.all(FailedStack):
        rank = fact.speaker.rank
        if rank is None or not fact.frames or rank in found:
            continue
        owner = job.owner(fact)
        if program is not None and owner is not None and owner is not program:
            continue
        frames = tuple(Frame(function, file, line) for function, file, line in fact.frames)
        thread = ThreadStack("MainThread", frames)
        doing = activity_of(stacks.wait_of(thread), frames)
        if doing is not None:
            found[rank] = (doing, fact)
    return found


def activity_of_exception(exception: PythonException) -> Activity | None:
    """What the rank that raised it was doing."""
    return activity(tuple(reversed(exception.frames)))


def waiters_within(
    job: Job, program: Program | None, ranks: Iterable[int], kinds: Iterable[str]
) -> list[Evidence]:
    """That ranks waited inside a function of one of ``kinds``, by torch's stack of the operation.

    A barrier inside ``save_checkpoint`` is where ranks wait for the one that writes.
    """
    wanted, among = set(kinds), set(ranks)
    inside = [
        (rank, doing, fact)
        for rank, (doing, fact) in sorted(frames_of_failed(job, program).items())
        if rank in among and doing.kind in wanted
    ]
    if not inside:
        return []
    rank, doing, fact = inside[0]
    return [
        evidence(
            say(
                "rank {rank} entered the operation from {frame}",
                rank=rank,
                frame=doing.shown,
            ),
            STRONG if len(inside) > 1 else WEAK,
            fact,
        )
    ]
