"""Causes of deaths and devices asked one by one: what they claim, what they leave alone."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.causes import cause
from unstall.diagnosis import rank, score, weigh
from unstall.job import build
from unstall.model.facts import (
    CollectiveTimeout,
    CudaError,
    CudaOutOfMemory,
    DeviceAssert,
    DriverEvent,
    Fact,
    Frame,
    GroupTag,
    HostMemory,
    MemoryKill,
    Mention,
    Moment,
    NcclError,
    NcclInit,
    NcclWarning,
    Phase,
    Place,
    ProcessEnd,
    PythonException,
    ResourceLimit,
    SchedulerEvent,
    SignalSent,
    Speaker,
    TrainingStep,
    Work,
)
from unstall.model.findings import Diagnosis
from unstall.model.plan import Plan

MINE = (
    "python-exception",
    "host-oom",
    "cuda-oom",
    "process-limit",
    "preempted",
    "device-assert",
    "illegal-memory-access",
    "graph-capture-race",
    "gpu-hardware",
    "fabric-manager",
)


def at(line: int, rank: int | None = None, seconds: float | None = None) -> dict[str, object]:
    start = datetime(2025, 3, 1, 12)
    moment = Moment(start + timedelta(seconds=seconds)) if seconds is not None else None
    return {
        "place": Place("x.log", line),
        "quote": f"quoted {line}",
        "speaker": Speaker(rank=rank),
        "moment": moment,
    }


def lead(*facts: Fact) -> tuple[str, float]:
    found: Diagnosis = weigh(facts, Plan())
    if not found.causes:
        return ("none", 0.0)
    return (found.causes[0].finding.cause, found.causes[0].confidence)


# --- host memory -----------------------------------------------------------------------------


def killed(line: int, **more: object) -> ProcessEnd:
    return ProcessEnd(**at(line), exit_code=-9, signal="SIGKILL", **more)  # type: ignore[arg-type]


def test_a_bare_kill_decides_nothing() -> None:
    """Anyone can send SIGKILL; the exit code alone is no out-of-memory kill."""
    assert lead(killed(5, rank=1))[0] == "unknown"


@pytest.mark.parametrize(("percent", "cause_id"), [(97.0, "host-oom"), (40.0, "unknown")])
def test_a_kill_with_a_full_memory(percent: float, cause_id: str) -> None:
    """The figure before it makes the difference."""
    figure = HostMemory(**at(3), percent=percent)  # type: ignore[arg-type]
    assert lead(figure, killed(5, rank=1))[0] == cause_id


def test_the_kernels_line_names_the_rank_by_its_process() -> None:
    """The kernel knows the process id, torchrun's report process id and rank."""
    kill = MemoryKill(**at(2), by="kernel", pid=77)  # type: ignore[arg-type]
    found = weigh([kill, killed(5, rank=6, pid=77)], Plan()).causes[0].finding
    assert found.cause == "host-oom"
    assert found.origin is not None
    assert found.origin.ranks == (6,)


def test_deepspeeds_local_rank_is_not_believed() -> None:
    """Its agent prints the command that it started last, whichever process was killed."""
    figure = HostMemory(**at(3), percent=96.0)  # type: ignore[arg-type]
    end = killed(5, local_rank=3, reporter="deepspeed")
    found = weigh([figure, end], Plan()).causes[0].finding
    assert found.origin is not None
    assert found.origin.ranks == ()
    assert "launcher-report" in {item.id for item in found.exonerated}


def test_a_kill_by_the_launcher_is_no_shortage() -> None:
    """Survivors that do not end on SIGTERM are killed."""
    sent = SignalSent(**at(4), signal="SIGKILL")  # type: ignore[arg-type]
    figure = HostMemory(**at(3), percent=85.0)  # type: ignore[arg-type]
    assert lead(figure, sent, killed(5, rank=1))[0] == "unknown"


# --- device memory ---------------------------------------------------------------------------


def exhausted(line: int, **more: object) -> CudaOutOfMemory:
    told = {"device": 0, "wanted": 512.0, "total": 80_000.0, "free": 100.0, **more}
    return CudaOutOfMemory(**at(line, 0), **told)  # type: ignore[arg-type]


def test_own_tensors_fill_the_device() -> None:
    found = lead(exhausted(4, allocated=70_000.0, others=((None, 79_000.0),)))
    assert found[0] == "cuda-oom"
    assert found[1] > 0.8


def test_the_line_of_the_program_that_asked_for_memory_is_named() -> None:
    """Of its rank's traceback the innermost frame that is in no library."""
    frames = (
        Frame("main", "/home/u/fit.py", 9),
        Frame("train_step", "/home/u/loop.py", 201),
        Frame("backward", "/venv/lib/python3.11/site-packages/torch/_tensor.py", 626),
    )
    other = PythonException(
        **at(2, 1), type="ValueError", message="no", frames=(Frame("load", "/home/u/data.py", 3),)
    )  # type: ignore[arg-type]
    own = PythonException(
        **at(4, 0), type="torch.OutOfMemoryError", message="CUDA out of memory.", frames=frames
    )  # type: ignore[arg-type]
    (claim,) = cause("cuda-oom").examine(  # type: ignore[union-attr]
        build([other, own, exhausted(4, allocated=70_000.0)], Plan())
    )
    told = [str(item.text) for item in claim.support]
    assert any("train_step (/home/u/loop.py:201)" in text for text in told), told


def test_a_second_program_on_the_device_is_another_cause() -> None:
    """60 of 80 GB belong to another process: the claim is weaker than "none of these"."""
    (claim,) = cause("cuda-oom").examine(  # type: ignore[union-attr]
        build([exhausted(4, allocated=9_000.0, others=((123, 60_000.0), (None, 19_500.0)))], Plan())
    )
    assert score(claim) < 3.0


def test_contexts_of_ranks_on_the_wrong_device() -> None:
    """Seven contexts of 430 MiB: the first fix is to choose the device."""
    others = tuple((100 + n, 430.0) for n in range(7))
    found = weigh([exhausted(4, allocated=60_000.0, others=others)], Plan()).causes[0].finding
    assert found.cause == "cuda-oom"
    assert "set_device" in str(found.fixes[0].text)


# --- ends from outside -----------------------------------------------------------------------


def event(line: int, kind: str, seconds: float | None = None) -> SchedulerEvent:
    return SchedulerEvent(**at(line, None, seconds), kind=kind)  # type: ignore[arg-type]


def test_preemption_is_the_first_event() -> None:
    assert lead(event(9, "preempted"))[0] == "preempted"


@pytest.mark.parametrize("kind", ["preempted", "time-limit", "cancelled"])
def test_a_cancellation_after_a_failure_is_its_consequence(kind: str) -> None:
    """A scheduler cancels what is left of a failed job."""
    dead = PythonException(**at(3, 2), type="KeyError", message="'x'")  # type: ignore[arg-type]
    assert lead(dead, event(9, kind))[0] == "python-exception"


def test_a_time_limit_after_a_silent_hour_is_not_sure() -> None:
    """The job may have hung: nothing was said for an hour before."""
    step = TrainingStep(**at(2, None, 0.0), step=4)  # type: ignore[arg-type]
    soon = lead(step, event(9, "cancelled", 60.0))
    late = lead(step, event(9, "cancelled", 3600.0))
    assert soon[0] == "preempted"
    assert late[0] != "preempted" or late[1] < soon[1]


@pytest.mark.parametrize("kind", ["time-limit", "cancelled"])
def test_a_log_that_begins_with_its_end_does_not_show_that_nothing_failed(kind: str) -> None:
    """What stood above it may be the failure; with the job at work above it, nothing did."""
    step = TrainingStep(**at(2, None, 0.0), step=4)  # type: ignore[arg-type]
    alone, seen = lead(event(9, kind, 60.0)), lead(step, event(9, kind, 60.0))
    assert alone[0] in ("preempted", "unknown")
    assert alone[0] != "preempted" or alone[1] < 0.7
    assert seen[0] == "preempted"
    assert seen[1] >= 0.7


def test_sigterm_of_the_launcher_to_survivors_is_no_cause() -> None:
    sent = SignalSent(**at(4), signal="SIGTERM", target_pid=9)  # type: ignore[arg-type]
    assert lead(sent)[0] in ("none", "unknown")


# --- devices ---------------------------------------------------------------------------------


def cuda(line: int, name: str, rank: int = 1, through: str = "watchdog") -> CudaError:
    return CudaError(
        **at(line, rank),  # type: ignore[arg-type]
        name=name,
        text=name,
        through=through,
        group=GroupTag(2, "3", None, rank),
    )


@pytest.mark.parametrize(
    ("name", "cause_id"),
    [
        ("IllegalAddress", "illegal-memory-access"),
        ("LaunchFailure", "illegal-memory-access"),
        ("Assert", "device-assert"),
        ("EccUncorrectable", "gpu-hardware"),
        ("NvlinkUncorrectable", "gpu-hardware"),
        ("CapturedEvent", "graph-capture-race"),
        ("NotReady802", "fabric-manager"),
    ],
)
def test_a_watchdogs_error_by_its_name(name: str, cause_id: str) -> None:
    """The watchdog is the messenger in each of them; the error's class tells."""
    assert lead(cuda(3, name))[0] == cause_id


def test_hardware_behind_an_illegal_access() -> None:
    """An Xid of the hardware before the error outweighs its text."""
    xid = DriverEvent(**at(2), kind="xid", code=95, pci="0000:3b:00")  # type: ignore[arg-type]
    assert lead(xid, cuda(3, "IllegalAddress"))[0] == "gpu-hardware"


def test_a_programs_own_xid_is_no_hardware() -> None:
    xid = DriverEvent(**at(2), kind="xid", code=31, pci="0000:3b:00")  # type: ignore[arg-type]
    assert lead(xid, cuda(3, "IllegalAddress"))[0] == "illegal-memory-access"


@pytest.mark.parametrize(
    ("pci", "bus", "ranks"),
    [
        ("0000:3b:00", "3b000", (5,)),
        ("0000:3b:00.0", "3b000", (5,)),
        ("0001:0a:00", "10a000", (5,)),
        ("0000:3c:00", "3b000", ()),
        ("not an address", "3b000", ()),
    ],
)
def test_a_pci_address_is_found_among_nccls_bus_ids(
    pci: str, bus: str, ranks: tuple[int, ...]
) -> None:
    """Domain 0, bus 3b, device 0 is 3b000 in NCCL's lines; it is no device number."""
    init = NcclInit(**at(1), stage="complete", rank=5, size=8, device=1, bus_id=bus)  # type: ignore[arg-type]
    xid = DriverEvent(**at(9), kind="xid", code=79, pci=pci)  # type: ignore[arg-type]
    found = weigh([init, xid], Plan()).causes[0].finding
    assert found.cause == "gpu-hardware"
    assert found.origin is not None
    assert found.origin.ranks == ranks


def test_a_driver_of_another_version_is_no_hardware() -> None:
    """NVML fails for a mismatch of versions too."""
    odd = DriverEvent(**at(2), kind="driver", what="version-mismatch")  # type: ignore[arg-type]
    assert lead(odd)[0] not in MINE


def test_multicast_that_fails_and_does_not_stop_the_job() -> None:
    """NCCL goes on without NVLS where it may: a warning, no cause."""
    warning = NcclWarning(
        **at(2),  # type: ignore[arg-type]
        message="Cuda failure 1 'invalid argument'",
        topic="cuda",
        device=0,
        file="transport/nvls.cc",
    )
    steps = [TrainingStep(**at(10 + n), step=n) for n in range(4)]  # type: ignore[arg-type]
    assert lead(warning, *steps)[0] in ("none", "unknown")


def test_a_link_to_a_tracker_names_the_server_only_where_nothing_else_does() -> None:
    """A report without script and program lines, posted to vLLM's tracker."""
    link = Mention(**at(2), software="vllm", role="inference")  # type: ignore[arg-type]
    alone = weigh([link, cuda(3, "IllegalAddress")], Plan()).causes[0].finding
    assert alone.origin is not None
    assert (alone.origin.role, alone.origin.software) == ("inference", "vllm")
    end = ProcessEnd(**at(9), rank=1, exit_code=-6)  # type: ignore[arg-type]
    trained = weigh([link, cuda(3, "IllegalAddress"), end], Plan()).causes[0].finding
    assert trained.origin is not None
    assert trained.origin.role == "trainer"
    other = Mention(**at(4), software="deepspeed", role="trainer")  # type: ignore[arg-type]
    both = weigh([link, other, cuda(5, "IllegalAddress")], Plan()).causes[0].finding
    assert both.origin is not None
    assert both.origin.software is None


# --- exceptions ------------------------------------------------------------------------------


def raised(line: int, kind: str, message: str, rank: int = 0, **more: object) -> PythonException:
    return PythonException(**at(line, rank), type=kind, message=message, **more)  # type: ignore[arg-type]


def test_an_exception_after_the_ranks_own_time_out_is_its_end() -> None:
    """Rank 0 waited with rank 1, its communicator was aborted, then its Python code failed."""
    waits = [
        CollectiveTimeout(
            **at(3 + rank, rank),  # type: ignore[arg-type]
            work=Work("ALLREDUCE", 7, 4, 4, timeout_ms=600_000),
            ran_ms=600_000,
            group=GroupTag(0, "0", "default_pg", rank),
        )
        for rank in (0, 1)
    ]
    assert lead(*waits, raised(9, "RuntimeError", "odd state"))[0] != "python-exception"


def test_a_loaders_worker_that_was_killed() -> None:
    """Its rank only passes it on; with nothing else it is likely for memory, not surely."""
    end = ProcessEnd(**at(4, 2), exit_code=-9, reporter="dataloader", pid=30)  # type: ignore[arg-type]
    words = raised(3, "RuntimeError", "DataLoader worker (pid 30) is killed by signal: Killed.", 2)
    cause_id, sure = lead(words, end)
    assert cause_id == "host-oom"
    assert 0.5 < sure < 0.8


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("torch.distributed.DistBackendError", "NCCL error in: x.cpp:1, remote process exited"),
        ("RuntimeError", "CUDA error: an illegal memory access was encountered"),
        ("torch.OutOfMemoryError", "CUDA out of memory."),
        ("EOFError", ""),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "train.py FAILED"),
        ("vllm.v1.engine.exceptions.EngineDeadError", "EngineCore encountered an issue."),
        ("KeyboardInterrupt", ""),
    ],
)
def test_messengers_and_device_errors_are_left_alone(kind: str, message: str) -> None:
    job = build([raised(3, kind, message)], Plan())
    assert list(cause("python-exception").examine(job)) == []  # type: ignore[union-attr]


def test_the_root_of_a_chain_leads() -> None:
    """``ValueError`` was raised while ``KeyError`` was handled: the first tells more."""
    root = raised(3, "KeyError", "'tools'")
    outer = raised(9, "ValueError", "cannot encode", notes=("KeyError",))
    found = weigh([root, outer], Plan()).causes[0].finding
    assert "KeyError" in str(found.summary)


def test_a_destructors_exception_is_no_cause() -> None:
    """Python ignores it, whoever prints it."""
    assert lead(raised(3, "AttributeError", "'NoneType'", frames_from="ignored"))[0] != (
        "python-exception"
    )


# --- whatever is in the input ----------------------------------------------------------------

_lines = st.integers(1, 60)
_ranks = st.one_of(st.none(), st.integers(0, 9))
_times = st.one_of(st.none(), st.floats(0, 9_000))


@st.composite
def facts(draw: st.DrawFn) -> Fact:
    base = at(draw(_lines), draw(_ranks), draw(_times))
    number = st.one_of(st.none(), st.floats(0, 90_000))
    kind = draw(st.integers(0, 13))
    if kind == 0:
        name = draw(st.sampled_from(["IllegalAddress", "Assert", "CapturedEvent", "OutOfMemory",
                                     "EccUncorrectable", "NotReady802", "Other"]))  # fmt: skip
        through = draw(st.sampled_from(["watchdog", "python", "nccl"]))
        return CudaError(**base, name=name, text=name, through=through)  # type: ignore[arg-type]
    if kind == 1:
        return CudaOutOfMemory(
            **base,  # type: ignore[arg-type]
            device=draw(_ranks),
            total=draw(number),
            allocated=draw(number),
            others=tuple(draw(st.lists(st.tuples(_ranks, st.floats(0, 9e4)), max_size=9))),
        )
    if kind == 2:
        return DeviceAssert(**base, file="a/Indexing.cu", expression="i < n")  # type: ignore[arg-type]
    if kind == 3:
        return DriverEvent(
            **base,  # type: ignore[arg-type]
            kind="xid",
            code=draw(st.sampled_from([None, 13, 31, 48, 63, 74, 79])),
            pci=draw(st.one_of(st.none(), st.text(max_size=14))),
        )
    if kind == 4:
        return HostMemory(**base, percent=draw(st.one_of(st.none(), st.floats(0, 100))))  # type: ignore[arg-type]
    if kind == 5:
        return MemoryKill(**base, by=draw(st.sampled_from(["ray", "odd"])), pid=draw(_ranks))  # type: ignore[arg-type]
    if kind == 6:
        return ProcessEnd(
            **base,  # type: ignore[arg-type]
            exit_code=draw(st.sampled_from([None, 0, 1, -6, -9, -15])),
            rank=draw(_ranks),
            first=draw(st.booleans()),
        )
    if kind == 7:
        return PythonException(**base, type="ValueError", message=draw(st.text(max_size=40)))  # type: ignore[arg-type]
    if kind == 8:
        limit = draw(st.sampled_from(["threads", "files", "memory", "locked-memory", "shm"]))
        return ResourceLimit(**base, kind=limit)  # type: ignore[arg-type]
    if kind == 9:
        return SchedulerEvent(**base, kind=draw(st.sampled_from(["cancelled", "odd", "evicted"])))  # type: ignore[arg-type]
    if kind == 10:
        received = draw(st.booleans())
        return SignalSent(**base, signal="SIGTERM", received=received)  # type: ignore[arg-type]
    if kind == 11:
        return CollectiveTimeout(
            **base,  # type: ignore[arg-type]
            work=Work("ALLREDUCE", draw(_ranks), 1, 1, timeout_ms=600_000),
            ran_ms=600_000,
            group=GroupTag(rank=draw(_ranks)),
        )
    if kind == 12:
        return NcclError(**base, result="ncclRemoteError", last_error=draw(st.text(max_size=9)))  # type: ignore[arg-type]
    return Phase(**base, kind=draw(st.sampled_from(["graph-capture", "end", "save"])))  # type: ignore[arg-type]


@given(st.lists(facts(), max_size=14))
@settings(max_examples=150, deadline=None)
def test_any_facts_in_no_crash_and_claims_that_can_be_shown(given: list[Fact]) -> None:
    """Every claim has evidence with a line or a source, and renders in both languages."""
    job = build(given, Plan())
    for identifier in MINE:
        known = cause(identifier)
        assert known is not None
        for claim in known.examine(job):
            assert claim.cause == identifier
            assert claim.support
            assert all(item.place or item.source for item in (*claim.support, *claim.against))
            assert not set(claim.waiting_ranks) & set(claim.origin.ranks if claim.origin else ())
            for language in ("en", "zh"):
                assert claim.summary.render(language)
                assert all(item.text.render(language) for item in claim.support)
                assert all(item.text.render(language) for item in claim.against)
                assert all(item.text.render(language) for item in claim.fixes)
                assert all(item.why.render(language) for item in claim.exonerated)
            assert all(0 <= one.confidence <= claim.ceiling for one in rank([claim]))
