"""The evidence of one attempt, gathered as a user would who knows how."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from unstall.model.secrets import redacted
from unstall.processes import evidence, recorder_names, states
from unstall.processes.evidence import DUMP_NAME

#: Variables that matter to a launch; others stay private.
_RELEVANT = re.compile(
    r"^(?:MASTER_ADDR|MASTER_PORT|NODE_RANK|WORLD_SIZE|RANK|LOCAL_RANK|NNODES|NPROC_PER_NODE"
    r"|CUDA_VISIBLE_DEVICES|ASCEND_RT_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|OMP_NUM_THREADS"
    r"|(?:NCCL|TORCH|GLOO|HCCL|VLLM|SGLANG|DEEPSPEED|ACCELERATE|FSDP|PYTORCH)_[A-Z0-9_]{1,60}"
    r"|SLURM_(?:JOB_ID|NNODES|NODEID|NTASKS|PROCID|LOCALID|JOB_NODELIST))$"
)
#: Bytes of a launch script that are kept.
_SCRIPT = 1 << 20
#: Entries of the Flight Recorder.
_ENTRIES = 2000


def variables(state: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Variables that let a job be asked for its state; those that are set already stay.

    Python prints line by line (a step that waits in a buffer cannot be seen), and PyTorch keeps its
    Flight Recorder, writes it at a time-out and when it is asked through a pipe
    (``ProcessGroupNCCL.hpp``, ``DumpPipe``: ``TORCH_NCCL_DEBUG_INFO_PIPE_FILE``, a rank and
    ``.pipe``; torch 2.2 and later).

    Args:
        state: folder for pipes and dumps.
        given: the environment.
    """
    wanted = {
        **recorder_names.variables(
            _ENTRIES, str(state / DUMP_NAME), recorder_names.torch_on_the_path(), given
        ),
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(state / "pipe_"),
        "PYTHONUNBUFFERED": "1",
    }
    return {name: value for name, value in wanted.items() if name not in given}


def command(words: Sequence[str], environment: Mapping[str, str], place: Path) -> None:
    """Write what was started, as a script that a diagnosis reads; a bash script it names as well.

    Secrets are hidden.
    """
    lines = ["#!/bin/bash"]
    lines += [
        f"export {name}={shlex.quote(value)}"
        for name, value in sorted(environment.items())
        if _RELEVANT.match(name)
    ]
    lines.append(shlex.join(words))
    (place / "command.sh").write_text(redacted("\n".join(lines) + "\n"), encoding="utf-8")
    for word in words[:3]:
        script = Path(word)
        with contextlib.suppress(OSError):
            if script.suffix in (".sh", ".bash", ".slurm", ".sbatch") and script.is_file():
                text = script.read_bytes()[:_SCRIPT].decode("utf-8", "replace")
                (place / script.name).write_text(redacted(text), encoding="utf-8")


def ask_for_dumps(state: Path) -> list[int]:
    """Ask every rank of this machine for its Flight Recorder dump; the ranks that were asked."""
    asked = []
    for pipe in state.glob("pipe_*.pipe"):
        rank = pipe.name.removeprefix("pipe_").removesuffix(".pipe")
        if rank.isdigit() and evidence.ask(pipe):
            asked.append(int(rank))
    return sorted(asked)


def dumps(state: Path, place: Path, asked: Sequence[int] = (), seconds: float = 15.0) -> int:
    """Collect the dumps, also those that a watchdog wrote by itself; how many there are.

    Args:
        state: where the processes write them.
        place: folder of the evidence; they go into ``dumps``.
        asked: ranks that were asked for theirs.
        seconds: how long to wait for the slowest of these.
    """
    end = time.monotonic() + seconds
    sizes: dict[str, int] = {}
    while time.monotonic() < end:
        before, sizes = sizes, {one.name: one.stat().st_size for one in _dumps(state)}
        there = all(f"{DUMP_NAME}{rank}" in sizes for rank in asked)
        if there and sizes == before:
            break
        time.sleep(0.5)
    found = _dumps(state)
    if found:
        (place / "dumps").mkdir(exist_ok=True)
    for one in found:
        shutil.copyfile(one, place / "dumps" / one.name)
    return len(found)


def _dumps(state: Path) -> list[Path]:
    return sorted(one for one in state.glob(f"{DUMP_NAME}*") if one.is_file())


def machine(pids: Sequence[int], place: Path) -> None:
    """Write what the machine says of processes and devices, where that tells anything."""
    states.process_list(pids, place / "processes.txt")
    tool = shutil.which("nvidia-smi")
    if tool is not None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [tool], capture_output=True, text=True, errors="replace", timeout=20, check=False
            )
            if done.returncode == 0:
                (place / "nvidia-smi.txt").write_text(done.stdout, encoding="utf-8")
