"""Causes of launch, node and network asked on small made-up inputs, and on any mix of facts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.causes import cause
from unstall.diagnosis import rank, score, weigh
from unstall.job import build
from unstall.model.facts import (
    CollectiveTimeout,
    CudaError,
    EngineLoad,
    Fact,
    Frame,
    GroupStatus,
    GroupTag,
    HttpExchange,
    NcclError,
    NcclInit,
    NcclTransport,
    NcclWarning,
    PackageVersion,
    PeerLost,
    Phase,
    Place,
    ProcessEnd,
    PythonException,
    ResourceLimit,
    Speaker,
    StoreFailure,
    TrainingStep,
    WarningLine,
    Work,
)
from unstall.model.plan import Judgement, Plan, Port, Program, Value
from unstall.model.text import verbatim

MINE = (
    "port-collision",
    "rendezvous-environment",
    "device-overlap",
    "library-mismatch",
    "shm-too-small",
    "peer-to-peer-blocked",
    "network-transport",
    "network-interface",
    "engine-desync",
    "weight-sync-failure",
    "unknown",
)


def at(line: int, quote: str = "a line", **speaker: Any) -> dict[str, Any]:
    return {"place": Place("run.log", line), "quote": quote, "speaker": Speaker(**speaker)}


def in_use(line: int, port: int, rank_: int | None = None) -> StoreFailure:
    return StoreFailure(**at(line, "address in use", rank=rank_), kind="bind", port=port, errno=98)


def step(line: int) -> TrainingStep:
    return TrainingStep(**at(line), step=line, metrics={"loss": 1.0})


def first_of(facts: list[Fact], plan: Plan | None = None) -> tuple[str | None, float]:
    found = weigh(facts, plan or Plan())
    return (
        (found.causes[0].finding.cause, found.causes[0].confidence) if found.causes else (None, 0)
    )


def trainer(**more: Any) -> Program:
    return Program(label="trainer", role="trainer", software="torchrun", **more)


# --- ports -------------------------------------------------------------------------------------


def ports_said(port: int, program: Program | None = None) -> str:
    plan = Plan(programs=(program,)) if program is not None else Plan()
    job = build([in_use(3, port)], plan)
    known = cause("port-collision")
    assert known is not None
    (finding,) = known.examine(job)
    return " ".join([str(finding.summary), *(str(item.text) for item in finding.support)])


def test_a_port_is_compared_with_what_the_script_gives() -> None:
    given_ = Value("23111", place=Place("run.sh", 2))
    program = trainer(
        environment={"MASTER_PORT": given_}, ports=(Port(purpose="rendezvous", value=given_),)
    )
    assert "earlier run" in ports_said(23111, program)
    assert "not read" in ports_said(29500, program)
    assert "at random" in ports_said(51877)
    assert "default" in ports_said(29500)


def test_a_bind_that_succeeded_at_the_second_try_is_no_failure() -> None:
    found = weigh([in_use(3, 29500), step(9)], Plan())
    assert found.verdict == "benign"
    assert found.causes == ()


def test_several_binders_are_a_matter_of_ranks() -> None:
    facts: list[Fact] = [in_use(line, 12355, line) for line in (1, 2, 3)]
    assert first_of(facts)[0] == "rendezvous-environment"


@pytest.mark.parametrize("errno", [13, 97, 99])
def test_other_numbers_are_not_another_process(errno: int) -> None:
    failure = StoreFailure(**at(1), kind="bind", port=80, errno=errno)
    known = cause("port-collision")
    assert known is not None
    assert list(known.examine(build([failure], Plan()))) == []


def test_a_conflict_in_the_script_alone_is_no_failure() -> None:
    """Settings speak for a cause only beside its symptom."""
    conflict = Judgement(
        "devices", {"a": "0", "b": "0"}, "conflict", verbatim("both use device 0"),
        concerns=("device-overlap", "port-collision", "shm-too-small", "network-interface"),
    )  # fmt: skip
    found = weigh([step(1), step(2)], Plan(programs=(trainer(),), judgements=(conflict,)))
    assert found.causes == ()
    assert found.verdict == "benign"


# --- the rest, one decisive sign each, and its echo --------------------------------------------

LATE = CollectiveTimeout(**at(50, rank=0), work=Work("ALLREDUCE", 1, 4, 4, None, 600_000))

SIGNS: dict[str, list[Fact]] = {
    "device-overlap": [
        NcclWarning(
            **at(2),
            message="Duplicate GPU detected : rank 5 and rank 4 both on CUDA device c1000",
            topic="duplicate-gpu",
        )
    ],
    "library-mismatch": [
        PythonException(**at(2), type="ImportError", message="x.so: undefined symbol: ncclFoo")
    ],
    "shm-too-small": [
        NcclWarning(
            **at(2),
            message="Error while creating shared memory segment /dev/shm/nccl-a (size 4194304)",
            topic="shm",
        )
    ],
    "network-interface": [
        PythonException(**at(2), type="RuntimeError", message="Unable to find address for: bond7")
    ],
    "rendezvous-environment": [
        PythonException(
            **at(2),
            type="ValueError",
            message="environment variable WORLD_SIZE expected, but not set",
        )
    ],
    "weight-sync-failure": [
        HttpExchange(**at(2), method="POST", url="/update_named_param/", status=404),
        NcclError(**at(3), result="ncclSystemError", where="x.py:3 init_communicator"),
    ],
    "network-transport": [
        NcclWarning(
            **at(2, host="a"), message="NET/IB : Got completion with error 12", topic="ib",
            values={"status": "12"},
        ),
        NcclWarning(
            **at(3, host="b"), message="NET/IB : Got completion with error 12", topic="ib",
            values={"status": "12"},
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SIGNS))
def test_its_own_sign_makes_it_lead(name: str) -> None:
    found, sure = first_of([*SIGNS[name], ProcessEnd(**at(90), exit_code=1, rank=0)])
    assert (found, sure >= 0.5) == (name, True)


@pytest.mark.parametrize("name", sorted(SIGNS))
def test_work_that_went_on_overrules_it(name: str) -> None:
    facts: list[Fact] = [*SIGNS[name], step(20), step(30)]
    assert first_of(facts)[0] in (None, "unknown", "python-exception")


def test_a_link_that_failed_alone_is_less_than_sure() -> None:
    """Nothing shows that the job worked or began: a peer that died leaves the very same line."""
    error = NcclError(
        **at(5, rank=7), result="ncclRemoteError", last_error="NET/IB : status=12 vendor err 129"
    )
    aborted = ProcessEnd(**at(9), exit_code=-6, local_rank=6)
    found, sure = first_of([error])
    assert (found, sure < 0.7) == ("network-transport", True)
    found, less = first_of([error, aborted])
    assert less < sure or found == "unknown"
    assert first_of([step(1), step(2), error])[1] >= sure


def test_p2p_needs_every_rank() -> None:
    def stall(ranks: tuple[int, ...]) -> list[Fact]:
        facts: list[Fact] = []
        for number in range(3):
            facts.append(NcclInit(**at(1 + number), stage="complete", rank=number, size=3))
            facts.append(
                NcclTransport(**at(10 + number), kind="p2p", detail="P2P/IPC", from_rank=number)
            )
        for line, number in enumerate(ranks):
            work = Work("ALLREDUCE", 1, 8, 8, None, 600_000)
            tag = GroupTag(0, "0", "default_pg", number)
            facts.append(
                CollectiveTimeout(
                    **at(40 + line, rank=number), work=work, ran_ms=600_004, group=tag
                )
            )
        return facts

    assert first_of(stall((0, 1, 2)))[0] == "peer-to-peer-blocked"
    assert first_of(stall((0, 2)))[0] != "peer-to-peer-blocked"


# --- anything ----------------------------------------------------------------------------------

POOL: list[Fact] = [
    *(fact for facts in SIGNS.values() for fact in facts),
    in_use(4, 29500, 0),
    in_use(5, 45111),
    LATE,
    GroupStatus(**at(51, rank=1), group=GroupTag(5, "15"), last_enqueued=3, last_completed=3),
    StoreFailure(**at(6), kind="resolve", host="h", port=1),
    StoreFailure(**at(7), kind="connect", host="127.0.0.1", port=2, timeout_ms=9),
    StoreFailure(**at(8), kind="join-timeout", joined=1, expected=2),
    PeerLost(**at(9, host="q"), layer="gloo", peer="[127.0.0.1]:9"),
    PeerLost(**at(10), layer="nccl", remote_error=True),
    NcclError(**at(11), result="ncclInvalidUsage"),
    NcclError(**at(12), result="ncclRemoteError", last_error="socketProgress"),
    NcclTransport(**at(13, host="q"), kind="bootstrap", detail="lo:127.0.0.1"),
    CudaError(**at(14), name="InvalidDevice", text="invalid device ordinal"),
    ResourceLimit(**at(15, "No space left on device"), kind="shm", path="/torch_1"),
    WarningLine(**at(16), topic="version", values={"wanted": "1"}),
    WarningLine(**at(17), topic="loopback-fallback"),
    PackageVersion(**at(18, host="a"), name="nccl", version="2.20"),
    PackageVersion(**at(19, host="b"), name="nccl", version="2.21"),
    ProcessEnd(**at(20), exit_code=-7, rank=2),
    EngineLoad(**at(21), engine=0, running=3, throughput=0.0),
    EngineLoad(**at(22), engine=1, running=0, throughput=0.0),
    Phase(**at(23), kind="weight-sync"),
    Phase(**at(60), kind="end", finished=True),
    step(24),
    PythonException(
        **at(25), type="RuntimeError", message="timeout",
        frames=(Frame("update_named_param", "x/vllm_client.py", 3),),
    ),
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(POOL), max_size=12, unique_by=id))
def test_any_mix_of_facts_gives_claims_that_can_be_shown(chosen: list[Fact]) -> None:
    job = build(chosen, Plan())
    for name in MINE:
        known = cause(name)
        assert known is not None
        for finding in known.examine(job):
            assert finding.cause == name
            assert all(item.place or item.source for item in finding.support)
            assert all(item.weight >= 0 for item in (*finding.support, *finding.against))
            assert str(finding.summary)
            assert score(finding) < 40
            assert 0 <= rank([finding])[0].confidence <= 1 if rank([finding]) else True
