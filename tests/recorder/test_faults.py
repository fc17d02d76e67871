"""Faults put into simulated runs: whoever was faulty is a suspect, and nobody else leads."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from tests.recorder.generate import Group, Op, Run, grid, one_group, training
from unstall.recorder import RecorderVerdict, analyse, load


def verdict_on(files: dict[str, bytes]) -> RecorderVerdict:
    return analyse(load(list(files.items())))


def suspects(verdict: RecorderVerdict) -> dict[int, str]:
    return {s.rank: s.kind for s in verdict.suspects}


def healthy(groups: list[Group], steps: int = 6, depth: int = 3) -> Run:
    return Run(groups, training(groups, steps), depth=depth)


@pytest.mark.parametrize("groups", [one_group(4), grid(2, 2), grid(4, 2), one_group(1)])
def test_a_healthy_run_has_no_suspect(groups: list[Group]) -> None:
    verdict = verdict_on(healthy(groups).simulate().files())
    assert (verdict.verdict, verdict.suspects) == ("benign", ())


@pytest.mark.parametrize("rank", [0, 1, 5])
def test_the_rank_that_stops_is_named_also_when_it_is_rank_0(rank: int) -> None:
    run = healthy(one_group(6))
    run.programs[rank] = run.programs[rank][:7]
    verdict = verdict_on(run.simulate().files())
    assert suspects(verdict) == {rank: "absent"}
    assert verdict.suspects[0].waiting == tuple(r for r in range(6) if r != rank)
    # operations 1 and 2 of step 4 are numbers 7 and 8; the rank did the first seven
    assert (verdict.front[0].operation.op, verdict.front[0].operation.seq) == ("broadcast", 8)
    assert verdict.suspects[0].operation.frames[0][0] == "sync"
    assert verdict.suspects[0].own.frames[0][0] == "log_loss"


@pytest.mark.parametrize("rank", [0, 3])
def test_another_operation_is_told_against_the_majority(rank: int) -> None:
    run = healthy(one_group(4))
    run.programs[rank][6] = Op(0, "reduce_scatter", (1,), frame="save_checkpoint")
    verdict = verdict_on(run.simulate().files())
    assert suspects(verdict) == {rank: "other-operation"}
    lead = verdict.suspects[0]
    assert (lead.own.op, lead.operation.op, lead.own.seq) == ("reduce_scatter", "all_reduce", 7)
    assert lead.own.frames[0][0] == "save_checkpoint"


def test_another_size_and_another_type_are_told() -> None:
    run = healthy(one_group(4))
    run.programs[2][6] = dataclasses.replace(run.programs[2][6], sizes=(5,))
    assert suspects(verdict_on(run.simulate().files())) == {2: "other-size"}
    run = healthy(one_group(4))
    run.programs[1][6] = dataclasses.replace(run.programs[1][6], dtype="BFloat16")
    assert suspects(verdict_on(run.simulate().files())) == {1: "other-type"}


def test_two_ranks_that_disagree_are_a_tie() -> None:
    run = healthy(one_group(2))
    run.programs[1][4] = Op(0, "all_gather", (1,))
    verdict = verdict_on(run.simulate().files())
    assert suspects(verdict) == {0: "other-operation", 1: "other-operation"}
    assert all(s.tie for s in verdict.suspects)
    assert "no majority" in str(verdict.summary)


def test_an_order_deadlock_over_two_groups_names_the_ring() -> None:
    groups = [Group("0", "default_pg", (0, 1)), Group("1", "model", (0, 1))]
    first, second = Op(0, "all_reduce", (4,)), Op(1, "all_gather", (4,))
    programs = {0: [first, second], 1: [second, first]}
    verdict = verdict_on(Run(groups, programs, depth=2).simulate().files())
    assert suspects(verdict) == {0: "order-deadlock", 1: "order-deadlock"}
    assert [
        (step.ranks, step.operation.label, step.awaited) for step in verdict.cycles[0].steps
    ] == [((0,), "default_pg (group 0)", (1,)), ((1,), "model (group 1)", (0,))]


def test_the_one_rank_that_takes_two_groups_in_another_order_is_the_suspect() -> None:
    groups = [Group("0", "default_pg", tuple(range(5))), Group("1", "model", tuple(range(5)))]
    pair = [Op(0, "all_reduce", (4,)), Op(1, "all_gather", (4,))]
    programs = {rank: list(pair) for rank in range(5)}
    programs[3] = pair[::-1]
    for depth in (1, 2):  # blocking calls, and both enqueued
        verdict = verdict_on(Run(groups, programs, depth=depth).simulate().files())
        assert suspects(verdict) == {3: "order-deadlock"}
        assert {s.operation.label for s in verdict.cycles[0].steps} == {
            "default_pg (group 0)",
            "model (group 1)",
        }


def test_a_rank_alone_in_an_operation_is_the_odd_one() -> None:
    run = healthy(one_group(5), steps=2)
    run.programs[0].append(Op(0, "all_reduce", (9,), frame="only_rank_0"))
    verdict = verdict_on(run.simulate().files())
    assert suspects(verdict) == {0: "alone"}
    assert verdict.suspects[0].own.frames[0][0] == "only_rank_0"


@pytest.mark.parametrize("only_active", [False, True])
def test_a_pipeline_whose_stages_exchange_in_the_same_order_is_a_ring(only_active: bool) -> None:
    groups = [Group("0", "pipeline", (0, 1))]
    programs = {
        0: [Op(0, "send", (8,), peer=1), Op(0, "recv", (8,), peer=1)],
        1: [Op(0, "send", (8,), peer=0), Op(0, "recv", (8,), peer=0)],
    }
    run = Run(groups, programs, depth=2).simulate()
    verdict = verdict_on(run.files(only_active=only_active))
    assert suspects(verdict) == {0: "order-deadlock", 1: "order-deadlock"}
    assert len(verdict.cycles[0].steps) == 2


def test_healthy_sends_and_receives_accuse_nobody() -> None:
    groups = [Group("0", "pipeline", (0, 1, 2))]
    programs = {
        0: [Op(0, "send", (8,), peer=1), Op(0, "recv", (8,), peer=1)] * 3,
        1: [
            Op(0, "recv", (8,), peer=0), Op(0, "send", (8,), peer=2),
            Op(0, "recv", (8,), peer=2), Op(0, "send", (8,), peer=0),
        ] * 3,
        2: [Op(0, "recv", (8,), peer=1), Op(0, "send", (8,), peer=1)] * 3,
    }  # fmt: skip
    verdict = verdict_on(Run(groups, programs, depth=1).simulate().files())
    assert (verdict.verdict, verdict.suspects) == ("benign", ())


def test_a_stage_that_stops_is_found_at_the_end_of_a_pipeline() -> None:
    groups = [Group("0", "pipeline", (0, 1, 2))]
    relay = [Op(0, "recv", (8,), peer=0), Op(0, "send", (8,), peer=2)]
    programs = {
        0: [Op(0, "send", (8,), peer=1)] * 5,
        1: relay * 5,
        2: [Op(0, "recv", (8,), peer=1)] * 2,
    }
    verdict = verdict_on(Run(groups, programs, depth=1).simulate().files())
    assert suspects(verdict) == {2: "absent"}
    assert verdict.suspects[0].waiting == (0, 1)


def test_buffers_that_wrapped_unequally_accuse_nobody_falsely() -> None:
    run = healthy(grid(2, 2), steps=30)
    assert verdict_on(run.simulate().files(ring={0: 7, 1: 50, 3: 23})).suspects == ()
    run = healthy(grid(2, 2), steps=30)
    run.programs[3] = run.programs[3][:90]
    verdict = verdict_on(run.simulate().files(ring={0: 7, 1: 50, 3: 23}))
    assert suspects(verdict) == {3: "absent"}


def test_a_missing_dump_is_evidence_against_its_rank() -> None:
    run = healthy(one_group(6))
    run.programs[4] = run.programs[4][:5]
    files = run.simulate().files()
    del files["comm_lib_trace_rank_4"]
    verdict = verdict_on(files)
    assert suspects(verdict) == {4: "dump-missing"}
    assert verdict.missing == (4,)


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"", "dump-empty"), (b"cut", "dump-truncated"), (b"{x", "dump-unreadable")],
)
def test_broken_dumps_are_evidence_against_their_rank(content: bytes, kind: str) -> None:
    run = healthy(one_group(6))
    run.programs[2] = run.programs[2][:5]
    files = run.simulate().files()
    name = "comm_lib_trace_rank_2"
    files[name] = files[name][:-40] if content == b"cut" else content
    loaded = load(list(files.items()))
    verdict = analyse(loaded)
    assert suspects(verdict) == {2: kind}
    assert [fact.place.source for fact in loaded.unread] == [name]


def test_a_missing_dump_of_somebody_who_is_not_waited_for_is_only_a_note() -> None:
    run = healthy(one_group(6))
    run.programs[4] = run.programs[4][:5]
    files = run.simulate().files()
    del files["comm_lib_trace_rank_1"]
    verdict = verdict_on(files)
    assert suspects(verdict) == {4: "absent"}
    assert any("No dump of rank 1" in str(note) for note in verdict.notes)


def test_with_most_dumps_missing_nobody_is_named() -> None:
    run = healthy(one_group(8))
    run.programs[6] = run.programs[6][:5]
    files = run.simulate().files()
    kept = {name: files[name] for name in list(files)[:3]}
    verdict = verdict_on(kept)
    assert (verdict.verdict, verdict.suspects) == ("inconclusive", ())
    assert "5 of 8 ranks are missing" in str(verdict.undecided[0])


def test_an_idle_dump_counts_as_having_entered_nothing() -> None:
    run = healthy(one_group(4))
    run.programs[2] = run.programs[2][:5]
    verdict = verdict_on(run.simulate().files(only_active=True))
    assert suspects(verdict) == {2: "absent"}
    assert any("waits for nothing" in str(e.text) for e in verdict.suspects[0].evidence)


def test_when_all_members_are_there_and_agree_no_rank_is_named() -> None:
    files = {}
    for rank in range(4):
        dump = healthy(one_group(4), steps=2).simulate().dump(rank)
        dump["entries"][-1].update(
            state="started", retired=False, time_discovered_completed_ns=None
        )
        dump["pg_status"]["0"]["last_completed_collective"] -= 1
        import pickle

        files[f"rank{rank}"] = pickle.dumps(dump, 2)
    verdict = verdict_on(files)
    assert (verdict.verdict, verdict.suspects) == ("inconclusive", ())
    assert "devices and network" in str(verdict.undecided[0])


FAULTS = ("absent", "operation", "size", "type", "order", "extra", "missing", "empty", "truncated")


@st.composite
def faulty_runs(draw: st.DrawFn) -> tuple[dict[str, bytes], int]:
    shape = draw(st.sampled_from(["one", "grid"]))
    if shape == "one":
        groups = one_group(draw(st.integers(3, 9)))
    else:
        groups = grid(draw(st.integers(2, 4)), draw(st.integers(3, 4)))
    run = healthy(groups, steps=draw(st.integers(2, 8)), depth=draw(st.integers(1, 6)))
    rank = draw(st.sampled_from(groups[0].ranks))
    program = run.programs[rank]
    # Where the members of a group are at least three, one odd rank is a minority.
    wide = [at for at, op in enumerate(program) if len(groups[op.group].ranks) > 2]
    at = draw(st.sampled_from(wide))
    fault = draw(st.sampled_from(FAULTS))
    if fault == "operation":
        program[at] = dataclasses.replace(program[at], name="reduce_scatter", out=None)
    elif fault == "size":
        program[at] = dataclasses.replace(program[at], sizes=(7919,), out=None)
    elif fault == "type":
        program[at] = dataclasses.replace(program[at], dtype="Half")
    elif fault == "order":  # two neighbours of one group or of two, changed places
        at = draw(st.integers(0, len(program) - 2))
        assume(program[at] != program[at + 1])
        assume(len(groups[program[at].group].ranks) > 2)
        assume(len(groups[program[at + 1].group].ranks) > 2)
        program[at], program[at + 1] = program[at + 1], program[at]
    elif fault == "extra":
        program.insert(at, dataclasses.replace(program[at], frame="extra"))
        assume(at + 1 == len(program) - 1 or program[at] != program[at + 2])
    else:
        run.programs[rank] = program[:at]
    ring = {r: draw(st.integers(20, 60)) for r in draw(st.lists(st.sampled_from(groups[0].ranks)))}
    only_active = draw(st.booleans())
    note(f"{fault} on rank {rank} at {at} of {len(program)}, {groups}, depth {run.depth}, {ring}")
    run.simulate()
    if fault in ("order", "extra"):  # some of these do no harm
        assume(not all(entry.done for record in run.record.values() for entry in record))
    files = run.files(ring=ring, only_active=only_active)
    name = f"comm_lib_trace_rank_{rank}"
    if fault == "missing":
        del files[name]
    elif fault == "empty":
        files[name] = b""
    elif fault == "truncated":
        files[name] = files[name][: draw(st.integers(3, len(files[name]) - 1))]
    return files, rank


@settings(max_examples=120, deadline=None)
@given(faulty_runs())
def test_the_faulty_rank_is_suspected_and_no_healthy_rank_leads(
    case: tuple[dict[str, bytes], int],
) -> None:
    files, faulty = case
    verdict = verdict_on(files)
    assert faulty in suspects(verdict)
    lead = verdict.suspects[0]
    assert lead.rank == faulty or lead.tie
