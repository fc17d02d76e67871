"""``unstall check`` as a user runs it: the table, the machine-readable forms, exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.running import lines_of, unstall

GOOD = (
    "#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0,1\n"
    "torchrun --standalone --nproc_per_node 2 fit.py\n"
)
BAD = GOOD.replace("--nproc_per_node 2", "--nproc_per_node 4")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "launch.sh"
    path.write_text(GOOD)
    return path


def test_nothing_wrong_is_0(script: Path) -> None:
    result = unstall("check", script)
    assert (result.returncode, result.stderr) == (0, b"")
    assert lines_of(result)[0] == "1 program: nothing conflicts."


def test_a_conflict_is_1_and_is_explained_with_its_line(script: Path) -> None:
    script.write_text(BAD)
    result = unstall("check", script)
    assert result.returncode == 1
    text = result.stdout.decode()
    assert "4 processes on a node for 2 visible devices" in " ".join(text.split())
    assert "launch.sh:2" in text


@pytest.mark.parametrize("content", ["", "hello\n", "x = 1\n", "\0\1\2\3" * 99])
def test_no_launch_is_2(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file.txt"
    path.write_text(content)
    result = unstall("check", path)
    assert result.returncode == 2
    assert b"Traceback" not in result.stderr
    assert result.stderr


def test_what_does_not_exist_is_2_and_the_rest_is_read(script: Path) -> None:
    result = unstall("check", script.parent / "none.sh")
    assert result.returncode == 2
    assert b"none.sh" in result.stderr
    both = unstall("check", script.parent / "none.sh", script)
    assert both.returncode == 0
    assert b"none.sh" in both.stderr


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--json", "--sarif", "x.sh"),
        ("x.sh", "--with", "vllm"),
        ("x.sh", "--with", "vllm=new"),
        ("x.sh", "--nonsense"),
    ],
)
def test_wrong_calls_are_2(words: tuple[str, ...]) -> None:
    result = unstall("check", *words)
    assert result.returncode == 2
    assert b"Traceback" not in result.stderr


def test_json_has_the_keys_of_a_diagnosis(script: Path) -> None:
    script.write_text(BAD)
    found = json.loads(unstall("check", script, "--json").stdout)
    assert found["schema_version"] == 1
    program = found["programs"][0]
    assert (program["label"], program["devices"], program["processes"]) == ("trainer", [0, 1], 4)
    row = next(s for s in found["settings"] if s["judgement"] == "conflict")
    assert row["name"] == "CUDA_VISIBLE_DEVICES"
    assert row["values"] == {"trainer": "0,1"}
    assert found["counts"]["conflict"] == 1


def test_markdown_is_a_table(script: Path) -> None:
    lines = lines_of(unstall("check", script, "--markdown"))
    assert any(line.startswith("| ") and "`CUDA_VISIBLE_DEVICES`" in line for line in lines)
    table = [line for line in lines if line.startswith("|")]
    assert len({line.count(" | ") for line in table[:2]}) == 1


def test_sarif_places_each_doubt_at_its_line(script: Path) -> None:
    script.write_text(BAD)
    log = json.loads(unstall("check", script, "--sarif").stdout)
    assert log["version"] == "2.1.0"
    run = log["runs"][0]
    known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {r["ruleId"] for r in run["results"]} == known
    error = next(r for r in run["results"] if r["level"] == "error")
    physical = error["locations"][0]["physicalLocation"]
    assert physical["region"] == {"startLine": 2}
    assert physical["artifactLocation"]["uri"].endswith("launch.sh")


def test_chinese(script: Path) -> None:
    script.write_text(BAD)
    text = unstall("check", script, "--language", "zh").stdout.decode()
    assert text.startswith("1 个程序：1 处冲突")


def test_standard_input_and_an_output_file(tmp_path: Path) -> None:
    target = tmp_path / "report.txt"
    result = unstall("check", "-", "-o", target, stdin=BAD.encode())
    assert (result.returncode, result.stdout) == (1, b"")
    assert "CUDA_VISIBLE_DEVICES" in target.read_text()
    denied = unstall("check", "-", "-o", tmp_path / "none" / "x", stdin=BAD.encode())
    assert denied.returncode == 2


def test_files_beside_the_script_are_read(script: Path) -> None:
    (script.parent / "env.sh").write_text("export CUDA_VISIBLE_DEVICES=0\nexport N=2\n")
    (script.parent / "acc.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\n"
    )
    script.write_text("source ./env.sh\naccelerate launch --config_file acc.yaml x.py\n")
    found = json.loads(unstall("check", script, "--json").stdout)
    program = found["programs"][0]
    assert (program["devices"], program["processes"]) == ([0], 2)
    assert program["environment"] == {"CUDA_VISIBLE_DEVICES": "0", "N": "2"}


def test_files_outside_the_scripts_folder_are_not_read(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "acc.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 7\n"
    )
    path = inner / "run.sh"
    path.write_text("accelerate launch --config_file ../acc.yaml x.py\n")
    found = json.loads(unstall("check", path, "--json").stdout)
    assert found["programs"][0]["processes"] is None


def test_a_version_by_option(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    path.write_text("vllm serve m -dp 2\n")
    old = json.loads(unstall("check", path, "--json", "--with", "vllm=0.11.0").stdout)
    new = json.loads(unstall("check", path, "--json", "--with", "vllm=0.15.0").stdout)
    assert "data parallel engines" in {s["name"] for s in old["settings"]}
    assert "data parallel engines" not in {s["name"] for s in new["settings"]}


def test_markup_and_escapes_of_a_script_are_shown_and_not_obeyed(script: Path) -> None:
    script.write_text(
        "export MASTER_PORT='\x1b[2J[bold]|<b>`x`'\ntorchrun --nproc_per_node 2 a.py\n"
    )
    plain = unstall("check", script).stdout
    assert b"\x1b" not in plain
    assert b"[bold]" in plain
    markdown = unstall("check", script, "--markdown").stdout.decode()
    assert "<b>" not in markdown


def test_this_machine(script: Path) -> None:
    result = unstall("check", script, "--environment", "--json")
    assert result.returncode in (0, 1)
    names = {s["name"] for s in json.loads(result.stdout)["settings"]}
    assert "/dev/shm" in names or not Path("/dev/shm").exists()  # noqa: S108
    alone = unstall("check", "--environment")
    assert alone.returncode in (0, 1)
    assert b"Traceback" not in alone.stderr


def test_help_shows_examples() -> None:
    text = unstall("check", "--help").stdout.decode()
    assert "unstall check run_grpo.sh" in text


def test_a_folders_scripts_are_alternatives(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.sh").write_text(f"torchrun --nproc_per_node 2 {name}.py\n")
    (tmp_path / "empty").touch()
    (tmp_path / "run.log").write_text("step 1\n")
    folder = unstall("check", tmp_path, "--json")
    assert (folder.returncode, folder.stderr) == (0, b"")
    assert len(json.loads(folder.stdout)["programs"]) == 2
    assert unstall("check", tmp_path / "a.sh", tmp_path / "b.sh").returncode == 1


def test_a_binary_and_a_folder_without_scripts_are_2(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)) * 9)
    for path in (tmp_path, tmp_path / "weights.bin"):
        result = unstall("check", path)
        assert result.returncode == 2
        assert result.stderr
        assert b"Traceback" not in result.stderr
