"""Dumps and logs together, as ``unstall diagnose --json`` tells them."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.recorder.generate import Op, Run, one_group, training

BINARY = "from unstall.commands import main; main()"
WRITTEN = "Finished writing Flight Recorder debug info to"


def diagnosed(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", BINARY, "diagnose", "--json", "--language", "en", str(folder)],
        capture_output=True, env={**os.environ, "NO_COLOR": "1"}, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def evidence(found: dict[str, Any], at: int = 0) -> str:
    return "\n".join(item["text"] for item in found["causes"][at]["evidence"])


def hung(world: int, absent: int, *, frame: str = "sync", shift: int = 0) -> dict[int, bytes]:
    """Dumps of a run in which a rank never entered a barrier; ``shift`` is in seconds."""
    run = Run(one_group(world), training(one_group(world), 4))
    for rank, program in run.programs.items():
        program[5:] = [] if rank == absent else [Op(0, "barrier", (), frame=frame)]
    run.simulate()
    dumps = {rank: run.dump(rank) for rank in run.programs}
    for dump in dumps.values():
        for entry in dump["entries"]:
            entry["time_created_ns"] += shift * 1_000_000_000
    return {rank: pickle.dumps(dump, 2) for rank, dump in dumps.items()}


def written(rank: int, path: str, second: int = 10) -> str:
    return (
        f"[rank{rank}]:[E1114 22:24:{second:02d}.104000256 FlightRecorder.cpp:63] "
        f"{WRITTEN} {path}\n"
    )


def timed_out(ranks: Iterable[int], seq: int, op: str = "BARRIER") -> str:
    return "".join(
        f"[rank{rank}]:[E1114 22:23:20.{10 + rank:03d}000256 ProcessGroupNCCL.cpp:685] "
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        f"OpType={op}, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 6000{10 + rank} "
        "milliseconds before timing out.\n"
        for rank in ranks
    )


def put(folder: Path, files: dict[str, bytes | str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def bare(content: bytes) -> bytes:
    """A dump that does not tell its members, as gloo's: the file's name is all there is."""
    dump = pickle.loads(content)
    dump["pg_config"] = {}
    return pickle.dumps(dump, 2)


def test_the_rank_that_the_log_tells_wins_over_the_file_name(tmp_path: Path) -> None:
    """Collected in another order: the file called 7 is of rank 2."""
    dumps = hung(4, 2)
    names = {0: "flight_4", 1: "flight_5", 2: "flight_7", 3: "flight_6"}
    log = "".join(written(rank, f"/var/fr/{name}") for rank, name in names.items())
    put(tmp_path, {name: bare(dumps[rank]) for rank, name in names.items()})
    untold = diagnosed(tmp_path)
    assert untold["origin"]["ranks"] == [7]
    put(tmp_path, {"train.log": timed_out((0, 1, 3), 6) + log})
    told = diagnosed(tmp_path)
    assert told["origin"]["ranks"] == [2]
    assert "flight_7 is the dump of rank 2 by the log" in evidence(told)


def test_two_programs_in_one_folder_are_told_apart_by_the_logs(tmp_path: Path) -> None:
    """Both are of two ranks, and the files are numbered through."""
    trainer, server = hung(2, 1), hung(2, 0)
    files: dict[str, bytes | str] = {
        "fr_0": bare(trainer[0]), "fr_1": bare(trainer[1]),
        "fr_2": bare(server[0]), "fr_3": bare(server[1]),
    }  # fmt: skip
    put(tmp_path / "dumps", files)
    log = "".join(written(rank, f"/var/fr_{rank}") for rank in (0, 1)) + "".join(
        f"(EngineCore_DP{rank} pid=48{rank}1) {written(rank, f'/var/fr_{rank + 2}')}"
        for rank in (0, 1)
    )
    put(tmp_path, {"job.log": log, "run.sh": SCRIPT})
    found = diagnosed(tmp_path)
    assert found["origin"]["program"] == "trainer"  # the other one by elimination
    assert found["origin"]["ranks"] == [1]
    assert found["waiting_ranks"] == [0]


SCRIPT = """\
CUDA_VISIBLE_DEVICES=2,3 vllm serve some/model --data-parallel-size 2 --port 8000 &
CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 --master_port 29611 train.py
"""


def test_programs_of_unlike_size_are_told_apart_by_their_members(tmp_path: Path) -> None:
    """Trainer of four, server of two: the script's sizes name whose failure it is."""
    trainer, server = hung(4, 3), hung(2, 2)
    put(tmp_path, {f"trainer_rank{r}": d for r, d in trainer.items()})
    put(tmp_path, {f"server_rank{r}": d for r, d in server.items()})
    script = SCRIPT.replace("--nproc_per_node 2", "--nproc_per_node 4")
    put(tmp_path, {"run.sh": script.replace("=0,1", "=0,1,4,5")})
    found = diagnosed(tmp_path)
    assert (found["origin"]["role"], found["origin"]["ranks"]) == ("trainer", [3])


RESTART = (
    "W1114 22:25:00.000000 900 site-packages/torch/distributed/elastic/agent/server/api.py:900] "
    "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
)


def test_dumps_of_an_earlier_attempt_do_not_speak_of_the_last_one(tmp_path: Path) -> None:
    """First rank 1 is missing, after the restart rank 3; each attempt wrote files of its own."""
    first, second = hung(4, 1), hung(4, 3, shift=600)
    log = timed_out((0, 2, 3), 6)
    log += "".join(written(rank, f"/var/a_{rank}") for rank in range(4)) + RESTART
    log += timed_out((0, 1, 2), 6).replace("22:23:", "22:44:")
    log += "".join(written(rank, f"/var/b_{rank}").replace("22:24:", "22:45:") for rank in range(4))
    put(tmp_path, {f"a_{rank}": dump for rank, dump in first.items()})
    put(tmp_path, {f"b_{rank}": dump for rank, dump in second.items()})
    put(tmp_path, {"train.log": log})
    found = diagnosed(tmp_path)
    assert found["origin"]["ranks"] == [3]
    assert "Rank 3 never entered" in evidence(found)
    assert "Rank 1 never entered" not in evidence(found)


def saves(rank: int) -> str:
    return f"[rank{rank}]: 2023-11-14 22:13:19 INFO Saving model checkpoint to /out/step-40\n"


def test_logs_and_dumps_that_agree_make_one_claim(tmp_path: Path) -> None:
    """The claim of a slow save has the words of the log and the entries of the dumps."""
    put(tmp_path, {"train.log": saves(1) + timed_out((0, 2, 3), 6)})
    alone = diagnosed(tmp_path)
    put(tmp_path, {f"trace_rank_{r}": d for r, d in hung(4, 1, frame="save_model").items()})
    both = diagnosed(tmp_path)
    assert both["causes"][0]["id"] == alone["causes"][0]["id"] == "slow-checkpoint-or-eval"
    assert [c["id"] for c in both["causes"]].count("slow-checkpoint-or-eval") == 1
    assert both["causes"][0]["confidence"] >= alone["causes"][0]["confidence"]
    assert both["origin"]["ranks"] == [1]
    text = evidence(both)
    assert "Rank 1 never entered barrier number 6" in text
    assert "The others wait in code that saves or evaluates." in text
    assert both["started_at"] == alone["started_at"]


def test_dumps_show_that_a_rank_is_missing_which_the_log_does_not_miss(tmp_path: Path) -> None:
    """Nothing in the log tells that the group has a rank 3; its own last words are of saving."""
    put(tmp_path, {"train.log": saves(3) + timed_out((0, 1, 2), 6)})
    assert diagnosed(tmp_path)["causes"][0]["id"] == "unknown"
    put(tmp_path, {f"trace_rank_{r}": d for r, d in hung(4, 3).items()})
    both = diagnosed(tmp_path)
    assert both["causes"][0]["id"] == "slow-checkpoint-or-eval"
    assert both["origin"]["ranks"] == [3]
    assert "The last thing that rank 3 said is" in evidence(both)


def test_dumps_that_contradict_the_log_lower_its_claim(tmp_path: Path) -> None:
    """The log lacks rank 1's time-out, but its dump shows that it waits; rank 3 is the one."""
    put(tmp_path, {"train.log": saves(1) + timed_out((0, 2), 6)})
    alone = diagnosed(tmp_path)
    assert alone["causes"][0]["id"] == "slow-checkpoint-or-eval"
    assert alone["origin"]["ranks"] == [1]
    put(tmp_path, {f"trace_rank_{r}": d for r, d in hung(4, 3).items()})
    both = diagnosed(tmp_path)
    before = alone["causes"][0]["confidence"]
    after = {c["id"]: c["confidence"] for c in both["causes"]}
    assert after.get("slow-checkpoint-or-eval", 0.0) < before - 0.1
