"""What lines of logs say of dumps' files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.job import build
from unstall.model.facts import Fact, Place, RecorderFile, Speaker
from unstall.model.plan import Plan
from unstall.recorder.records import Dump
from unstall.recorder.told import inform


def line(path: str, rank: int | None, number: int = 1, host: str | None = None) -> Fact:
    return RecorderFile(
        place=Place("train.log", number),
        quote=path,
        speaker=Speaker(rank=rank, host=host),
        state="written",
        path=path,
    )


def told(names: list[str], *attempts: list[Fact]) -> list[Dump]:
    dumps = [Dump(name, rank=at) for at, name in enumerate(names)]
    inform(dumps, [build(facts, Plan()) for facts in attempts])
    return dumps


def test_rank_and_host_come_from_the_line() -> None:
    (dump,) = told(["collected/flight_9"], [line("/var/fr/flight_9", 4, 17, "gpu-b7")])
    assert (dump.rank, dump.sure, dump.host, dump.renamed) == (4, True, "gpu-b7", True)
    assert dump.told == ("train.log", 17)


@pytest.mark.parametrize("name", ["d/fr_2.gz", "d.tgz!node/fr_2", "d\\fr_2"])
def test_packed_files_keep_their_name(name: str) -> None:
    (dump,) = told([name], [line("/x/fr_2", 5)])
    assert dump.rank == 5


def test_the_host_tells_which_of_two_files_of_one_name_is_meant() -> None:
    facts = [line("/tmp/fr_0", 8, 1, "node1"), line("/tmp/fr_0", 3, 2, "node2")]  # noqa: S108
    one, other = told(["node1/fr_0", "node2/fr_0"], facts)
    assert (one.rank, other.rank) == (8, 3)


def test_nothing_is_taken_where_several_files_could_be_meant() -> None:
    """The line of one host's rank, and the files of two."""
    one, other = told(["a/fr_0", "b/fr_0"], [line("/var/fr_0", 6)])
    assert (one.rank, other.rank) == (0, 1)
    assert one.told is None is other.told


def test_nothing_is_taken_where_two_ranks_wrote_a_file_of_that_name() -> None:
    (dump,) = told(["fr_0"], [line("/var/fr_0", 6, 1), line("/var/fr_0", 7, 2)])
    assert (dump.rank, dump.told) == (0, None)


def test_a_later_attempt_writes_over_the_file() -> None:
    (dump,) = told(["fr_0"], [line("/var/fr_0", 0, 1)], [line("/var/fr_0", 0, 9)])
    assert dump.attempt == 1


def test_a_line_of_no_attempt_in_particular_tells_none() -> None:
    fact = line("/var/fr_0", 0)
    (dump,) = told(["fr_0"], [fact], [fact])
    assert dump.attempt == -1


def test_unnamed_dumps_go_with_those_of_their_time() -> None:
    dumps = [Dump("fr_0", rank=0), Dump("fr_1", rank=1), Dump("fr_2", rank=2)]
    for dump, minute in zip(dumps, (10, 12, 900), strict=True):
        dump.last_created = 1_700_000_000_000_000_000 + minute * 60_000_000_000
    facts = [line("/var/fr_0", 0)]
    inform(dumps, [build([line("/var/other", 0, 9)], Plan()), build(facts, Plan())])
    assert [dump.attempt for dump in dumps] == [1, 1, -1]


paths = st.text(alphabet="ab/\\!.0 ", max_size=12)


@given(
    st.lists(paths, max_size=5),
    st.lists(st.tuples(paths, st.none() | st.integers(0, 3)), max_size=6),
)
def test_any_paths(names: list[str], lines: list[tuple[str, int | None]]) -> None:
    """A rank is one that the file's name or one of the lines tells."""
    facts = [line(path, rank, at) for at, (path, rank) in enumerate(lines, 1)]
    dumps = told(names, facts)
    for at, dump in enumerate(dumps):
        assert dump.rank in {at, *(rank for _, rank in lines)}
