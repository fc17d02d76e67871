"""Scripts, configurations, commands and notes within a pasted text."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.model.facts import Place
from unstall.reading.regions import is_note, one_liner, regions
from unstall.reading.scanner import Kept, scan
from unstall.reading.sources import Source

CASES = Path(__file__).parents[1] / "cases"

MANGLED = """\
Training stops after some steps, see below:

[rank0]:[E110 01:02:03.000000001 ProcessGroupNCCL.cpp:685] [Rank 0] Watchdog caught it
Exception raised from checkTimeout at /pytorch/x.cpp:688 (most recent call first):

torch==2.6.0
trl==0.19.0

This is my script:
#!/usr/bin/env bash
Pick a free port
export SERVE_PORT=$(free_port)

第二步：启动推理
HF_HOME=/data/hf
CUDA_VISIBLE_DEVICES=2,3
trl vllm-serve
--model /data/m
--port $SERVE_PORT &
sleep 60

accelerate launch
--num_processes 2
grpo.py
--use_vllm true

Can anybody tell me what is wrong?
""".splitlines()


def test_a_mangled_script_keeps_its_lines_and_their_numbers() -> None:
    found = regions("issue.md", MANGLED)
    (script,) = found.scripts
    assert script.place == Place("issue.md", 10)
    assert script.text.split("\n") == MANGLED[9:25]
    assert script.text.split("\n")[-1] == "--use_vllm true"
    assert found.tongue.language == "en"
    assert found.configs == []


def test_numbers_go_on_from_where_the_text_begins() -> None:
    assert regions("x", MANGLED, first=101).scripts[0].place.line == 110


def test_a_log_and_packages_are_no_script() -> None:
    assert regions("x", MANGLED[:8]).scripts == []


def test_two_terminals_in_fences() -> None:
    text = """\
Terminal 1:
```bash
vllm serve /m/x -tp 2
```
Terminal 2:
```
export MASTER_PORT=29501
torchrun --nproc_per_node 2 t.py
```
config:
```yaml
num_processes: 2
```
and the log
```
INFO 11-07 02:31:02 [core.py:1] m
```"""
    found = regions("x", text.split("\n"))
    assert [(s.place.line, s.text) for s in found.scripts] == [
        (3, "vllm serve /m/x -tp 2"),
        (7, "export MASTER_PORT=29501\ntorchrun --nproc_per_node 2 t.py"),
    ]
    assert [(c.place.line, c.kind, c.text) for c in found.configs] == [
        (12, "yaml", "num_processes: 2")
    ]


def test_prompts_and_traces_come_off_scripts() -> None:
    text = ["$ export A=1", "$ vllm serve x --port 1", "", "+ torchrun --nnodes 2 a.py"]
    (script,) = regions("x", text).scripts
    assert script.text == "export A=1\nvllm serve x --port 1\n\ntorchrun --nnodes 2 a.py"


def test_commands_far_apart_are_scripts_of_their_own() -> None:
    prose = [f"some words about it, part {n}" for n in range(9)]
    text = ["vllm serve x --port 1", *prose, "torchrun --nnodes 2 a.py"]
    assert [s.place.line for s in regions("x", text).scripts] == [1, 11]


def test_a_script_that_an_editor_beautified() -> None:
    text = ["export NAME=“a b”", "他说“好”", "vllm serve $M", "—port 8000"]
    (script,) = regions("x", text).scripts
    assert script.text.split("\n") == [
        'export NAME="a b"',
        "他说“好”",
        "vllm serve $M",
        "--port 8000",
    ]


def test_a_printed_environment_is_no_script() -> None:
    text = ["env:", "CUDA_VISIBLE_DEVICES=0,1", "NCCL_DEBUG=INFO", "PATH=/usr/bin:/bin", "end"]
    assert regions("x", text).scripts == []
    text[2] = "export NCCL_DEBUG=INFO"
    assert [s.place.line for s in regions("x", text).scripts] == [2]


def test_a_log_ends_a_script_that_begins_with_its_interpreter() -> None:
    text = ["#!/bin/bash", "vllm serve x --port 1", "INFO 11-07 02:31:02 [core.py:1] m",
            "[rank0]:[E110 01:02:03.1 P.cpp:6] x", "export A=1"]  # fmt: skip
    assert [s.text for s in regions("x", text).scripts] == ["\n".join(text[:2])]


def test_configurations_without_fences() -> None:
    text = """\
my settings
{
  "zero_optimization": {"stage": 3},
  "bf16": {"enabled": true}
}
and
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_offload_params: false
num_processes: 8
Thanks"""
    found = regions("x", text.split("\n"))
    assert [(c.place.line, c.kind, c.text.count("\n") + 1) for c in found.configs] == [
        (2, "json", 4), (7, "yaml", 5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("I start it by `torchrun --nproc_per_node 8 t.py` on each node",
         "torchrun --nproc_per_node 8 t.py"),
        ("run sh: `/v/bin/python /v/swift/cli/rollout.py --port 8124`",
         "/v/bin/python /v/swift/cli/rollout.py --port 8124"),
        ("[2023-08-30 10:02:11,640] [INFO] [runner.py:555:main] cmd = /usr/bin/python3 -u -m "
         "deepspeed.launcher.launch --master_port=29500 train.py",
         "/usr/bin/python3 -u -m deepspeed.launcher.launch --master_port=29500 train.py"),
        ("+ torchrun --nnodes 2 a.py", "torchrun --nnodes 2 a.py"),
        ("启动命令：vllm serve /m -dp 2", "vllm serve /m -dp 2"),
        ("Command: NP=2 python train.py --a", "NP=2 python train.py --a"),
        ("`torch_dtype` is deprecated! Use `dtype` instead!", None),
        ("the command: it hangs", None),
        ("+ 3 more", None),
    ],
)  # fmt: skip
def test_commands_in_sentences_and_logs(line: str, command: str | None) -> None:
    assert one_liner(line) == command


def test_notes_in_a_log() -> None:
    text = ["INFO 11-07 02:31:02 [core.py:1] m", "# --- no more output for 3 h; all GPUs 0 % ---"]
    found = regions("run.log", text)
    assert [(r.topic, r.place.line) for r in found.remarks] == [("no-output", 2), ("gpu-idle", 2)]
    assert is_note(text[1])
    assert not is_note("# comment")


def test_the_founding_report_with_a_script() -> None:
    lines = (CASES / "f02-grpo-rollout-server/report.txt").read_text("utf-8").split("\n")
    found = regions("report.txt", lines)
    (script,) = found.scripts
    text = script.text.split("\n")
    first = lines.index("#!/bin/bash")
    last = lines.index("--padding_free true")
    assert script.place.line == first + 1
    assert text == lines[first : last + 1]
    assert found.tongue.language == "zh"
    assert {r.topic: r.values for r in found.remarks}["devices"]


def test_the_founding_report_without_one() -> None:
    lines = (CASES / "f00-vllm-illegal-access/report.txt").read_text("utf-8").split("\n")
    kept = Kept(1 << 20)
    list(scan(Source("report.txt", io.BytesIO("\n".join(lines).encode())), kept))
    assert len(kept.lines) == len(lines)
    found = regions("report.txt", kept.lines)
    assert (found.scripts, found.configs) == ([], [])
    assert found.tongue.language == "zh"


WORDS = st.sampled_from([
    "", "```", "```bash", "```json", "#!/bin/bash", "vllm serve x --port 1", "--tp 2", "export A=1",
    "prose and more prose", "[rank0]: x", "{", "}", '"bf16": 1', "a_key: 1", "num_processes: 2",
    "torch==2.0", "# --- no output for 3 h", "你好，训练卡住了", "`torchrun --a t.py`", "A=1", "\\",
])  # fmt: skip


@settings(deadline=None)
@given(st.lists(WORDS | st.text(max_size=20), max_size=60))
def test_regions_of_any_text_lie_in_it(lines: list[str]) -> None:
    lines = [line.replace("\n", " ").replace("\r", " ") for line in lines]
    found = regions("x", lines)
    for part in [*found.scripts, *found.configs]:
        assert part.place.line >= 1
        assert part.place.line + part.text.count("\n") <= len(lines)
