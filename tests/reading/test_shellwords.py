"""Which lines are shell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.shellwords import (
    is_assignment,
    is_command,
    is_flag,
    is_launch,
    straight,
    without_prompt,
)


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --nproc_per_node 8 train.py",
        "python -m torch.distributed.run --nproc-per-node=8 train.py",
        "python3 -u train.py",
        "/opt/venv/bin/python3.11 grpo.py",
        "CUDA_VISIBLE_DEVICES=6,7 MASTER_PORT=$(get_free_port) swift rollout --model /m",
        'export A="b c" NCCL_DEBUG=INFO accelerate launch --config_file a.yaml train.py',
        "nohup deepspeed --include localhost:0,1 train.py > log 2>&1 &",
        "numactl --cpunodebind=0 python train.py",
        "srun --ntasks=16 --kill-on-bad-exit=1 bash run.sh",
        "vllm serve /models/x -dp 2 --port 8000",
        "trl vllm-serve --model x",
        "docker run --gpus all img \\",
        "bash scripts/run_grpo.sh",
        'MODEL=${MODEL:-/m/x} OUT=$ROOT/"a b"/c XLA_FLAGS=--a=b python train.py',
        "ray job submit --address=http://127.0.0.1:8265 -- python3 -m verl.trainer.main_ppo \\",
        "  PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' torchrun train.py",
    ],
)
def test_launches(line: str) -> None:
    assert is_launch(line)


def test_a_bare_program_is_a_launch_if_options_follow() -> None:
    assert is_launch("swift rollout", "--model /m")
    assert is_launch("vllm serve $MODEL")
    assert not is_launch("swift rollout", "is what I use")
    assert not is_launch("vllm serve hangs after an hour", "and then it dies")
    assert not is_launch("deepspeed and accelerate both hang", "")


@pytest.mark.parametrize(
    "line",
    [
        "I run torchrun with 8 processes",
        "python is slow",
        "the trainer.py hangs",
        "srun: error: node01: task 3: Aborted (core dumped)",
        "deepspeed",
        "[2023-08-30 10:02:11,640] [INFO] [runner.py:555:main] cmd = x",
        "docker image of mine",
    ],
)
def test_sentences_and_logs_launch_nothing(line: str) -> None:
    assert not is_launch(line)


@pytest.mark.parametrize(
    "line",
    [
        "export PORT=$(get_free_port)", 'echo "Waiting for vLLM to start..."', "sleep 120", "fi",
        "for i in 0 1 2; do", "while ! curl -s localhost:8000/health; do", "wait", "wait $PID",
        "set -euo pipefail", "source /opt/venv/bin/activate", "get_free_port() {", "}", "cd /work",
        "pip install -r requirements.txt", "#SBATCH --nodes=2", "ulimit -n 65535", "#!/bin/bash",
        "if [ -z \"$X\" ]; then", "python3 -c 'import socket'", "module load cuda/12.4",
    ],
)  # fmt: skip
def test_commands(line: str) -> None:
    assert is_command(line)


@pytest.mark.parametrize(
    "line",
    [
        "Install dependencies", "Set W&B project and run name", "echo of the past", "wait for it",
        "for me it works", "if you need more, ask", "sleep is good", "Export your model first", "",
    ],
)  # fmt: skip
def test_sentences_are_no_commands(line: str) -> None:
    assert not is_command(line)


def test_assignments() -> None:
    for line in ("CUDA_VISIBLE_DEVICES=0,1,2", "MASTER_PORT=$(echo $P | cut -d ',' -f 1)",
                 "a=b c=d",
                 "PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'", "model_path=/m/x  # note",
                 'NAME="a b" \\'):  # fmt: skip
        assert is_assignment(line), line
    for line in ("torch==2.8.0", "lr=1e-5, wd=0.1", "model = x", "WORLD_SIZE=8, and so on.",
                 "f(x=1)", "x"):  # fmt: skip
        assert not is_assignment(line), line


def test_flags_and_overrides() -> None:
    for line in ("--model /m", "  --deepspeed zero3 \\", "-dp 2", "--bf16", "+actor.lr=1e-6",
                 "data.train_files=/d/x.parquet", "    trainer.n_gpus_per_node=8 \\"):  # fmt: skip
        assert is_flag(line), line
    for line in ("--- 自动寻找一个空闲端口 ---", "- a bullet", "--port is the HTTP port", "---",
                 "x.y = 3",
                 "torch.x==2", "a -b"):  # fmt: skip
        assert not is_flag(line), line


def test_prompts() -> None:
    for line in ("$ vllm serve x", "+ vllm serve x", "++ vllm serve x", "me@box:~/a$ vllm serve x",
                 "(base) root@n-1:/w# vllm serve x", "[me@box w]$ vllm serve x"):  # fmt: skip
        assert without_prompt(line) == "vllm serve x", line
    assert without_prompt("$X costs") == "$X costs"


def test_typographic_dashes_and_quotes() -> None:
    assert straight("—model /m –port 1 “a b” —— it’s") == '--model /m --port 1 "a b" —— it\'s'
    assert straight("––tp 2") == "--tp 2"
    assert straight("--a b") == "--a b"


@given(st.text(alphabet="AB_=$()'\" x-./\\py1,[]{}", max_size=400))
def test_any_line_is_judged(line: str) -> None:
    for judge in (is_launch, is_command, is_assignment, is_flag):
        assert judge(line) in (True, False)
    assert line.endswith(without_prompt(line))


def test_a_launch_behind_settings_on_the_same_line() -> None:
    """What people type at a prompt: exports or a cd, then the command."""
    assert is_launch("export NCCL_DEBUG=INFO; python3 -m pkg.train --steps 3")
    assert is_launch("cd /srv/run && torchrun --nproc_per_node=4 train.py")
    assert not is_launch("export NCCL_DEBUG=INFO; echo done")
    assert not is_launch("cd there; it hangs with torchrun for me")
