"""``unstall run`` as users call it: processes, signals, streams and checkpoints are real."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.commands.running import unstall
from unstall.processes import tree

pytest.importorskip("psutil")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes as POSIX has them")

TRAIN = """
import argparse, os, time
import torch, torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--resume")
parser.add_argument("--stop-at", type=int, default=0)
args = parser.parse_args()
dist.init_process_group("gloo")
rank, start = dist.get_rank(), 0
if args.resume:
    start = torch.load(args.resume)["step"]
    print(f"rank {rank} goes on from {args.resume}", flush=True)


def next_sample(step):
    if rank == 1 and step == args.stop_at and not args.resume:
        os.read(os.pipe()[0], 1)  # nobody ever writes
    return torch.ones(4) * step


for step in range(start + 1, 31):
    sample = next_sample(step)
    dist.all_reduce(sample)
    time.sleep(0.1)
    if rank == 0:
        print(f"step {step} loss {1 / step:.4f}")
        if step % 4 == 0:
            torch.save({"step": step}, f"part-{step}")
            os.replace(f"part-{step}", f"ckpt-{step}.pt")
            os.utime(f"ckpt-{step}.pt", (1.7e9, 1.7e9))  # long ago: it is whole
dist.barrier()
os._exit(0)
"""


def call(*words: str, cwd: Path, **more: object) -> subprocess.Popen[bytes]:
    code = "from unstall.commands import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "run", *words],
        cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more,  # type: ignore[call-overload]
    )  # fmt: skip


def test_a_job_that_ends_well_is_as_without(tmp_path: Path) -> None:
    done = unstall(
        "run", "--", "bash", "-c", "printf 'a\\xff'; echo b >&2; printf 'c'; exit 0", cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a\xffc", b"b\n")
    assert list(tmp_path.iterdir()) == []


def test_its_own_options_are_the_commands(tmp_path: Path) -> None:
    done = unstall("run", "printf", "%s ", "--stall", "-o", "--help", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"--stall -o --help ")


@pytest.mark.parametrize(("line", "status"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_a_failure_keeps_its_evidence_and_its_exit_status(
    tmp_path: Path, line: str, status: int
) -> None:
    line = f"echo 'Traceback (most recent call last):' >&2; {line}"
    done = unstall("run", "-o", "kept", "--", "bash", "-c", line, cwd=tmp_path)
    assert done.returncode == status
    assert b"unstall: the job failed" in done.stderr
    end = tmp_path / "kept" / "attempt-1" / "end"
    assert (end / "run.log").read_text().startswith("Traceback")
    assert "bash -c" in (end / "command.sh").read_text()
    told = json.loads((tmp_path / "kept" / "result.json").read_text())
    (one,) = told["attempts"]
    assert (one["outcome"], one["first_step"]) == ("failed", None)


def test_a_traceback_is_diagnosed(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def load():\n    raise KeyError('image')\n\nload()\n")
    done = unstall("run", "--", sys.executable, "own.py", cwd=tmp_path)
    assert done.returncode == 1
    assert b"python-exception" in done.stderr
    assert b"KeyError" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--", "no-such-command-here"], 127, b"no such command"),
        (["--", "./"], 126, b"is a folder"),
        (["--", ""], 127, b"no such command"),
        ([], 2, b"COMMAND"),
        (["--stall", "0", "--", "true"], 2, b"--stall"),
        (["--grace", "-1", "--", "true"], 2, b"--grace"),
        (["--stall", "nan", "--", "true"], 2, b"--stall"),
        (["--resume-with", "--from {checkpoint}", "--", "true"], 2, b"--restarts"),
        (["--checkpoints", "out/*", "--", "true"], 2, b"--restarts"),
        (
            ["--restarts", "1", "--resume-with", "--from {checkpoint}", "--", "true"],
            2,
            b"--checkpoints",
        ),
        (["--restarts", "1", "--resume-with", "--from 'x", "--", "true"], 2, b"quotation"),
        (
            ["--restarts", "1", "--resume-with", "--go-on", "--", "bash", "-c", "train.py"],
            2,
            b"UNSTALL_CHECKPOINT",
        ),
    ],
)
def test_calls_that_are_wrong(tmp_path: Path, words: list[str], status: int, said: bytes) -> None:
    done = unstall("run", *words, cwd=tmp_path)
    assert (done.returncode, said in done.stderr) == (status, True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("")
    done = unstall("run", "-o", "kept", "--", "touch", "started", cwd=tmp_path)
    assert done.returncode == 2
    assert b"not empty" in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("sent", "line", "status", "printed"),
    [
        ([signal.SIGTERM], "trap 'echo saved; exit 3' TERM; echo up; sleep 60 & wait", 3, b"saved"),
        ([signal.SIGINT], "echo up; sleep 60", 130, b""),
        ([signal.SIGTERM, signal.SIGTERM], "trap '' TERM; echo up; sleep 60", 137, b""),
        ([signal.SIGHUP], "trap 'exit 5' HUP; echo up; sleep 60 & wait", 5, b""),
    ],
)
def test_a_signal_is_the_jobs(
    tmp_path: Path, sent: list[signal.Signals], line: str, status: int, printed: bytes
) -> None:
    process = call("--grace", "30", "--restarts", "3", "--", "bash", "-c", line, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    for one in sent:
        process.send_signal(one)
        time.sleep(0.5)
    out, error = process.communicate(timeout=60)
    assert process.returncode == status
    assert printed in out
    assert b"restart" not in error


def test_slurms_warning_is_handed_on_and_ends_nothing(tmp_path: Path) -> None:
    line = "trap 'echo warned' USR1; echo up; for i in 1 2 3 4; do sleep 0.5; done; echo end"
    process = call("--", "bash", "-c", line, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGUSR1)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"warned" in out
    assert out.endswith(b"end\n")


def test_nothing_outlives_a_guard_that_is_killed(tmp_path: Path) -> None:
    process = call("--", "bash", "-c", "setsid sleep 300 & echo $!; wait", cwd=tmp_path)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=60)
    end = time.monotonic() + 60
    while tree.alive(pid) and time.monotonic() < end:  # a zombie, until somebody buries it, is not
        time.sleep(0.1)
    assert not tree.alive(pid)


def test_a_reader_that_goes_away_does_not_end_the_job(tmp_path: Path) -> None:
    line = "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.2; done; touch done"
    process = call("--", "bash", "-c", line, cwd=tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 0
    assert (tmp_path / "done").exists()


def test_nobody_hears_what_is_told_and_all_goes_its_way(tmp_path: Path) -> None:
    line = "echo up; sleep 1; touch ran-$UNSTALL_ATTEMPT; exit 3"
    words = ("-o", "kept", "--restarts", "1", "--", "bash", "-c", line)
    process = call(*words, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    process.stderr.close()
    assert process.wait(60) == 3
    assert {one.name for one in tmp_path.iterdir()} == {"kept", "ran-1", "ran-2"}
    assert (tmp_path / "kept" / "attempt-2" / "end" / "run.log").read_text() == "up\n"


def test_what_is_told_begins_on_a_line_of_its_own(tmp_path: Path) -> None:
    process = call("--", "bash", "-c", "printf abc; exit 3", cwd=tmp_path)
    assert b"abc" not in process.communicate(timeout=60)[1]
    code = "from unstall.commands import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--", "bash", "-c", "printf abc; exit 3"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.startswith(b"abc\nunstall: the job failed (3)")


def test_a_silent_job_that_works_is_let_be(tmp_path: Path) -> None:
    work = "import time\nprint('step 1', flush=True)\nend = time.time() + 12\n"
    work += "while time.time() < end:\n    sum(range(1000))\nprint('step 2')\n"
    (tmp_path / "own.py").write_text(work)
    words = ["--stall", "2", "--on-stall", "stop", "--", sys.executable, "own.py"]
    done = unstall("run", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"step 1\nstep 2\n")


def test_a_job_whose_output_nobody_reads_is_let_be(tmp_path: Path) -> None:
    work = (
        "import time\nfor step in range(400):\n    print(f'step {step}', 'x' * 900, flush=True)\n"
    )
    (tmp_path / "own.py").write_text(work + "    time.sleep(0.005)\n")
    words = ["--stall", "1", "--on-stall", "stop", "--", sys.executable, "own.py"]
    process = call(*words, cwd=tmp_path)
    time.sleep(12)  # two pipes hold much less than it prints
    assert process.poll() is None
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out.count(b"\n")) == (0, 400)
    assert b"nobody takes the job's output" in error


@pytest.fixture
def script(tmp_path: Path) -> Path:
    if not find_spec("torch"):  # not imported: that takes seconds
        pytest.skip("torch is not installed")
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


LATE = """
import os, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")


def save():
    target = os.open("checkpoint", os.O_CREAT | os.O_WRONLY)
    for _ in range(60):  # slowly, and with next to no time on a processor
        os.write(target, bytes(1 << 17))
        time.sleep(0.2)


for step in range(1, 7):
    dist.all_reduce(torch.ones(4))
    if dist.get_rank() == 0:
        print(f"step {step} loss 1.0")
        if step == 4:
            save()
dist.barrier()
os._exit(0)
"""


def test_a_rank_that_saves_while_the_others_wait_is_late_and_not_stuck(script: Path) -> None:
    (script / "train.py").write_text(LATE)
    done = unstall("run", "--stall", "2", "--on-stall", "stop", *START, cwd=script)
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert "rank 0 still at work (save (train.py:" in said
    assert "evidence" not in said
    assert b"step 6" in done.stdout


START = ["--", "torchrun", "--standalone", "--nproc-per-node", "2", "train.py"]


def test_a_stall_is_seen_its_evidence_kept_and_the_job_goes_on_from_a_checkpoint(
    script: Path,
) -> None:
    done = unstall(
        "run", "--stall", "2", "--restarts", "2", "--checkpoints", "ckpt-*.pt",
        "--resume-with", "--resume {checkpoint}", "-o", "kept", *START, "--stop-at", "10",
        cwd=script,
    )  # fmt: skip
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert "unstall: no progress for" in said
    assert "after step 9" in said
    assert "rank 0 in a collective; rank 1 elsewhere" in said
    assert "restart 1 of 2, from ckpt-8.pt" in said
    # torchrun's ranks print without buffers, so that two may share a line
    out = done.stdout.decode()
    assert sorted(re.findall(r"rank \d goes on from ckpt-8\.pt", out)) == [
        "rank 0 goes on from ckpt-8.pt",
        "rank 1 goes on from ckpt-8.pt",
    ]
    steps = [int(step) for step in re.findall(r"^step (\d+)", out, re.MULTILINE)]
    assert steps == [*range(1, 10), *range(9, 31)]
    first, second = json.loads((script / "kept" / "result.json").read_text())["attempts"]
    assert (first["outcome"], first["step"], second["outcome"]) == ("stalled", 9, "finished")
    (stall,) = first["stalls"]
    assert stall["kind"] == "stuck"
    place = Path(stall["folder"])
    assert {one.name for one in place.iterdir()} >= {
        "command.sh", "run.log", "stacks-1.txt", "stacks-2.txt"
    }  # fmt: skip
    diagnosed = json.loads(unstall("diagnose", "--json", place).stdout)
    assert diagnosed["origin"]["ranks"] == [1]
    assert "next_sample" in diagnosed["causes"][0]["summary"]


def test_a_stall_is_only_reported_unless_asked_otherwise(script: Path) -> None:
    process = call("--stall", "3", "-o", "kept", *START, "--stop-at", "4", cwd=script)
    stall = script / "kept" / "attempt-1" / "stall-1" / "command.sh"
    end = time.monotonic() + 120
    while not stall.exists() and time.monotonic() < end:
        time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=90)
    assert b"no progress for" in error
    assert process.returncode not in (0, 124)
