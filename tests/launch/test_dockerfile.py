"""Dockerfiles, environment files and what stands beside a source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.commands.running import unstall
from tests.launch.plans import judgements, only, plan
from unstall.launch import dockerfile
from unstall.model.facts import Place

AT = Place("Dockerfile", 1)


def started(text: str) -> str | None:
    image = dockerfile.read(text, AT)
    return None if image is None else image.script.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM a\nCMD torchrun fit.py\n", "torchrun fit.py"),
        ('FROM a\nCMD ["torchrun", "fit.py", "a b"]\n', "torchrun fit.py 'a b'"),
        (
            'FROM a\nENTRYPOINT ["torchrun", "fit.py"]\nCMD ["--lr", "1"]\n',
            "torchrun fit.py --lr 1",
        ),
        ("FROM a\nENTRYPOINT torchrun fit.py\nCMD x\n", "torchrun fit.py"),
        ('FROM a\nCMD ["bash", "-c", "torchrun fit.py && date"]\n', "torchrun fit.py && date"),
        ("FROM a\nCMD torchrun \\\n # comment\n  fit.py\n", "torchrun    fit.py"),
        ("FROM a\nCMD one\nCMD two\n", "two"),
        ("FROM a AS base\nCMD one\nFROM base\nENV A=1\n", "one"),
        ("FROM a AS base\nCMD one\nFROM b\n", None),
        ('FROM vllm/vllm-openai:v0.11.0\nCMD ["--model", "m"]\n', "vllm serve --model m"),
        ("FROM a\nRUN <<END\nCMD no\nEND\nCMD yes\n", "yes"),
        ("RUN torchrun fit.py\n", None),
        ("CMD [broken\n", "[broken"),
        ("", None),
    ],
)
def test_what_is_started(text: str, expected: str | None) -> None:
    assert started(text) == expected


def test_environment_of_the_stage_that_counts() -> None:
    text = 'FROM a AS one\nENV A=1 B="2 3"\nENV OLD style value\nFROM one\nENV A=4\nCMD x\n'
    image = dockerfile.read(text, AT)
    assert image is not None
    assert {n: v.value for n, v in image.environment.items()} == {
        "A": ("4",), "B": ("2 3",), "OLD": ("style value",),
    }  # fmt: skip
    assert image.environment["A"].place == Place("Dockerfile", 5)


@given(st.text(alphabet='FROMENVCMDPTIY \\\n[]",=<#a', max_size=300))
def test_any_text_is_read(text: str) -> None:
    dockerfile.read(text, AT)


def test_a_plan_of_an_image() -> None:
    text = """
        FROM vllm/vllm-openai:latest
        ENV CUDA_VISIBLE_DEVICES=0,1
        CMD ["--model", "m", "--tensor-parallel-size", "4"]
        """
    found = plan(configs={"Dockerfile": text.replace("        ", "")})
    assert found.programs == ()  # the helper gives configurations the kind of their ending
    from unstall.launch import read_plan
    from unstall.launch.texts import Config

    config = Config(AT, text.replace("        ", "").lstrip("\n"), "dockerfile")
    program = only(read_plan([], [config]))
    assert (program.software, program.devices, program.processes) == ("vllm", (0, 1), 4)
    assert [j.judgement for j in judgements(read_plan([], [config]), "tensor parallel size")] == [
        "conflict"
    ]


def checked(path: Path) -> dict[str, dict[str, object]]:
    """Each program's entry by its label."""
    found = json.loads(unstall("check", path, "--json").stdout)
    return {p["label"]: p for p in found["programs"]}


def test_a_dockerfile_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "Dockerfile.train"
    path.write_text("FROM a\nENV NCCL_DEBUG=WARN\nCMD torchrun --nproc_per_node 3 fit.py\n")
    program = checked(path)["trainer"]
    assert (program["processes"], program["environment"]) == (3, {"NCCL_DEBUG": "WARN"})


def test_a_services_environment_files(tmp_path: Path) -> None:
    (tmp_path / "gpu.env").write_text("# devices\nCUDA_VISIBLE_DEVICES='2,3'\nNCCL_DEBUG=INFO\n")
    (tmp_path / "compose.yaml").write_text(
        "services:\n  fit:\n    image: x\n    shm_size: 8g\n    env_file:\n      - gpu.env\n"
        "    environment:\n      NCCL_DEBUG: WARN\n"
        "    command: torchrun --nproc_per_node 2 fit.py\n"
    )
    program = checked(tmp_path / "compose.yaml")["trainer"]
    assert program["environment"] == {"CUDA_VISIBLE_DEVICES": "2,3", "NCCL_DEBUG": "WARN"}
    assert program["devices"] == [2, 3]


def test_variables_that_deepspeed_hands_to_other_nodes(tmp_path: Path) -> None:
    (tmp_path / "hostfile").write_text("w1 slots=4\nw2 slots=4\n")
    (tmp_path / ".deepspeed_env").write_text("TORCH_NCCL_TRACE_BUFFER_SIZE=900\n")
    script = tmp_path / "go.sh"
    script.write_text(
        "export NCCL_SOCKET_IFNAME=ib0 MAX_PIXELS=70\n"
        "deepspeed --hostfile hostfile fit.py --deepspeed zero2.json\n"
    )
    found = json.loads(unstall("check", script, tmp_path / "hostfile", "--json").stdout)
    (program,) = found["programs"]
    assert program["environment"] == {
        "NCCL_SOCKET_IFNAME": "ib0", "TORCH_NCCL_TRACE_BUFFER_SIZE": "900",
    }  # fmt: skip
    assert "MAX_PIXELS" in program["not_exported"]
    row = next(s for s in found["settings"] if s["name"] == "MAX_PIXELS")
    assert row["judgement"] == "no effect"


def test_a_script_beside_counts_only_where_it_is_called(tmp_path: Path) -> None:
    other = "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 b.py\n"
    (tmp_path / "other.sh").write_text(other)
    script = tmp_path / "go.sh"
    script.write_text("# see other.sh\nCUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 a.py\n")
    assert list(checked(script)) == ["trainer"]
    script.write_text("bash other.sh\nCUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 a.py\n")
    assert list(checked(script)) == ["trainer 1", "trainer 2"]


def test_a_manifest_under_another_name(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml-template"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n"
        "    command: [torchrun, --nproc_per_node=2, fit.py]\n"
    )
    assert checked(path)["trainer"]["processes"] == 2
