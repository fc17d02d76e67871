"""``unstall trace`` as a user calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.recorder.generate import Run, one_group, training

DATA = Path(__file__).parent.parent / "recorder" / "data"
CODE = (
    "import sys, typer; from unstall.commands.trace import trace; app = typer.Typer(); "
    "app.command()(trace); app()"
)


def trace(*arguments: object, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", CODE, *map(str, arguments)], input=stdin, capture_output=True,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def hung(tmp_path: Path) -> Path:
    folder = tmp_path / "dumps"
    folder.mkdir()
    run = Run(one_group(4), training(one_group(4), 4))
    run.programs[2] = run.programs[2][:5]
    for name, data in run.simulate().files().items():
        (folder / name).write_bytes(data)
    return folder


def test_the_verdict_stands_on_top(hung: Path) -> None:
    done = trace(hung)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0].startswith("Rank 2: never entered the operation that the others wait in.")
    text = "\n".join(lines)
    for part in (
        "Suspects",
        "Evidence",
        "Where everyone waits",
        "The code on both sides",
        "Healthy",
    ):
        assert part in text
    assert "/home/user/train.py" in text


def test_neither_torch_nor_numpy_is_imported(hung: Path) -> None:
    told = "app(standalone_mode=False); print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    code = CODE.replace("app()", told)
    done = subprocess.run([sys.executable, "-c", code, str(hung)], capture_output=True, check=True)
    assert done.stdout.decode().splitlines()[-1] == "[]"


def test_json_keeps_the_contract_and_adds_its_own(hung: Path) -> None:
    data = json.loads(trace(hung, "--json").stdout)
    assert data["schema_version"] == 1
    assert data["verdict"] == "failure"
    assert data["causes"][0]["id"] == "unknown"
    assert data["origin"]["ranks"] == [2]
    assert data["collective"]["op"] == "broadcast"
    assert data["collective"]["seq"] == 6
    assert data["waiting_ranks"] == [0, 1, 3]
    assert data["process_group"]["guid"] == "0"
    assert data["causes"][0]["evidence"][0]["source"].endswith("comm_lib_trace_rank_0")
    assert [(s["rank"], s["kind"]) for s in data["trace"]["suspects"]] == [(2, "absent")]


def test_markdown_escapes_and_chinese_speaks(hung: Path) -> None:
    text = trace(hung, "--markdown").stdout.decode()
    assert text.startswith("**Rank 2: never entered")
    assert "| 1 | 2 |" in text
    assert "嫌疑 rank" in trace(hung, "--language", "zh").stdout.decode()


def test_archives_globs_and_standard_input(hung: Path, tmp_path: Path) -> None:
    archive = tmp_path / "dumps.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(hung, "d")
    for way in ([archive], [hung / "comm_lib_trace_rank_*"]):
        assert b"Rank 2: never entered" in trace(*way).stdout
    done = trace("-", stdin=archive.read_bytes())
    assert b"Rank 2: never entered" in done.stdout


def test_a_time_line_is_written(hung: Path, tmp_path: Path) -> None:
    target = tmp_path / "t.json"
    assert trace(hung, "--perfetto", target).returncode == 0
    assert json.loads(target.read_bytes())["traceEvents"]


def test_a_bad_file_is_told_and_the_rest_is_read(hung: Path) -> None:
    (hung / "comm_lib_trace_rank_1").write_bytes(b"\x80\x02cos\nsystem\n(X\x01\x00\x00\x00atR.")
    done = trace(hung)
    assert done.returncode == 0
    assert b"comm_lib_trace_rank_1: not loaded, because it holds the name os.system" in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Rank 2: never entered" in done.stdout


def test_exit_status(hung: Path, tmp_path: Path) -> None:
    healthy = tmp_path / "healthy"
    healthy.mkdir()
    for name, data in Run(one_group(2), training(one_group(2), 2)).simulate().files().items():
        (healthy / name).write_bytes(data)
    assert trace(healthy).returncode == 1
    note = tmp_path / "note.txt"
    note.write_text("nothing here")
    done = trace(note)
    assert done.returncode == 1
    assert b"no Flight Recorder dump" in done.stderr
    assert trace(tmp_path / "absent").returncode == 2
    assert trace(hung, "--json", "--markdown").returncode == 2


def test_several_processes_read_as_one(hung: Path) -> None:
    alone, together = (trace(hung, "--json", "--jobs", jobs).stdout for jobs in (1, 3))
    assert json.loads(alone) == json.loads(together)


def test_terminal_escapes_in_a_dump_are_not_obeyed(hung: Path) -> None:
    path = hung / "comm_lib_trace_rank_0"
    path.write_bytes(path.read_bytes().replace(b"sync", b"\x1b[2J"))
    done = trace(hung)
    assert b"\x1b" not in done.stdout
