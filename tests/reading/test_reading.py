"""The whole way from paths to facts, with readers of our own and with all there are."""

from __future__ import annotations

import gzip
import io
import pickle
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.model.facts import CollectiveTimeout, Fact, Phase, Remark, Speaker
from unstall.reading import read
from unstall.reading.line import Line

CASES = Path(__file__).parents[1] / "cases"


class Saving:
    """A reader of one sentence."""

    marks = ("saving",)
    wants_more = False

    def feed(self, line: Line) -> Iterable[Fact]:
        yield Phase(place=line.place, quote=line.raw, speaker=line.speaker, kind="save")

    def finish(self) -> Iterable[Fact]:
        return ()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_kind_of_source_goes_its_way(here: Path) -> None:
    (here / "run.log").write_text("[rank1]: saving\n+ torchrun --nnodes 2 a.py\nother\n")
    (here / "launch.sh").write_bytes(b"#!/bin/bash\r\n# saving\r\nvllm serve x\r\n")
    (here / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    (here / "train.py").write_text("print('saving')\n")
    (here / "_dump_0").write_bytes(pickle.dumps({"pg_config": {}, "entries": []}))
    (here / "noise.bin").write_bytes(bytes(range(256)) * 9)
    reading = read(["."], readers=[Saving])
    (fact,) = reading.facts
    assert (str(fact.place), fact.speaker) == ("./run.log:1", Speaker(rank=1))
    assert [(str(s.place), s.text) for s in reading.scripts] == [
        ("./launch.sh:1", "#!/bin/bash\n# saving\nvllm serve x\n"),
        ("./run.log:2", "torchrun --nnodes 2 a.py"),
    ]
    assert [(c.place.source, c.kind) for c in reading.configs] == [
        ("./ds.json", "json"), ("./train.py", "python"),
    ]  # fmt: skip
    (dump,) = reading.dumps
    assert pickle.loads(dump.read_bytes(10_000))["entries"] == []
    assert [one.place.source for one in reading.unread] == ["."]
    assert reading.counts["sources"] == 5
    assert reading.counts["facts"] == 1


def test_a_dump_in_an_archive_comes_with_its_bytes(here: Path) -> None:
    content = pickle.dumps({"pg_config": {}, "entries": []})
    with tarfile.open(here / "d.tgz", "w:gz") as archive:
        info = tarfile.TarInfo("in/_dump_3")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    (dump,) = read(["d.tgz"], readers=[]).dumps
    assert (dump.name, dump.path, dump.data, dump.complete) == (
        "d.tgz!in/_dump_3", None, content, True,
    )  # fmt: skip


def test_a_packed_dump_is_unpacked(here: Path) -> None:
    content = pickle.dumps({"pg_config": {}, "entries": []})
    (here / "_dump_3").write_bytes(gzip.compress(content))
    (dump,) = read(["_dump_3"], readers=[]).dumps
    assert dump.read_bytes(1000) == content


def test_progress_counts_up_to_the_size(here: Path) -> None:
    (here / "a.log").write_bytes(b"x\n" * 500_000)
    (here / "b.log").write_bytes(b"y\n")
    told: list[tuple[int, int | None, str]] = []
    read(["a.log", "b.log"], readers=[], progress=lambda *now: told.append(now))
    assert told[-1] == (1_000_002, 1_000_002, "b.log")
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    told.clear()
    read(["-"], stdin=io.BytesIO(b"x\n"), readers=[], progress=lambda *now: told.append(now))
    assert told == [(2, None, "-")]


def test_the_same_command_of_eight_ranks_is_one(here: Path) -> None:
    (here / "a.log").write_text("+ torchrun --nnodes 2 a.py\nx\nx\nx\nx\nx\nx\nx\nx\n" * 8)
    assert len(read(["a.log"], readers=[]).scripts) == 1


def test_what_stands_far_into_a_log_is_still_seen(here: Path) -> None:
    filler = "INFO 11-07 02:31:02 [loggers.py:127] nothing of note\n" * 40_000
    note = "# --- no more output for 3 h ---\nrun sh: `python a.py --port 1`\nsaving\n"
    (here / "a.log").write_text(filler + note)
    reading = read(["a.log"], readers=[Saving])
    assert [type(fact) for fact in reading.facts] == [Remark, Phase]
    assert [str(script.place) for script in reading.scripts] == ["a.log:40002"]


def test_a_founding_report_by_all_readers() -> None:
    reading = read([CASES / "f02-grpo-rollout-server/report.txt"])
    (timeout,) = [fact for fact in reading.facts if isinstance(fact, CollectiveTimeout)]
    assert timeout.speaker.rank == 0
    assert timeout.work.seq == 434159
    assert reading.language == "zh"
    assert len(reading.scripts) == 1
    assert reading.unread == []


@pytest.mark.parametrize("case", sorted(one.name for one in CASES.iterdir() if one.is_dir()))
def test_no_case_troubles_a_reader(case: str) -> None:
    reading = read([CASES / case])
    assert reading.unread == []
    assert reading.facts


def test_reading_needs_no_torch() -> None:
    code = (
        "import sys; from unstall.reading import read; read([sys.argv[1]]); "
        "print('torch' in sys.modules)"
    )
    path = str(CASES / "f02-grpo-rollout-server/report.txt")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("False\n", 0)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes_are_read_by_all_readers_or_told(data: bytes) -> None:
    reading = read(["-"], stdin=io.BytesIO(data))
    assert not [one for one in reading.unread if "failed here" in one.reason]
    assert reading.counts["bytes"] <= 2000 * len(data)
