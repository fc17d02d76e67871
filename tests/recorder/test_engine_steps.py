"""The count of steps that dumps add to a claim from stacks."""

from unstall.causes.base import WEAK
from unstall.job import build
from unstall.model.findings import Evidence, Finding, Origin
from unstall.model.plan import Plan
from unstall.model.text import verbatim
from unstall.recorder.engine_steps import counted
from unstall.recorder.loading import Dumps
from unstall.recorder.records import Dump, GroupLog, Meaning, Unit


def dump(rank: int, entered: int, done: int, numel: int = 2) -> Dump:
    pending = [] if entered == done else [Unit(entered, False, "all_reduce", 40, 7)]
    group = GroupLog("15", "undefined", enqueued=entered, completed=done, last=entered,
                     last_done=done, pending=pending, pending_count=len(pending))  # fmt: skip
    return Dump(
        f"nccl_trace_rank_{rank}",
        backends=["gloo"],
        groups=[group],
        meanings={7: Meaning("all_reduce", numel, numel, "[2]", "Int")},
        rank=rank,
    )


CLAIM = Finding(
    cause="engine-desync",
    summary=verbatim("x"),
    support=(Evidence(verbatim("stacks"), None, 3.0),),
    origin=Origin("unknown", "inference", "vllm", (1,), None),
    waiting_ranks=(0,),
)


def told(first: Dump, second: Dump, claim: Finding = CLAIM, version: str = "0.11.0") -> Finding:
    job = build((), Plan())
    job.versions["vllm"] = version
    return counted([claim], Dumps([first, second]), job)[0]


def words(finding: Finding) -> str:
    return " | ".join(evidence.text.render() for evidence in finding.support)


def test_the_first_step_of_a_wave_is_counted():
    # start-up makes one; twelve whole waves; the next one hangs
    number = 1 + 12 * 32 + 1
    found = told(dump(0, number, number - 1), dump(1, number - 1, number - 1))
    assert f"{number} = 1 + 32 x 12 + 1" in words(found)
    assert found.collective is not None
    assert (found.collective.seq, found.collective.numel_in) == (number, 2)


def test_a_step_within_a_wave_is_no_sign_of_its_end():
    number = 1 + 12 * 32 + 9
    found = told(dump(0, number, number - 1), dump(1, number - 1, number - 1))
    assert "step 9 of a 32-step wave" in words(found)
    assert [evidence.weight for evidence in found.support] == [3.0, WEAK, 0.0]


def test_other_sizes_are_not_the_engines_step():
    assert told(dump(0, 34, 33, numel=8), dump(1, 33, 33)) == CLAIM


def test_an_idle_engine_that_is_further_behind_is_another_matter():
    assert told(dump(0, 34, 33), dump(1, 20, 20)) == CLAIM


def test_a_claim_that_knows_its_operation_is_left_alone():
    found = told(dump(0, 34, 33), dump(1, 33, 33))
    assert told(dump(0, 34, 33), dump(1, 33, 33), claim=found) == found


def test_a_version_whose_start_up_is_not_known_tells_the_remainder():
    # 0.12 sends four numbers an engine
    found = told(dump(0, 34, 33, numel=8), dump(1, 33, 33, numel=8), version="0.12.0")
    assert "if start-up made 1 such operations" in words(found)
