"""Two samples of a job's stacks, written as py-spy writes them, and what they show."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unstall.guard.look import Look, Sample, compare, look, read_sample
from unstall.guard.signs import BYTES, MACHINE, Sign, Signs
from unstall.guard.tcp import Traffic

COLLECTIVE = """    all_reduce (torch/distributed/distributed_c10d.py:2806)
    wrapper (torch/distributed/c10d_logger.py:81)
    train (run_it.py:{line})
    <module> (run_it.py:90)"""
WORK = """    tokenize (corpus.py:{line})
    train (run_it.py:40)
    <module> (run_it.py:90)"""
LAUNCHER = """    poll (multiprocessing/popen_fork.py:27)
    _invoke_run (torch/distributed/elastic/agent/server/api.py:{line})
    run (torch/distributed/run.py:883)
    <module> (torchrun:8)"""


def one(pid: int, rank: int | None, frames: str, line: int = 1, state: str = "idle") -> str:
    heading = f"##### rank {rank}, pid {pid}\n" if rank is not None else ""
    command = "python -u run_it.py" if rank is not None else "python /opt/bin/torchrun run_it.py"
    return (
        f"{heading}Process {pid}: {command}\nPython v3.11.7 (/opt/bin/python3.11)\n\n"
        f'Thread {pid} ({state}): "MainThread"\n{frames.format(line=line)}\n'
    )


def sampled(
    folder: Path,
    *texts: str,
    at: float = 0,
    traffic: Traffic | None = None,
    devices: int = 0,
    fabric: int = 0,
    unread: frozenset[int] = frozenset(),
    **about: dict[int, object],
) -> Sample:
    path = folder / "stacks.txt"
    path.write_text("\n".join(texts))
    found = read_sample(path, Signs(at=at))
    pids = {*found.stacks, *unread, *(pid for one in about.values() for pid in one)}
    each = {
        pid: Sign(born=1, **{name: of[pid] for name, of in about.items() if pid in of})  # type: ignore[arg-type]
        for pid in pids
    }
    signs = Signs(
        at=at, processes=each, traffic=traffic or Traffic(), devices=devices, fabric=fabric
    )
    return Sample(found.stacks, found.facts, signs, found.pythons | unread)


def test_one_waits_and_the_other_does_not_move(tmp_path: Path) -> None:
    texts = (one(11, 0, COLLECTIVE), one(12, 1, WORK, 7), one(13, 2, COLLECTIVE))
    found = compare(sampled(tmp_path, *texts), sampled(tmp_path, *texts, at=3))
    assert found.kind == "stuck"
    said = found.said.render()
    assert "ranks 0, 2 in a collective" in said
    assert "rank 1 elsewhere" in said
    assert "tokenize (corpus.py:7)" in said


def test_all_wait(tmp_path: Path) -> None:
    texts = (one(11, 0, COLLECTIVE), one(12, 1, COLLECTIVE, 3))
    found = compare(sampled(tmp_path, *texts), sampled(tmp_path, *texts, at=3))
    assert (found.kind, "all of ranks 0, 1" in found.said.render()) == ("stuck", True)


def test_whom_they_wait_for_is_at_work(tmp_path: Path) -> None:
    before = sampled(tmp_path, one(11, 0, COLLECTIVE), one(12, 1, WORK, 7))
    after = sampled(tmp_path, one(11, 0, COLLECTIVE), one(12, 1, WORK, 9), at=3, cpu={12: 2.0})
    found = compare(before, after)
    assert found.kind == "late"
    assert "rank 1 still at work (tokenize (corpus.py:9))" in found.said.render()


def test_the_same_frames_and_a_busy_processor(tmp_path: Path) -> None:
    texts = (one(11, 0, COLLECTIVE), one(12, 1, WORK, 7))
    before = sampled(tmp_path, *texts, cpu={11: 5.0, 12: 5.0})
    assert compare(before, sampled(tmp_path, *texts, cpu={11: 5.0, 12: 7.5}, at=3)).kind == "late"
    # a library that spins while it waits is not at work
    assert compare(before, sampled(tmp_path, *texts, cpu={11: 8.0, 12: 5.1}, at=3)).kind == "stuck"


def test_the_waiting_ones_moved_on(tmp_path: Path) -> None:
    before = sampled(tmp_path, one(11, 0, COLLECTIVE, 4), one(12, 1, COLLECTIVE, 4))
    after = sampled(tmp_path, one(11, 0, COLLECTIVE, 5), one(12, 1, COLLECTIVE, 4), at=3)
    assert compare(before, after).kind == "moving"


def test_a_launcher_that_looks_around_does_no_work(tmp_path: Path) -> None:
    ranks = (one(11, 0, COLLECTIVE), one(12, 1, WORK, 7))
    before = sampled(tmp_path, one(10, None, LAUNCHER, 1), *ranks)
    after = sampled(tmp_path, one(10, None, LAUNCHER, 2), *ranks, at=3)
    assert compare(before, after).kind == "stuck"


def test_nobody_in_a_collective(tmp_path: Path) -> None:
    texts = (one(11, 0, WORK, 5), one(12, 1, WORK, 5))
    before = sampled(tmp_path, *texts)
    assert compare(before, sampled(tmp_path, *texts, at=3)).kind == "still"
    moved = sampled(tmp_path, texts[0], one(12, 1, WORK, 6), at=3, cpu={12: 1.0})
    assert compare(before, moved).kind == "moving"


def test_a_process_that_was_not_there_before(tmp_path: Path) -> None:
    before = sampled(tmp_path, one(11, 0, COLLECTIVE))
    after = sampled(tmp_path, one(11, 0, COLLECTIVE), one(12, 1, WORK), at=3)
    assert compare(before, after).kind == "late"


def test_no_stacks() -> None:
    nothing = Sample({}, (), Signs(at=0.0))
    assert compare(nothing, nothing).kind == "unseen"


def waits_for(folder: Path, before: dict[str, object], after: dict[str, object]) -> str:
    """The kind of a look at rank 0 in a collective and rank 1 in one line elsewhere."""
    texts = (one(11, 0, COLLECTIVE), one(12, 1, WORK, 7))
    first = sampled(folder, *texts, **before)  # type: ignore[arg-type]
    return compare(first, sampled(folder, *texts, at=10, **after)).kind  # type: ignore[arg-type]


MUCH, LITTLE = 11 * BYTES, BYTES


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        # it writes a checkpoint: next to no time on a processor, one line
        ({"io": {12: 500}}, {"io": {12: 500 + MUCH}}, "late"),
        ({"io": {12: 500}}, {"io": {12: 500 + LITTLE}}, "stuck"),
        # it copies one over the network
        (
            {"traffic": Traffic({12: {7: 100}})},
            {"traffic": Traffic({12: {7: 100 + MUCH}})},
            "late",
        ),
        ({"traffic": Traffic({12: {7: 9}})}, {"traffic": Traffic({12: {7: 99}})}, "stuck"),
        # it is in fsync: the disk works, or nothing tells whether it does
        ({"disk": {12: True}}, {"disk": {12: True}, "devices": 11 * MACHINE}, "late"),
        ({"disk": {12: True}}, {"disk": {12: True}}, "elsewhere"),
        ({}, {"devices": 11 * MACHINE}, "stuck"),
        # somebody looks at it with gdb
        ({}, {"held": {12: True}}, "late"),
        # a compiler that it started, and one that nobody started who is in the job
        ({"cpu": {13: 1.0}}, {"cpu": {13: 9.0}, "parent": {13: 12}}, "late"),
        ({"cpu": {13: 1.0}}, {"cpu": {13: 9.0}, "parent": {13: 1}}, "stuck"),
        # short-lived children, by their parent's account of those that ended
        ({"cpu": {12: 1.0}}, {"cpu": {12: 5.0}}, "late"),
        # a back-off; an answer from elsewhere, or from within
        ({"asleep": {12: True}}, {"asleep": {12: True}}, "elsewhere"),
        ({}, {"traffic": Traffic(outward=frozenset({12}))}, "elsewhere"),
        ({}, {"traffic": Traffic(outward=frozenset({11}))}, "stuck"),
        # the collective itself carries data: over TCP, or RDMA
        (
            {"traffic": Traffic({11: {7: 100}})},
            {"traffic": Traffic({11: {7: 100 + MUCH}})},
            "moving",
        ),
        ({"fabric": 5}, {"fabric": 5 + 11 * MACHINE}, "late"),
    ],
)
def test_signs_of_work(
    tmp_path: Path, before: dict[str, object], after: dict[str, object], kind: str
) -> None:
    assert waits_for(tmp_path, before, after) == kind


def test_ranks_that_are_on_another_machine(tmp_path: Path) -> None:
    def kind(ranks: tuple[int | None, ...], **after: object) -> str:
        texts = [one(11 + number, rank or 0, COLLECTIVE) for number, rank in enumerate(ranks)]
        if None in ranks:
            texts = [text.partition("\n")[2] for text in texts]
        first = sampled(tmp_path, *texts)
        return compare(first, sampled(tmp_path, *texts, at=10, **after)).kind  # type: ignore[arg-type]

    outside = Traffic(outward=frozenset({11}))
    assert kind((0, 1), world={11: 2, 12: 2}) == "stuck"
    assert kind((0, 1), world={11: 16, 12: 16}) == "away"
    # a tracker's connection tells nothing where the number of ranks is known
    assert kind((0, 1), world={11: 2, 12: 2}, traffic=outside) == "stuck"
    assert kind((None, None), traffic=outside) == "away"
    assert kind((None, None)) == "stuck"


def test_a_driver_whose_workers_are_elsewhere(tmp_path: Path) -> None:
    text = one(11, None, WORK, 7)
    outside = Traffic(outward=frozenset({11}))
    first = sampled(tmp_path, text)
    assert compare(first, sampled(tmp_path, text, at=10, traffic=outside)).kind == "away"
    assert compare(first, sampled(tmp_path, text, at=10)).kind == "still"


GPU = """    synchronize (torch/cuda/__init__.py:1083)
    train (run_it.py:{line})
    <module> (run_it.py:90)"""


def test_all_ranks_are_here_and_wait_for_the_gpu_while_a_tracker_is_connected(
    tmp_path: Path,
) -> None:
    def kind(world: int) -> str:
        texts = (one(11, 0, GPU), one(12, 1, WORK, 7))
        outside = Traffic(outward=frozenset({11}))
        after = {"world": {11: world, 12: world}, "traffic": outside}
        first = sampled(tmp_path, *texts)
        return compare(first, sampled(tmp_path, *texts, at=10, **after)).kind  # type: ignore[arg-type]

    assert kind(2) == "still"
    assert kind(4) == "away"


def test_a_loop_that_asks_and_sleeps_is_no_work(tmp_path: Path) -> None:
    before = sampled(tmp_path, one(11, 0, COLLECTIVE), one(12, 1, WORK, 7), cpu={12: 1.0})
    asks = (one(11, 0, COLLECTIVE), one(12, 1, WORK, 8))
    assert compare(before, sampled(tmp_path, *asks, at=10, cpu={12: 1.1})).kind == "elsewhere"
    assert compare(before, sampled(tmp_path, *asks, at=10, cpu={12: 2.0})).kind == "late"


def test_a_service_that_asks_and_sleeps_hides_no_stall(tmp_path: Path) -> None:
    ranks = (one(11, 0, COLLECTIVE), one(12, 1, WORK, 7))
    before = sampled(tmp_path, *ranks, one(13, None, WORK, 1))
    after = sampled(tmp_path, *ranks, one(13, None, WORK, 2), at=10, cpu={13: 0.1})
    assert compare(before, after).kind == "stuck"


def test_in_a_debugger(tmp_path: Path) -> None:
    stepping = "    interaction (pdb.py:367)\n" + WORK
    texts = (one(11, 0, COLLECTIVE), one(12, 1, stepping, 7))
    assert compare(sampled(tmp_path, *texts), sampled(tmp_path, *texts, at=3)).kind == "late"


def test_a_rank_whose_stack_cannot_be_taken(tmp_path: Path) -> None:
    def kind(**after: object) -> str:
        texts, both = (one(11, 0, COLLECTIVE),), frozenset({12})
        before = sampled(tmp_path, *texts, unread=both)
        return compare(before, sampled(tmp_path, *texts, at=10, unread=both, **after)).kind  # type: ignore[arg-type]

    assert kind(disk={12: True}) == "elsewhere"
    assert kind(io={12: MUCH}) == "moving"
    assert kind(stopped={12: True}) == "stuck"
    assert kind() == "stuck"


def test_nobody_answers(tmp_path: Path) -> None:
    def found(**after: object) -> Look:
        before = sampled(tmp_path, unread=frozenset({12}))
        return compare(before, sampled(tmp_path, at=10, unread=frozenset({12}), **after))  # type: ignore[arg-type]

    assert found().kind == "unseen"
    assert found(disk={12: True}).kind == "still"
    stopped = found(stopped={12: True})
    assert stopped.kind == "still"
    assert stopped.said.render() == "processes 12 stopped by a signal"


def test_programs_without_python() -> None:
    def some(at: float, cpu: float) -> Sample:
        signs = Signs(at=at, processes={5: Sign(born=1, cpu=cpu)})
        return Sample({}, (), signs)

    assert compare(some(0, 1), some(10, 9)).kind == "moving"
    found = compare(some(0, 1), some(10, 1.1))
    assert (found.kind, found.said.render()) == ("unseen", "no Python process runs")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("import time\ndef idle():\n    time.sleep(600)\nidle()", "still"),
        ("def busy():\n    while True:\n        sum(range(1000))\nbusy()", "moving"),
    ],
)
def test_a_living_process(code: str, kind: str) -> None:
    pytest.importorskip("psutil")
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        found: Look | None = None
        for _ in range(20):  # until it has come to its loop
            time.sleep(0.5)
            found = look(lambda: [process.pid], gap=1.0)
            if found.kind == kind:
                break
        assert found is not None
        if found.kind == "unseen":
            pytest.skip("py-spy may not look at processes here")
        assert found.kind == kind
        assert len(found.texts) == 2
        assert f"Process {process.pid}" in found.texts[1]
    finally:
        process.kill()
        process.wait()


def test_a_look_that_is_no_longer_wanted() -> None:
    assert look(lambda: [os.getpid()], gap=60.0, wait=lambda _: True).kind == "moving"
