"""The time line is valid and says when, where and how long."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.recorder.generate import START, Run, grid, training
from unstall.recorder.perfetto import write_timeline


def timeline(target: Path, files: dict[str, bytes]) -> list[dict[str, Any]]:
    write_timeline(list(files.items()), target)
    data = target.read_bytes()
    return json.loads(gzip.decompress(data) if target.suffix == ".gz" else data)["traceEvents"]


def test_one_process_for_each_rank_and_one_track_for_each_group(tmp_path: Path) -> None:
    run = Run(grid(2, 2), training(grid(2, 2), 2))
    run.programs[3] = run.programs[3][:4]
    files = run.simulate().files()
    files["broken_9"] = b"nothing"
    events = timeline(tmp_path / "t.json.gz", files)
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(names.values()) == ["rank 0", "rank 1", "rank 2", "rank 3"]
    labels = [e for e in events if e["name"] == "thread_name"]
    tracks = {e["args"]["name"] for e in labels if names[e["pid"]] == "rank 3"}
    assert tracks == {"default_pg (0)", "tensor (2)", "data (4)"}
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == sum(len(record) for record in run.record.values())


def test_ended_operations_last_as_recorded_and_others_to_the_end(tmp_path: Path) -> None:
    run = Run(grid(1, 2)[:1], {0: training(grid(1, 2)[:1], 1)[0], 1: []}).simulate()
    (first, second) = (e for e in timeline(tmp_path / "t.json", run.files()) if e["ph"] == "X")
    assert (first["name"], first["args"]["state"]) == ("all_reduce", "unfinished")
    assert first["ts"] == (START + 1_000_000) / 1000
    # the newest entry is 1 ms later; what never ended lasts until a second after it
    assert first["dur"] == 1_001_000
    assert first["args"]["frame 1"] == "log_loss /home/user/train.py:8"
    assert second["dur"] == 1_000_000
