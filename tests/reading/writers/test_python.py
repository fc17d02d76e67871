# ruff: noqa: E501 (log lines stand as they were written)
"""Tracebacks of every writer; expected values were read off the samples by hand."""

from __future__ import annotations

import pytest
from conftest import lines_of

from unstall.model.facts import CutTraceback, Frame, PythonException
from unstall.reading.writers.python import Tracebacks


def told(read, text):
    facts = read(Tracebacks, text)
    assert all(isinstance(fact, PythonException) for fact in facts)
    return facts


def where(fact):
    return [(frame.function, frame.file, frame.line) for frame in fact.frames]


def test_a_traceback_of_one_rank_and_the_launchers(read, sample):
    first, second = told(read, sample("ends/exc.log"))
    assert (first.type, first.message) == ("ValueError", "boom from rank 1")
    assert where(first) == [("<module>", "/opt/jobs/real/ex.py", 54)]
    assert (first.speaker.rank, first.frames_from, first.place.line) == (1, None, 1)
    assert second.type.endswith(".ChildFailedError")
    assert (second.frames_from, second.message, len(second.frames)) == ("launcher", "", 6)


def test_the_copy_in_an_error_file_report_is_the_same_exception(read, sample):
    boom, launcher = told(read, sample("ends/record.log"))
    assert (boom.type, boom.message, boom.copies) == ("ValueError", "boom from rank 1", 2)
    assert (boom.place.line, boom.speaker.rank) == (1, 1)
    assert [frame.function for frame in boom.frames] == ["<module>", "wrapper", "main"]
    assert launcher.frames_from == "launcher"


def test_a_copy_in_a_report_alone_knows_its_rank(read):
    (fact,) = told(
        read,
        """\
  rank      : 5 (local_rank: 1)
  exitcode  : 1 (pid: 77)
  error_file: /tmp/e/attempt_0/1/error.json
  traceback : Traceback (most recent call last):
    File "/srv/a.py", line 3, in wrapper
      return f()
    File "/srv/b.py", line 9, in main
      x[3]
  IndexError: list index out of range
""",
    )
    assert (fact.type, fact.speaker.rank, fact.speaker.local_rank) == ("IndexError", 5, 1)
    assert where(fact) == [("wrapper", "/srv/a.py", 3), ("main", "/srv/b.py", 9)]


def test_spawn_tells_the_childs_exception_and_its_own(read, sample):
    outer, inner = told(read, sample("ends/spawn_exc.log"))
    assert (inner.type, inner.message) == ("RuntimeError", "child failed")
    assert inner.speaker.local_rank == 1
    assert inner.notes == ()
    assert outer.type == "torch.multiprocessing.spawn.ProcessRaisedException"
    assert (outer.notes, outer.frames_from) == (("RuntimeError",), "launcher")


def test_a_chain_names_the_causes(read, sample):
    cause, last = told(read, sample("ends/dl.log"))
    assert cause.message == "DataLoader worker (pid 16491) is killed by signal: Killed."
    assert cause.notes == ()
    assert last.message == "DataLoader worker (pid(s) 16491) exited unexpectedly"
    assert last.notes == ("RuntimeError",)
    assert where(last)[0] == ("<module>", "/opt/jobs/real/ex.py", 73)


def test_a_loaders_original_traceback_is_the_cause(read, sample):
    outer, inner = told(read, sample("ends/dlexc.log"))
    assert (inner.type, inner.message) == ("KeyError", "'bad sample 5'")
    assert where(inner)[-1] == ("__getitem__", "/opt/jobs/real/ex.py", 79)
    assert outer.notes == ("KeyError",)


def test_indentation_lost_by_a_tracker(read):
    (fact,) = told(
        read,
        """\
Traceback (most recent call last):
File "/srv/train.py", line 12, in main
else: run(ValueError)
File "/srv/lib/run.py", line 4, in run
raise ValueError("no")
ValueError: no
""",
    )
    assert (fact.type, fact.message) == ("ValueError", "no")
    assert where(fact) == [("main", "/srv/train.py", 12), ("run", "/srv/lib/run.py", 4)]


def test_two_unmarked_processes_printing_at_once(read):
    (fact,) = told(
        read,
        """\
Traceback (most recent call last):
Traceback (most recent call last):
  File "/srv/t.py", line 9, in <module>
  File "/srv/t.py", line 9, in <module>
    main()
    main()
  File "/srv/t.py", line 5, in main
    step()
RuntimeError: no room
  File "/srv/t.py", line 5, in main
    step()
RuntimeError: no room
""",
    )
    assert where(fact) == [("<module>", "/srv/t.py", 9), ("main", "/srv/t.py", 5)]
    assert (fact.type, fact.message, fact.copies) == ("RuntimeError", "no room", 2)


def test_tracebacks_of_ranks_interleaved(read):
    facts = told(
        read,
        """\
[rank0]: Traceback (most recent call last):
[rank3]: Traceback (most recent call last):
[rank0]:   File "/srv/t.py", line 9, in <module>
[rank3]:   File "/srv/t.py", line 11, in <module>
[rank0]:     a()
[rank3]:     b()
[rank3]: KeyError: 'x'
[rank0]: TypeError: bad
""",
    )
    seen = {fact.speaker.rank: (fact.type, fact.message, where(fact)[0][2]) for fact in facts}
    assert seen == {0: ("TypeError", "bad", 9), 3: ("KeyError", "'x'", 11)}


def test_headers_of_a_logger_before_each_line(read):
    text = """\
(EngineCore_DP1 pid=40) ERROR 05-22 20:16:41 [core.py:390] EngineCore hit an exception: Traceback (most recent call last):
(EngineCore_DP1 pid=40) ERROR 05-22 20:16:41 [core.py:390]   File "/x/vllm/v1/core.py", line 381, in run
(EngineCore_DP1 pid=40) ERROR 05-22 20:16:41 [core.py:390]     engine.loop()
(EngineCore_DP1 pid=40) ERROR 05-22 20:16:41 [core.py:390]     ^^^^^^^^^^^^^
(EngineCore_DP1 pid=40) ERROR 05-22 20:16:41 [core.py:390]   File "/x/vllm/v1/exec.py", line 7, in step
(EngineCore_DP1 pid=40) ERROR 05-22 20:16:41 [core.py:390]     raise RuntimeError(
(EngineCore_DP1 pid=40) ERROR 05-22 20:16:41 [core.py:390] RuntimeError: worker is gone
"""
    (fact,) = told(read, text)
    assert (fact.type, fact.message) == ("RuntimeError", "worker is gone")
    assert [frame.line for frame in fact.frames] == [381, 7]
    assert (fact.speaker.name, fact.speaker.pid) == ("EngineCore_DP1", 40)
    assert fact.moment is not None
    assert not fact.moment.year_known


def test_ray_tells_the_workers_exception_in_the_driver(read):
    outer, inner = told(
        read,
        """\
Traceback (most recent call last):
  File "/srv/main.py", line 30, in run
    ray.get(runner.run.remote())
ray.exceptions.RayTaskError(ValueError): ray::WorkerDict.actor_update() (pid=991, ip=10.0.0.7, actor_id=ab, repr=<x>)
  File "/srv/verl/ray/base.py", line 399, in func
    return getattr(self, name)(*args)
  File "/srv/verl/workers.py", line 12, in update
    raise ValueError("nan")
ValueError: nan
""",
    )
    assert (inner.type, inner.message, inner.frames_from) == ("ValueError", "nan", "ray")
    assert (inner.speaker.pid, inner.speaker.host) == (991, "10.0.0.7")
    assert inner.speaker.name == "WorkerDict"
    assert where(inner)[-1] == ("update", "/srv/verl/workers.py", 12)
    assert outer.type == "ray.exceptions.RayTaskError(ValueError)"
    assert outer.notes == ("ValueError",)


def test_a_box_of_rich(read):
    (fact,) = told(
        read,
        """\
╭────────────── Traceback (most recent call last) ──────────────╮
│ /srv/finetune.py:88 in <module>                               │
│                                                               │
│   85 if __name__ == "__main__":                               │
│ ❱ 88 │   main()                                               │
│                                                               │
│ /srv/finetune.py:41 in main                                   │
╰───────────────────────────────────────────────────────────────╯
OutOfMemoryError: CUDA out of memory.
""",
    )
    assert fact.type == "OutOfMemoryError"
    assert where(fact) == [("<module>", "/srv/finetune.py", 88), ("main", "/srv/finetune.py", 41)]


def test_an_exception_group(read):
    facts = told(
        read,
        """\
  + Exception Group Traceback (most recent call last):
  |   File "/srv/g.py", line 3, in <module>
  |     raise ExceptionGroup("two", [ValueError(1)])
  | ExceptionGroup: two (1 sub-exception)
""",
    )
    assert [(fact.type, fact.message) for fact in facts] == [
        ("ExceptionGroup", "two (1 sub-exception)")
    ]


def test_a_message_of_several_lines(read):
    (fact,) = told(
        read,
        """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/w/t.py", line 8, in f
[rank1]:     ddp()
[rank1]: torch.distributed.DistBackendError: NCCL error in: ../x.hpp:3, unhandled system error, NCCL version 2.21.5
[rank1]: ncclSystemError: System call failed.
[rank1]: Last error:
[rank1]: Error while creating shared memory segment /dev/shm/nccl-q (size 9)
""",
    )
    assert fact.type == "torch.distributed.DistBackendError"
    assert fact.message.splitlines()[1:] == [
        "ncclSystemError: System call failed.",
        "Last error:",
        "Error while creating shared memory segment /dev/shm/nccl-q (size 9)",
    ]


def test_a_last_line_alone(read):
    (fact,) = told(read, "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB\n")
    assert (fact.type, fact.frames, fact.speaker.rank) == ("torch.OutOfMemoryError", (), 3)


def test_frames_whose_head_was_cut(read):
    (fact,) = told(read, '  File "/srv/a.py", line 3, in f\n    g()\nValueError: 3\n')
    assert (fact.type, where(fact)) == ("ValueError", [("f", "/srv/a.py", 3)])


@pytest.mark.parametrize("name", ["RuntimeEr", "torch.distributed.DistBa"])
def test_an_input_that_ends_within_the_name_is_a_traceback_cut_off(read, name):
    """No such class exists, and its message is not there either: what was raised is not known."""
    (fact,) = read(
        Tracebacks,
        f'Traceback (most recent call last):\n  File "/srv/a.py", line 3, in f\n    g()\n{name}',
    )
    assert isinstance(fact, CutTraceback)


@pytest.mark.parametrize("name", ["queue.Empty", "ValueError", "KeyboardInterrupt"])
def test_exceptions_without_a_message_may_end_an_input(read, name):
    (fact,) = told(
        read,
        f'Traceback (most recent call last):\n  File "/srv/a.py", line 3, in f\n    g()\n{name}',
    )
    assert (fact.type, fact.message) == (name, "")


def test_sentences_are_no_exceptions(read):
    assert (
        told(read, "INFO: no Error: here\nncclRemoteError: A call failed\nThe Error: x y\n") == []
    )


def test_a_recursion_is_cut_but_keeps_both_ends(read):
    body = "".join(f'  File "/srv/r.py", line {n}, in f{n}\n    f()\n' for n in range(1, 5001))
    (fact,) = told(read, "Traceback (most recent call last):\n" + body + "RecursionError: deep\n")
    assert fact.frames[0] == Frame("f1", "/srv/r.py", 1)
    assert fact.frames[-1] == Frame("f5000", "/srv/r.py", 5000)
    assert len(fact.frames) == 200


def test_a_destructors_traceback_is_marked(read):
    (fact,) = told(
        read,
        "Exception ignored in: <function X.__del__ at 0x7f>\n"
        'Traceback (most recent call last):\n  File "/a.py", line 1, in __del__\n    x()\n'
        "TypeError: 'NoneType' object is not callable\n",
    )
    assert fact.frames_from == "ignored"


def test_reading_ends_when_a_speaker_falls_silent():
    reader = Tracebacks()

    crash = lines_of("[rank1]: ValueError: x\n")
    for line in crash:
        list(reader.feed(line))
    assert reader.wants_more
    for line in lines_of("step done\n" * 4000):
        list(reader.feed(line))
    assert not reader.wants_more
    assert [fact.message for fact in reader.finish()] == ["x"]


def test_a_traceback_whose_end_is_missing(read):
    text = (
        "[rank2]: Traceback (most recent call last):\n"
        '[rank2]:   File "/srv/app/train.py", line 55, in main\n'
        "[rank2]:     out = model(batch)\n"
        '[rank2]:   File "/opt/venv/lib/torch/nn/modules/module.py", line 1553, in _call_impl\n'
    )
    (fact,) = read(Tracebacks, text)
    assert type(fact).__name__ == "CutTraceback"
    assert fact.speaker.rank == 2
    assert [frame.function for frame in fact.frames] == ["main", "_call_impl"]


@pytest.mark.parametrize(
    "line", ["`ValueError: no room`", "[worker_base.py:492] ValueError: no room"]
)
def test_a_last_line_that_is_quoted_or_cut(read, line):
    (fact,) = told(read, line + "\n")
    assert (fact.type, fact.message, fact.frames) == ("ValueError", "no room", ())
