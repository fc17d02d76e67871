"""How vLLM's data-parallel engines step together, and what can be counted of it.

With data parallelism every forward pass of every engine, also of an idle one, begins with one
all-reduce in which the engines tell each other their numbers of tokens. While one engine of a
*wave* has work, all engines step. Every so many steps they ask each other whether anyone is
unfinished; only there a wave can end. So the number of such all-reduces is

    start-up + interval * k            between waves,
    start-up + interval * k + 1        the first step of a new wave.

The all-reduce (read in ``vllm/forward_context.py`` to 0.11.0, ``vllm/v1/worker/dp_utils.py`` and
``vllm/v1/worker/gpu/dp_utils.py`` after):

========== ================= ============ ====================================================
since      elements          group        switch to the CPU group
========== ================= ============ ====================================================
0.8        DP                CPU (gloo)
0.11.0     DP                device       ``VLLM_DISABLE_NCCL_FOR_DP_SYNCHRONIZATION``
0.11.1     4 x DP            device       ``--disable-nccl-for-dp-synchronization``; 0.12: also
                                          when asynchronous scheduling is on
0.13       5 x DP            device       asynchronous scheduling, on by default from 0.14
0.17       4 x DP            device       the same
========== ================= ============ ====================================================

(0.15 was not read; 0.14 and 0.16 agree.) The newer model runner (``v1/worker/gpu``) always uses
the CPU group. From 0.14 dense models have no data-parallel synchronisation at all.

The question whether anyone is unfinished (``DPEngineCoreProc._has_global_unfinished_reqs``) goes
through a stateless gloo group: every 24 steps to 0.9.1, every 32 from 0.9.2, from 0.30 every
``--dp-sync-interval`` steps (16) and also at the first step of a wave.
"""

from __future__ import annotations

import msgspec

from unstall.model.text import Text, say
from unstall.programs.groups import Sizes, Traffic, within

ENGINE = "vllm/v1/engine/core.py: DPEngineCoreProc"


class Sync(msgspec.Struct, frozen=True):
    """The all-reduce of each data-parallel step.

    Attributes:
        factor: elements for each data-parallel rank.
        backend: back end of the group it runs in unless switched: ``nccl`` or ``gloo``.
        switch: variable or flag that moves it to the CPU group.
        moved_by_default: whether the usual configuration moves it there.
        source: function and file.
    """

    factor: int
    backend: str
    switch: str | None
    moved_by_default: bool
    source: str


_SYNCS: tuple[tuple[str, Sync], ...] = (
    ("0.17", Sync(4, "nccl", "--disable-nccl-for-dp-synchronization", True,
                  "vllm/v1/worker/dp_utils.py: _run_ar")),
    ("0.14", Sync(5, "nccl", "--disable-nccl-for-dp-synchronization", True,
                  "vllm/v1/worker/dp_utils.py: _run_ar")),
    ("0.13", Sync(5, "nccl", "--disable-nccl-for-dp-synchronization", False,
                  "vllm/v1/worker/dp_utils.py: _run_ar")),
    ("0.11.1", Sync(4, "nccl", "--disable-nccl-for-dp-synchronization", False,
                    "vllm/v1/worker/dp_utils.py: _run_ar")),
    ("0.11", Sync(1, "nccl", "VLLM_DISABLE_NCCL_FOR_DP_SYNCHRONIZATION", False,
                  "vllm/forward_context.py: DPMetadata.num_tokens_across_dp")),
    ("0.8", Sync(1, "gloo", None, False,
                 "vllm/forward_context.py: DPMetadata.num_tokens_across_dp")),
)  # fmt: skip


def dp_sync(version: str | None) -> Sync:
    """The all-reduce of each data-parallel step in a version (unknown: the newest)."""
    return next((sync for since, sync in _SYNCS if within(version, since, None)), _SYNCS[-1][1])


def wave_interval(version: str | None, flag: int | None = None) -> int:
    """Steps between two questions whether anyone is unfinished.

    ``flag`` is ``--dp-sync-interval`` where it was given.
    """
    if within(version, "0.30", None):
        return flag or 16
    return 32 if within(version, "0.9.2", None) else 24


def traffic(sizes: Sizes, version: str | None) -> tuple[Traffic, ...]:
    """The data-parallel step's all-reduce, where these sizes have one."""
    dp = sizes.get("dp", 1)
    if dp < 2 or (within(version, "0.14", None) and not sizes.get("moe", 1)):
        return ()
    sync = dp_sync(version)
    found = [
        Traffic(
            group="dp",
            op="ALLREDUCE",
            numel_in=sync.factor * dp,
            backend=sync.backend,
            text=say(
                "{count} elements are {factor} x {dp}: vLLM's data-parallel engines begin each "
                "step with an all-reduce of their token counts",
                count=sync.factor * dp,
                factor=sync.factor,
                dp=dp,
            ),
            source=f"vLLM {version or '(version unknown)'}, {sync.source}",
        )
    ]
    return tuple(found)


def capture_sizes(version: str | None, max_num_seqs: int, largest: int | None = None) -> list[int]:
    """Batch sizes for which graphs are captured by default.

    Args:
        version: to 0.11.0 multiples of 8 up to 512; later of 8 to 248 and of 16 from 256.
        max_num_seqs: ``--max-num-seqs``; the largest size is twice that, at most 512.
        largest: the largest size where it was set.

    Source: ``_set_cudagraph_sizes`` in ``vllm/config`` of 0.11.0, 0.12.0, 0.16.0.
    """
    top = largest if largest is not None else min(max_num_seqs * 2, 512)
    if within(version, "0.11.1", None):
        steps = [*range(8, min(top + 1, 256), 8), *range(256, top + 1, 16)]
    else:
        steps = list(range(8, top + 1, 8))
    return [size for size in (1, 2, 4) if size <= top] + steps


class Startup(msgspec.Struct, frozen=True):
    """How many step all-reduces an engine makes before it serves.

    Attributes:
        counts: the possible numbers, most likely first.
        assumptions: what they rest on.
        source: functions and files.
    """

    counts: tuple[int, ...]
    assumptions: tuple[Text, ...]
    source: str


def startup(
    version: str | None,
    max_num_seqs: int = 256,
    *,
    enforce_eager: bool = False,
    flashinfer: bool | None = None,
    sizes: int | None = None,
    on_cpu: bool = False,
) -> Startup | None:
    """The step all-reduces of start-up.

    A memory-profile pass, two passes for each captured graph of mixed batches and of pure decode
    batches (one to warm up, one to capture), a sampler warm-up.

    Args:
        version: described for 0.11 and 0.12 (dense and MoE models); ``None`` is returned for
            others, whose first steps differ (compile ranges, graph-memory profiling).
        max_num_seqs: ``--max-num-seqs``; decode graphs end there.
        enforce_eager: no graphs.
        flashinfer: whether FlashInfer tunes itself (one pass more, GPUs of compute capability 9
            and later where it is installed); ``None`` gives both counts.
        sizes: number of captured sizes, where it is known (``Capturing CUDA graphs …: 67/67``).
        on_cpu: on a CPU one pass warms up; there is no profile, no graph, no sampler warm-up
            (0.11.0, read and run).
    """
    if not within(version, "0.11", "0.13"):
        return None
    if on_cpu:
        if not within(version, "0.11", "0.11.1"):
            return None
        return Startup(
            (1,),
            (say("on a CPU: one pass to warm up, no memory profile, no graphs"),),
            "vLLM 0.11.0, vllm/v1/worker/cpu_model_runner.py: warming_up_model",
        )
    assumptions = [
        say("one profile pass and one sampler warm-up, no speculative decoding, no microbatches")
    ]
    count = 2
    if enforce_eager:
        assumptions.append(say("no graphs are captured (enforce_eager)"))
    else:
        default = capture_sizes(version, max_num_seqs)
        mixed = sizes if sizes is not None else len(default)
        decode = len([size for size in default if size <= max_num_seqs])
        count += 2 * mixed + 2 * decode
        assumptions.append(
            say(
                "{mixed} graphs of mixed batches and {decode} of decode batches, each run twice "
                "(max_num_seqs {seqs})",
                mixed=mixed,
                decode=decode,
                seqs=max_num_seqs,
            )
        )
    counts = [count, count + 1]
    if flashinfer is not None:
        counts = [counts[flashinfer]]
    else:
        assumptions.append(say("one more where FlashInfer tunes itself at start-up"))
    return Startup(
        tuple(counts),
        tuple(assumptions),
        "vLLM 0.11.0, vllm/v1/worker/gpu_worker.py: compile_or_warm_up_model; "
        "gpu_model_runner.py: profile_run, capture_model",
    )


class WavePosition(msgspec.Struct, frozen=True):
    """Where a step all-reduce stands.

    Attributes:
        intervals: whole intervals of steps before it.
        step: which step of its interval it is, from 1; 1 may be the first step of a new wave.
        interval: steps between two possible ends of a wave.
        startup: all-reduces of start-up that were subtracted.
    """

    intervals: int
    step: int
    interval: int
    startup: int

    @property
    def first_of_wave(self) -> bool:
        """Whether it can be the first step of a wave: only these can."""
        return self.step == 1


def wave_position(seq: int, startup: int, interval: int = 32) -> WavePosition | None:
    """Where the all-reduce number ``seq`` (``SeqNum``, from 1) stands; ``None`` in start-up."""
    after = seq - startup
    if after < 1:
        return None
    return WavePosition((after - 1) // interval, (after - 1) % interval + 1, interval, startup)


class Residue(msgspec.Struct, frozen=True):
    """What a sequence number says where the count of start-up is not known.

    Attributes:
        residue: start-up count modulo the interval if ``seq`` is the first step of a wave.
        interval: steps between two possible ends of a wave.
        chance: probability that a step at random is the first of its interval.
        agreeing: the given start-up counts that have this residue.
    """

    residue: int
    interval: int
    chance: float
    agreeing: tuple[int, ...]


def residue(seq: int, counts: tuple[int, ...] = (), interval: int = 32) -> Residue:
    """The start-up counts for which ``seq`` is the first step of a wave."""
    wanted = (seq - 1) % interval
    return Residue(
        wanted,
        interval,
        1 / interval,
        tuple(count for count in counts if count % interval == wanted and count < seq),
    )
