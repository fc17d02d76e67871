"""``unstall diagnose`` as a user runs it: reports, input of every kind, exit statuses."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.commands.running import lines_of, unstall

REPORT = Path(__file__).parents[1] / "cases" / "f02-grpo-rollout-server" / "report.txt"
ILLEGAL = Path(__file__).parents[1] / "cases" / "f00-vllm-illegal-access" / "report.txt"


def _first_cause(result: object) -> str:
    stdout = getattr(result, "stdout", b"")
    return str(json.loads(stdout)["causes"][0]["id"])


def test_verdict_fits_one_screen() -> None:
    """The founding report: 80 columns, at most 40 lines, cause and missing rank on top."""
    result = unstall("diagnose", REPORT, "--language", "en")
    lines = lines_of(result)
    assert result.returncode == 0
    assert len(lines) <= 40
    assert all(len(line) <= 80 for line in lines)
    assert "rank 1 never entered" in " ".join(lines[:2])
    assert any(line.startswith("cause") and "engine-desync" in line for line in lines)


def test_language_of_the_input_is_the_default() -> None:
    """A Chinese report gets a Chinese answer, with no English sentence left in its fixed words."""
    text = unstall("diagnose", REPORT).stdout.decode()
    assert "原因" in text
    assert "下一步" in text


def test_no_colour_and_no_escape_where_output_is_no_terminal() -> None:
    """Piped output is plain."""
    assert b"\x1b" not in unstall("diagnose", REPORT).stdout


def test_json_is_one_object_with_the_contract_s_keys() -> None:
    """Programs read it; places are a source and a line."""
    found = json.loads(unstall("diagnose", REPORT, "--json").stdout)
    assert found["schema_version"] == 1
    assert found["origin"]["role"] == "rollout"
    assert found["origin"]["ranks"] == [1]
    assert found["origin"]["process_group"]["guid"] == "15"
    assert found["collective"]["seq"] == 434159
    assert found["waiting_ranks"] == [0]
    assert all(item["line"] is None or item["line"] > 0 for item in found["causes"][0]["evidence"])


def test_markdown_can_be_written_to_a_file(tmp_path: Path) -> None:
    """``-o`` writes and prints nothing."""
    target = tmp_path / "report.md"
    result = unstall("diagnose", REPORT, "--markdown", "-o", target)
    assert (result.returncode, result.stdout) == (0, b"")
    assert "engine-desync" in target.read_text(encoding="utf-8")


def test_html_is_one_page_without_scripts() -> None:
    """It can be sent around."""
    page = unstall("diagnose", REPORT, "--html").stdout.decode()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "<script" not in page.lower()


def test_standard_input() -> None:
    """``-`` reads it."""
    result = unstall("diagnose", "-", "--json", stdin=REPORT.read_bytes())
    assert _first_cause(result) == "engine-desync"


def _packed(kind: str, folder: Path) -> Path:
    data = REPORT.read_bytes()
    target = folder / f"evidence.{kind}"
    if kind == "txt.gz":
        target.write_bytes(gzip.compress(data))
    elif kind == "zip":
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("logs/issue.txt", data)
    elif kind == "tar.xz":
        with tarfile.open(target, "w:xz") as archive:
            info = tarfile.TarInfo("logs/issue.txt")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    else:
        import zstandard

        target.write_bytes(zstandard.ZstdCompressor().compress(data))
    return target


@pytest.mark.parametrize("kind", ["txt.gz", "zip", "tar.xz", "txt.zst"])
def test_packed_input(kind: str, tmp_path: Path) -> None:
    """Compressed files and archives are read as they are."""
    assert _first_cause(unstall("diagnose", _packed(kind, tmp_path), "--json")) == "engine-desync"


def test_patterns_are_expanded_where_the_shell_did_not(tmp_path: Path) -> None:
    """``'*.log'`` in quotes."""
    (tmp_path / "a.log").write_bytes(ILLEGAL.read_bytes())
    result = unstall("diagnose", "*.log", "--json", cwd=tmp_path)
    assert _first_cause(result) == "illegal-memory-access"


# --- bad input -----------------------------------------------------------------------------------


def _bad(kind: str, folder: Path) -> Path:
    target = folder / f"{kind}.log"
    data = REPORT.read_bytes()
    if kind == "empty":
        target.write_bytes(b"")
    elif kind == "binary":
        target.write_bytes(bytes(range(256)) * 400)
    elif kind == "folder":
        target.mkdir()
    elif kind == "truncated":
        target = folder / "cut.log.gz"
        target.write_bytes(gzip.compress(data)[:60])
    elif kind == "bomb":
        target = folder / "bomb.zip"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.log", b"INFO nothing\n" * 6_000_000)
    elif kind == "missing":
        target = folder / "mising.log"
        (folder / "missing.log").write_bytes(data)
    return target


@pytest.mark.parametrize("kind", ["empty", "binary", "folder", "truncated", "bomb", "missing"])
def test_bad_input_is_named_and_the_rest_is_diagnosed(kind: str, tmp_path: Path) -> None:
    """A message with the name, never a traceback; a good file beside it is still read."""
    bad = _bad(kind, tmp_path)
    alone = unstall("diagnose", bad)
    assert alone.returncode in (1, 2)
    assert b"Traceback" not in alone.stderr + alone.stdout
    if kind != "bomb":
        assert bad.name.encode() in alone.stderr
    both = unstall("diagnose", bad, REPORT, "--json")
    assert both.returncode == 0
    assert _first_cause(both) == "engine-desync"


def test_missing_path_proposes_a_near_name(tmp_path: Path) -> None:
    """A slip of the finger is the usual reason."""
    result = unstall("diagnose", _bad("missing", tmp_path))
    assert result.returncode == 2
    assert b"missing.log" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path: Path) -> None:
    """Permission denied is said with the file's name."""
    target = tmp_path / "secret.log"
    target.write_text("x")
    target.chmod(0)
    result = unstall("diagnose", target)
    assert result.returncode == 2
    assert b"secret.log" in result.stderr


def test_nul_bytes_and_broken_utf8_do_not_hide_the_log(tmp_path: Path) -> None:
    """Loaders' handlers write NULs; copies break characters."""
    target = tmp_path / "n.log"
    target.write_bytes(REPORT.read_bytes().replace(b"\n", b"\x00\n") + b"\xff\xfe\x80\n")
    assert _first_cause(unstall("diagnose", target, "--json")) == "engine-desync"


def test_long_single_line_is_bounded(tmp_path: Path) -> None:
    """A line of 64 MB is read in pieces and says nothing."""
    target = tmp_path / "line.log"
    with target.open("wb") as file:
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    result = unstall("diagnose", target)
    assert result.returncode == 1
    assert b"Traceback" not in result.stderr


def test_script_with_a_syntax_error_is_still_a_plan(tmp_path: Path) -> None:
    """What can be read of it is; nothing fails."""
    (tmp_path / "launch.sh").write_text(
        "if [ 1 ; then\nexport CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc_per_node 2 train.py\n"
    )
    result = unstall("diagnose", tmp_path / "launch.sh", ILLEGAL, "--json")
    assert result.returncode == 0
    assert b"Traceback" not in result.stderr


def test_only_one_kind_of_report() -> None:
    """Two at once is a wrong call."""
    result = unstall("diagnose", REPORT, "--json", "--markdown")
    assert result.returncode == 2
    assert b"--json" in result.stderr


def test_nothing_of_the_input_is_executed(tmp_path: Path) -> None:
    """Command substitutions and scripts are read, not run."""
    witness = tmp_path / "witness"
    (tmp_path / "launch.sh").write_text(
        f"#!/bin/bash\nexport P=$(touch {witness})\n`touch {witness}`\ntorchrun $P train.py\n"
    )
    unstall("diagnose", tmp_path)
    assert not witness.exists()


def test_torch_is_never_imported() -> None:
    """Diagnosing must start fast and without torch."""
    code = (
        "import sys, unstall\n"
        f"unstall.diagnose([{str(REPORT)!r}])\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'numpy')])"
    )
    import subprocess

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=120
    )
    assert found.stdout.strip() == b"[]"


def test_help_shows_examples() -> None:
    """The first thing a user tries."""
    text = unstall("diagnose", "--help").stdout.decode()
    assert "unstall diagnose issue.txt" in text
    assert "Exit status" in text


def test_closed_pipe_is_no_error() -> None:
    """``| head -1`` ends it quietly."""
    import subprocess

    code = "from unstall.commands import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "diagnose", str(REPORT), "-v"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize("words", [(), ("--json",), ("--markdown",)])
@pytest.mark.parametrize(("text", "status"), [("a line\n", 1), (None, 0)])
def test_the_status_is_the_diagnosis_also_where_nobody_reads_it(
    tmp_path: Path, words: tuple[str, ...], text: str | None, status: int
) -> None:
    """In ``set -o pipefail`` scripts a reader that has gone is no input without a diagnosis."""
    import subprocess

    path = REPORT
    if text is not None:
        path = tmp_path / "empty.log"
        path.write_text(text)
    code = "from unstall.commands import main; main()"
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, "diagnose", str(path), *words],
            stdout=theirs,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(theirs)
    assert done.returncode == status
    assert done.stderr == b""
