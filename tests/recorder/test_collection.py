"""Which dumps belong together."""

from __future__ import annotations

from tests.recorder.generate import Group, Op, Run, one_group, training
from unstall.recorder import analyse, load


def hung(world: int, absent: int, start: int = 5) -> dict[int, bytes]:
    run = Run(one_group(world), training(one_group(world), 4))
    run.programs[absent] = run.programs[absent][:start]
    return {int(name.rpartition("_")[2]): data for name, data in run.simulate().files().items()}


def test_folders_of_several_nodes_are_one_incident() -> None:
    files = hung(8, 5)
    named = [(f"node{rank // 4}/nccl_trace_rank_{rank}", data) for rank, data in files.items()]
    verdict = analyse(load(named))
    assert verdict.others == ()
    assert verdict.ranks == tuple(range(8))
    assert [(s.rank, s.host) for s in verdict.suspects] == [(5, "node1")]


def test_two_programs_whose_ranks_share_numbers_are_told_apart() -> None:
    """A trainer of 6 ranks and a server of 2 on one host, in one folder."""
    trainer, server = hung(6, 4), hung(2, 1, start=3)
    named = [(f"all/trainer_rank_{rank}", data) for rank, data in trainer.items()]
    named += [(f"all/server_rank_{rank}", data) for rank, data in server.items()]
    verdict = analyse(load(named))
    everyone = (verdict, *verdict.others)
    assert sorted((v.ranks, v.suspects[0].rank) for v in everyone) == [
        ((0, 1), 1),
        (tuple(range(6)), 4),
    ]


def test_a_server_that_overwrote_two_of_the_trainers_files_is_told_by_its_world() -> None:
    files = {**hung(6, 4), **hung(2, 1, start=3)}
    named = [(f"all/nccl_trace_rank_{rank}", data) for rank, data in files.items()]
    verdict = analyse(load(named))
    ranks = sorted(v.ranks for v in (verdict, *verdict.others))
    assert ranks == [(0, 1), (2, 3, 4, 5)]


def test_a_file_left_over_from_yesterday_is_another_incident() -> None:
    import pickle

    files = hung(4, 2)
    old = pickle.loads(files[2])
    for entry in old["entries"]:
        entry["time_created_ns"] -= 86_400_000_000_000
    files[2] = pickle.dumps(old, 2)
    verdict = analyse(load([(f"d/rank_{rank}", data) for rank, data in files.items()]))
    assert verdict.ranks == (0, 1, 3)
    assert [(s.rank, s.kind) for s in verdict.suspects] == [(2, "dump-missing")]
    assert [other.ranks for other in verdict.others] == [(2,)]


def test_copies_and_json_twins_count_once() -> None:
    files = hung(3, 1)
    named = [(f"d/rank_{rank}.pkl", data) for rank, data in files.items()]
    named.append(("d/rank_0.pickle", files[0]))
    verdict = analyse(load(named))
    assert verdict.others == ()
    assert any("repeats" in str(note) for note in verdict.notes)


def test_the_rank_comes_from_the_groups_where_the_name_has_none() -> None:
    groups = [*one_group(3), *(Group(str(1 + rank), "own", (rank,)) for rank in range(3))]
    programs = {rank: [Op(0, sizes=(4,))] * 3 for rank in range(3)}
    programs[1] = programs[1][:2]
    files = Run(groups, programs).simulate().files()
    names = ["alpha", "beta", "gamma"]
    verdict = analyse(load(list(zip(names, files.values(), strict=True))))
    assert [s.rank for s in verdict.suspects] == [1]


def test_a_dump_without_any_sign_of_its_rank_is_left_out_and_told() -> None:
    files = hung(3, 1)
    verdict = analyse(load([("d/rank_0", files[0]), ("d/rank_1", files[1]), ("d/x", files[2])]))
    assert any("d/x was left out" in str(note) for note in verdict.notes)


def test_nothing_to_analyse_is_said() -> None:
    verdict = analyse(load([]))
    assert (verdict.verdict, verdict.suspects) == ("inconclusive", ())
