"""Dumps of real runs with faults put in: the injected ranks lead, and nobody else is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from unstall.recorder import RecorderVerdict, analyse, findings, load

DATA = Path(__file__).parent / "data"


def verdict_on(folder: str) -> RecorderVerdict:
    return analyse(load(sorted((DATA / folder).iterdir())))


@pytest.mark.parametrize(
    ("folder", "injected", "kind"),
    [
        ("gpu_error_1st", [12, 14], "stuck"),
        ("gpu_error_2nd", [9, 14], "stuck"),
        ("lock_gil_1st", [9, 14], "absent"),
        ("lock_gil_2nd", [10, 15], "absent"),
    ],
)
def test_exactly_the_injected_ranks_are_named(folder: str, injected: list[int], kind: str) -> None:
    verdict = verdict_on(folder)
    assert [(s.rank, s.kind) for s in verdict.suspects] == [(rank, kind) for rank in injected]
    assert verdict.ranks == tuple(range(16))
    everyone = {rank for s in verdict.suspects for rank in s.waiting}
    assert everyone | set(injected) == set(range(16))


def test_a_stuck_device_is_not_explained_by_dumps_alone_and_that_is_said() -> None:
    (finding,) = findings(verdict_on("gpu_error_1st"))
    assert finding.cause == "unknown"
    assert finding.origin.ranks == (12, 14)
    assert "dmesg" in str(finding.next_step)
    assert finding.support[0].place.source.endswith("_dump_12")
    # the first entry of that dump is _all_gather_base 42806 of its tensor-parallel group
    assert finding.support[0].place.line == 1
    assert "42806" in str(finding.support[0].text)


@pytest.mark.parametrize(
    ("folder", "told"), [("gpu_error_1st", "ranks 12, 14"), ("lock_gil_2nd", "ranks 10, 15")]
)
def test_the_next_step_names_all_that_the_first_line_names(folder: str, told: str) -> None:
    verdict = verdict_on(folder)
    assert told.capitalize() in str(verdict.summary)
    assert told in str(verdict.next_step)


def test_runs_in_one_call_are_told_apart_by_paths_that_can_be_opened() -> None:
    dumps = load(sorted((DATA / "gpu_error_1st").iterdir()) + sorted((DATA / "gloo").iterdir()))
    verdict = analyse(dumps)
    labels = [verdict.label, *(other.label for other in verdict.others)]
    assert all(label.startswith(str(DATA)) for label in labels), labels


def test_the_front_is_where_each_pipeline_stage_waits() -> None:
    front = verdict_on("lock_gil_1st").front
    assert [(wait.operation.op, wait.ranks, wait.awaited) for wait in front] == [
        ("send 0->1", tuple(range(8)), tuple(range(8, 16))),
        ("all_to_all", (8, 10, 11, 12, 13, 15), (9, 14)),
    ]


def test_gloo_while_it_hangs() -> None:
    """Rank 1 stands at number 5 (a barrier); rank 0 is in all-reduce 6 of 33 elements."""
    files = sorted((DATA / "gloo").glob("hang__dump_fr_trace_rank*"))
    verdict = analyse(load(files))
    (suspect,) = verdict.suspects
    assert (suspect.rank, suspect.kind, suspect.tie) == (1, "absent", True)
    assert (suspect.operation.op, suspect.operation.seq) == ("all_reduce", 6)
    assert suspect.operation.shape == "[33]"
    assert suspect.operation.frames == (("<module>", "/opt/jobs/fr/t.py", 31),)
    assert suspect.own.op == "barrier"


def test_gloo_after_its_own_time_out_reads_as_completed_and_is_told_as_weaker() -> None:
    files = [
        DATA / "gloo" / "after__dump_fr_trace_rank0",
        DATA / "gloo" / "hang__dump_fr_trace_rank1",
    ]
    loaded = load([(f"x/rank{at}", path.read_bytes()) for at, path in enumerate(files)])
    (suspect,) = analyse(loaded).suspects
    assert (suspect.rank, suspect.kind) == (1, "stopped-earlier")


def test_json_without_stacks_gives_the_same_verdict() -> None:
    files = sorted((DATA / "gloo").glob("hang__dump_fr_trace_json_rank*"))
    (suspect,) = analyse(load(files)).suspects
    assert (suspect.rank, suspect.kind, suspect.operation.seq) == (1, "absent", 6)
    assert suspect.operation.frames == ()
