"""What a verdict says about causes."""

from __future__ import annotations

import dataclasses

from tests.recorder.generate import Group, Op, Run, one_group, training
from unstall.model.findings import Finding
from unstall.model.plan import Program
from unstall.recorder import analyse, findings, load


def claims(run: Run, programs: tuple[Program, ...] = ()) -> list[Finding]:
    return findings(analyse(load(list(run.simulate().files().items()))), programs)


def hung(absent: int = 2) -> Run:
    run = Run(one_group(4), training(one_group(4), 4))
    run.programs[absent] = run.programs[absent][:5]
    return run


def test_a_healthy_run_claims_nothing() -> None:
    assert claims(Run(one_group(2), training(one_group(2), 2))) == []


def test_an_absent_rank_alone_is_no_known_cause() -> None:
    (finding,) = claims(hung())
    assert (finding.cause, finding.origin.ranks, finding.waiting_ranks) == (
        "unknown",
        (2,),
        (0, 1, 3),
    )
    assert (finding.collective.op, finding.collective.seq) == ("broadcast", 6)
    assert finding.collective.timeout_ms == 600000
    assert finding.origin.process_group.ranks == (0, 1, 2, 3)
    assert finding.started_at.iso().startswith("2023-11-14T22:13:20")


def test_others_in_code_that_saves_speak_for_a_slow_checkpoint() -> None:
    run = hung()
    for rank in (0, 1, 3):
        run.programs[rank][5] = Op(0, "barrier", (), frame="save_checkpoint")
    assert claims(run)[0].cause == "slow-checkpoint-or-eval"


def test_another_branch_is_told_with_both_lines_of_code() -> None:
    run = Run(one_group(4), training(one_group(4), 4))
    run.programs[1][5] = Op(0, "barrier", (), frame="only_on_rank_1")
    finding = claims(run)[0]
    assert finding.cause == "rank-dependent-branch"
    text = " ".join(str(evidence.text) for evidence in finding.support)
    assert "Rank 1 calls it from only_on_rank_1 (/home/user/train.py:14)" in text
    assert [item.id for item in finding.exonerated] == ["network-transport"]


def test_sizes_and_pipelines_have_causes_of_their_own() -> None:
    run = Run(one_group(4), training(one_group(4), 4))
    run.programs[1][5] = dataclasses.replace(run.programs[1][5], sizes=(33,))
    assert claims(run)[0].cause == "size-mismatch"
    both = {r: [Op(0, way, (8,), peer=1 - r) for way in ("send", "recv")] for r in (0, 1)}
    finding = claims(Run([Group("0", "pipe", (0, 1))], both, depth=2))[0]
    assert finding.cause == "pipeline-order"
    assert finding.against  # a tie


def test_the_program_of_the_logs_with_as_many_processes_owns_the_dumps() -> None:
    server = Program(label="rollout server", role="rollout", software="vllm", processes=2)
    trainer = Program(label="trainer 1", role="trainer", software="trl", processes=4)
    origin = claims(hung(), (server, trainer))[0].origin
    assert (origin.program, origin.role, origin.software) == ("trainer 1", "trainer", "trl")
    assert claims(hung(), (server,))[0].origin.program == "unknown"


def test_every_piece_of_evidence_stands_at_a_dump_and_an_entry() -> None:
    for evidence in claims(hung())[0].support:
        assert evidence.place.source.startswith("comm_lib_trace_rank_")
        assert evidence.place.line >= 1
