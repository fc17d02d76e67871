"""What is certain of a failure's first sign where its reason is not told."""

from __future__ import annotations

import re

from unstall.causes import engine_signs, hccl
from unstall.causes.base import ranks_text
from unstall.job.deaths import is_messenger
from unstall.model.facts import (
    BarrierFailure,
    CollectiveMismatch,
    CudaError,
    EngineNotice,
    Fact,
    FatalSignal,
    GroupStatus,
    HcclError,
    NcclError,
    NcclWarning,
    PeerLost,
    ProcessEnd,
    ProcessTakenDown,
    PythonException,
    Remark,
    StoreFailure,
    WatchdogError,
    WatchdogStuck,
)
from unstall.model.text import Text, say

#: ``_store_based_barrier`` of torch/distributed/distributed_c10d.py, 1.8 to 2.x.
_COUNTED = re.compile(r"store based barrier.{0,120}world_size=(\d{1,7}), worker_count=(\d{1,7})")
_SIGNALS = {-4: "SIGILL", -6: "SIGABRT", -7: "SIGBUS", -8: "SIGFPE", -11: "SIGSEGV"}


def headline(fact: Fact) -> Text:
    """One sentence: what the first sign shows, and that its reason is not told."""
    if isinstance(fact, StoreFailure):
        return _store(fact)
    if isinstance(fact, ProcessEnd):
        return _end(fact)
    if (
        isinstance(fact, PythonException)
        and fact.type == "KeyboardInterrupt"
        and fact.message.startswith("terminated")
    ):
        # vLLM 0.9-0.11 entrypoints/launcher.py, docs/deployment/k8s.md
        return say(
            "The server was ended from outside (SIGTERM): in Kubernetes a start-up or liveness "
            "probe whose time had passed does that; who sent it is not told."
        )
    if isinstance(fact, PythonException) and fact.type == "KeyboardInterrupt" and fact.frames:
        last = fact.frames[-1]
        return say(
            "It was interrupted while it stood in {function} ({file}:{line}); the input does not "
            "tell what that waited for.",
            function=last.function,
            file=last.file.replace("\\", "/").rpartition("/")[2],
            line=last.line or 0,
        )
    if isinstance(fact, GroupStatus) and fact.failed is not None:
        return say(
            "The watchdog of {who} tells that operation {seq} timed out or failed; the line that "
            "names it is not in the input.",
            who=_whose(fact, fact.group.rank),
            seq=fact.failed,
        )
    if isinstance(fact, EngineNotice):
        return engine_signs.headline(fact)
    if isinstance(fact, HcclError):
        return hccl.headline(fact)
    if isinstance(fact, Remark):
        return say("It stands still, a person writes; the input does not tell why.")
    if isinstance(fact, PeerLost):
        return say(
            "A connection to another process was lost; the input does not tell what became of it."
        )
    if isinstance(fact, FatalSignal):
        return say(
            "{who} crashed: {what}; the input does not tell why.", who=_who(fact), what=fact.what
        )
    if isinstance(fact, WatchdogStuck):
        return say(
            "The watchdog of {who} itself made no progress: a call of CUDA or NCCL did not return. "
            "The input does not tell why.",
            who=_whose(fact, fact.group.rank),
        )
    if isinstance(fact, ProcessTakenDown):
        return say(
            "{who} ended itself on its watchdog's word; what had happened is not in the input.",
            who=_who(fact),
        )
    return _error(fact)


def _error(fact: Fact) -> Text:
    """Errors that carry words of their own."""
    if isinstance(fact, BarrierFailure) and fact.absent:
        return say(
            "A monitored barrier waited in vain for {ranks}; the input does not tell what became "
            "of them.",
            ranks=ranks_text(fact.absent),
        )
    if isinstance(fact, CollectiveMismatch):
        return say(
            "Two ranks were not at the same place in their sequence of collectives; the input does "
            "not tell where they had parted."
        )
    if isinstance(fact, NcclError):
        words = fact.last_error or fact.result
        return say(
            "A call of NCCL failed ({words}); the input does not tell why.", words=_cut(words)
        )
    if isinstance(fact, NcclWarning) and fact.topic == "mismatch":
        return say(
            "NCCL compared the ranks' calls and found them unlike ({words}): some rank called "
            "another collective, or one of another size. The input does not tell which.",
            words=_cut(fact.message),
        )
    if isinstance(fact, NcclWarning):
        return say(
            "NCCL complained ({words}); the input does not tell why.", words=_cut(fact.message)
        )
    if isinstance(fact, CudaError):
        return say(
            "A call of CUDA failed ({words}); the input does not tell why.", words=_cut(fact.text)
        )
    if isinstance(fact, WatchdogError):
        return say(
            "A watchdog ended with an error ({words}); the input does not tell why.",
            words=_cut(fact.error),
        )
    if isinstance(fact, PythonException) and (told := _COUNTED.search(fact.message)):
        world, counted = int(told[1]), int(told[2])
        if counted > world:
            return say(
                "{counted} processes counted themselves in a store that was made for {world}: "
                "those of an earlier attempt, or of a second job with the same address, are among "
                "them.",
                counted=counted,
                world=world,
            )
        return say(
            "{counted} of {world} processes came to the store's barrier in time; the input does "
            "not tell what became of the others.",
            counted=counted,
            world=world,
        )
    if isinstance(fact, PythonException) and "RendezvousClosedError" in fact.type:
        return say(
            "The launcher could not meet the others again: its rendezvous had been closed, as when "
            "another node's launcher ends first. The input does not tell why that one ended."
        )
    if isinstance(fact, PythonException) and fact.type and not is_messenger(fact):
        words = _cut(f"{fact.type}: {fact.message}".strip(": "))
        return say("It ended with {words}; the input does not tell what led to it.", words=words)
    return say("Something failed; the input does not tell what it was.")


def _store(fact: StoreFailure) -> Text:
    if fact.kind == "connect" and fact.host is not None:
        return say(
            "The store at {address} could not be reached; the input does not tell why.",
            address=fact.host if fact.port is None else f"{fact.host}:{fact.port}",
        )
    if fact.kind == "connect" and fact.timeout_ms is not None:
        return say(
            "The store of the job could not be reached within {seconds} s; the input does not tell "
            "why.",
            seconds=fact.timeout_ms // 1000,
        )
    if fact.kind == "bind" and fact.errno == 13:
        return say(
            "Listening on port {port} was not permitted: ports below 1024 are the system's own. "
            "Choose a higher one.",
            port="?" if fact.port is None else fact.port,
        )
    if fact.kind == "unique-id":
        return say(
            "A rank waited in vain for the communicator's id, which the first rank of the group "
            "publishes; the input does not tell what that rank was doing."
        )
    if fact.kind == "join-timeout" and fact.joined is not None and fact.expected is not None:
        return say(
            "Only {joined} of {expected} processes came to the store in time; the input does not "
            "tell what became of the others.",
            joined=fact.joined,
            expected=fact.expected,
        )
    if fact.kind == "wait-timeout":
        return say(
            "A process waited in vain in the store for what another had to set; the input does not "
            "tell what became of that one."
        )
    return say("Something failed; the input does not tell what it was.")


def _end(fact: ProcessEnd) -> Text:
    code = fact.exit_code
    if code == -9:
        return say("A process was killed from outside (SIGKILL); the input does not tell why.")
    if code == -15:
        return say(
            "{who} was ended by SIGTERM; the input does not tell who sent it.", who=_who(fact)
        )
    signal = fact.signal or _SIGNALS.get(code or 0)
    if code is not None and code < 0 and signal is not None:
        return say(
            "{who} crashed with {signal} (exit code {code}); the input does not tell why.",
            who=_who(fact),
            signal=signal,
            code=code,
        )
    if code is not None and code > 0:
        return say(
            "{who} ended with exit code {code}; the input tells no error of its own that is known.",
            who=_who(fact),
            code=code,
        )
    if fact.reporter == "ray":
        return say("A worker of Ray died; the input does not tell why.")
    return say("Something failed; the input does not tell what it was.")


def _who(fact: Fact) -> Text:
    """Who it was, to begin a sentence with."""
    if isinstance(fact, ProcessEnd) and fact.reporter == "dataloader":
        return say("A worker of the data loader")
    rank = fact.rank if isinstance(fact, ProcessEnd) and fact.rank is not None else None
    rank = fact.speaker.rank if rank is None else rank
    if rank is None and isinstance(fact, ProcessEnd) and fact.local_rank is not None:
        return say("Local rank {rank}", rank=fact.local_rank)
    return say("A process") if rank is None else say("Rank {rank}", rank=rank)


def _whose(fact: Fact, rank: int | None) -> Text:
    rank = fact.speaker.rank if fact.speaker.rank is not None else rank
    return say("a process") if rank is None else ranks_text([rank])


def _cut(words: str) -> str:
    words = words.split("\n", 1)[0].strip()
    return words if len(words) <= 140 else words[:139] + "…"
