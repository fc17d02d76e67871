from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import unstall
from unstall.guard import keep

# What PyTorch does (ProcessGroupNCCL.hpp, DumpPipe; HeartbeatMonitor): a pipe that is read without
# blocking, and a dump for whatever comes through it.
RANK = """
import os, sys, time
state, rank, answers = sys.argv[1:]
pipe = f"{state}/pipe_{rank}.pipe"
os.mkfifo(pipe)
descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
print("ready", flush=True)
while True:
    try:
        if os.read(descriptor, 128) and answers == "yes":
            open(f"{state}/nccl_trace_rank_{rank}", "wb").write(b"dump of " + rank.encode())
    except BlockingIOError:
        pass
    time.sleep(0.05)
"""


@pytest.fixture
def rank():
    started = []

    def start(state: Path, number: int, answers: str = "yes") -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", RANK, str(state), str(number), answers], stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield start
    for one in started:
        one.kill()
        one.wait()


def test_ranks_are_asked_through_their_pipes(tmp_path, rank):
    state, place = tmp_path / "state", tmp_path / "place"
    state.mkdir()
    place.mkdir()
    rank(state, 0)
    rank(state, 11)
    (state / "pipe_no.pipe").write_text("")
    (state / "pipe_4.pipe").write_text("")  # a file, not a pipe
    asked = keep.ask_for_dumps(state)
    assert asked == [0, 11]
    assert keep.dumps(state, place, asked) == 2
    assert (place / "dumps" / "nccl_trace_rank_11").read_bytes() == b"dump of 11"


def test_a_rank_that_does_not_answer_costs_a_bounded_time(tmp_path, rank):
    state, place = tmp_path / "state", tmp_path / "place"
    state.mkdir()
    place.mkdir()
    rank(state, 0)
    rank(state, 1, "no")
    gone = rank(state, 2)
    gone.kill()
    gone.wait()
    asked = keep.ask_for_dumps(state)
    assert asked == [0, 1]
    before = time.monotonic()
    assert keep.dumps(state, place, asked, 2.0) == 1
    assert time.monotonic() - before >= 2.0


def test_without_dumps_no_folder(tmp_path):
    assert keep.dumps(tmp_path, tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_what_is_set_already_stays(tmp_path):
    added = keep.variables(tmp_path, {"TORCH_NCCL_DUMP_ON_TIMEOUT": "0", "PYTHONUNBUFFERED": ""})
    assert added["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] == f"{tmp_path}/pipe_"
    assert "TORCH_NCCL_DUMP_ON_TIMEOUT" not in added
    assert "PYTHONUNBUFFERED" not in added
    own = {"TORCH_FR_BUFFER_SIZE": "7"}
    assert not set(keep.variables(tmp_path, own)) & {
        "TORCH_FR_BUFFER_SIZE",
        "TORCH_NCCL_TRACE_BUFFER_SIZE",
    }


def test_the_command_is_a_script_that_a_diagnosis_reads(tmp_path):
    keep.command(
        ["torchrun", "--nproc-per-node", "4", "train.py", "--name", "a b"],
        {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "MASTER_PORT": "29511", "HOME": "/home/somebody"},
        tmp_path,
    )
    text = (tmp_path / "command.sh").read_text()
    assert "'a b'" in text
    assert "somebody" not in text
    (program,) = unstall.diagnose([tmp_path]).plan.programs
    assert (program.processes, program.devices) == (4, (0, 1, 2, 3))
    assert program.environment["MASTER_PORT"].text == "29511"


def test_secrets_are_hidden_and_the_script_that_is_named_is_kept(tmp_path):
    script = tmp_path / "launch.sh"
    script.write_text("export API_KEY=sk-aaaaaaaaaaaaaaaaaaaaaaaa\ntorchrun train.py\n")
    place = tmp_path / "place"
    place.mkdir()
    keep.command(
        ["bash", str(script), "--hub-token", "hf_abcdefghijklmnopqrstuvwxyz012345"], {}, place
    )
    command, kept = (place / "command.sh").read_text(), (place / "launch.sh").read_text()
    assert "hf_abcdef" not in command
    assert "sk-aaaa" not in kept
    assert "torchrun train.py" in kept
