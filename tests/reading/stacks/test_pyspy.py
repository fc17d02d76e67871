from __future__ import annotations

import json
import string

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reading.stacks.feeding import feed, read, sample, stacks
from unstall.model.facts import Frame, Place, ProcessStack, Speaker, Unreadable
from unstall.reading.stacks.pyspy import frame_of


def test_rollout_server_has_six_processes_under_their_headings() -> None:
    found = stacks(sample("rollout_server_pyspy.txt"))
    assert [one.pid for one in found] == [32306, 32309, 32426, 32427, 32605, 32602]
    assert [len(one.threads) for one in found] == [1, 1, 4, 4, 3, 3]
    assert found[4].command == "VLLM::EngineCore_DP1"
    assert found[0].place == Place("dump.txt", 2)
    assert found[2].threads[3].name == "tqdm_monitor"
    assert found[2].threads[3].tid == 367
    assert found[5].threads[0].frames[0] == Frame(
        "all_reduce", "torch/distributed/distributed_c10d.py", 2931
    )
    assert found[5].threads[0].frames[-1] == Frame("<module>", "<string>", 1)
    assert len(found[5].threads[0].frames) == 24


def test_rollout_server_waits() -> None:
    found = {one.pid: one for one in stacks(sample("rollout_server_pyspy.txt"))}
    told = {
        pid: (one.waits_for, one.within.function if one.within else None)
        for pid, one in found.items()
    }
    assert told == {
        32306: ("process", "Popen._try_wait"),
        32309: ("pipe", "SwiftRolloutDeploy.infer"),
        32426: ("queue", "SyncMPClient.get_output"),
        32427: ("pipe", "llm_worker"),
        32605: ("queue", "EngineCoreProc._process_input_queue"),
        32602: ("collective", "DPMetadata.num_tokens_across_dp"),
    }


def test_a_command_of_several_lines() -> None:
    text = (
        "Process 41: python -c import time\ndef idle():\n    time.sleep(600)\n\nidle()\n"
        "Python v3.12.4 (/opt/bin/python3.12)\n\n"
        'Thread 41 (idle): "MainThread"\n    idle (<string>:3)\n    <module> (<string>:4)\n'
        "Process 42: python -c print(1)\nThread 42 (active)\n    <module> (<string>:1)\n"
    )
    one, other = stacks(text)
    assert (one.pid, other.pid) == (41, 42)
    assert one.command == "python -c import time def idle(): time.sleep(600) idle()"
    assert [frame.function for frame in one.threads[0].frames] == ["idle", "<module>"]
    assert other.command == "python -c print(1)"


def test_a_process_without_end_and_no_stack() -> None:
    assert stacks("Process 41: python -c x\n" + "y\n" * 5000) == []


def test_native_frames_and_gil() -> None:
    (one,) = stacks(sample("pyspy_native.txt"))
    main, other = one.threads
    assert [frame.native for frame in main.frames] == [True] * 4 + [False] * 4 + [True]
    assert main.frames[2] == Frame(
        "PyThread_acquire_lock_timed", "libpython3.11.so.1.0", None, True
    )
    assert main.frames[5] == Frame("Queue.get", "queue.py", 171)
    assert (main.state, main.holds_gil) == ("idle", False)
    assert (other.name, other.state, other.holds_gil) == ('spin "quoted" (x)', "active", True)


def test_native_frame_with_template_arguments() -> None:
    (one,) = stacks(sample("pyspy_gloo_native.txt"))
    frames = one.threads[0].frames
    assert frames[3] == Frame("c10d::Work::wait", "libtorch_cpu.so", None, True)
    assert (one.waits_for, one.within) == (
        "collective",
        Frame("all_reduce", "torch/distributed/distributed_c10d.py", 3252),
    )


def test_locals_are_no_frames() -> None:
    (one,) = stacks(sample("pyspy_locals.txt"))
    assert [frame.function for frame in one.threads[0].frames] == [
        "Condition.wait",
        "Queue.get",
        "hang",
        "<module>",
    ]
    assert len(one.threads[1].frames) == 4


def test_a_local_that_looks_like_a_frame_is_none() -> None:
    (one,) = stacks(
        "Process 71: python work.py\n"
        "Python v3.12.1 (/usr/bin/python3.12)\n"
        "\n"
        'Thread 71 (idle): "MainThread"\n'
        "    step (work.py:4)\n"
        "        Arguments:\n"
        '            note: "all_reduce (torch/distributed/distributed_c10d.py:9)"\n'
        "            call: <function> (other.py:3)\n"
        "    <module> (work.py:9)\n"
    )
    assert [frame.line for frame in one.threads[0].frames] == [4, 9]
    assert one.waits_for == "unknown"


def test_process_tree_names_the_parent() -> None:
    parent, child = stacks(sample("pyspy_subprocesses.txt"))
    assert (parent.pid, parent.parent) == (24962, None)
    assert (child.pid, child.parent) == (24965, 24962)
    assert child.threads[0].name == ""
    assert child.command == "/opt/venv/bin/python -c import time; time.sleep(60)"


def test_json_is_read_as_text_is() -> None:
    (from_json,) = stacks(sample("pyspy.json"))
    assert from_json.pid == 24962
    main, other = from_json.threads
    assert main.name == "MainThread"
    assert [frame.function for frame in main.frames] == [
        "Condition.wait",
        "Queue.get",
        "hang",
        "<module>",
    ]
    assert main.frames[1] == Frame("Queue.get", "queue.py", 171)
    assert (other.holds_gil, other.state, other.tid) == (True, "active", 24964)
    assert from_json.waits_for == "queue"


def test_json_on_one_line() -> None:
    text = json.dumps(json.loads(sample("pyspy.json")))
    (one,) = stacks(text)
    assert [thread.name for thread in one.threads] == ["MainThread", 'spin "quoted" (x)']


def test_json_of_something_else_is_nothing() -> None:
    assert read('{\n  "pid": 12,\n  "name": "job"\n}\n') == []
    assert read('[{"pid": 3, "frames": 7}]') == []


def test_older_forms() -> None:
    (one,) = stacks(
        "Process 12: python3 train.py\n"
        "Python v3.6.9 (/usr/bin/python3.6)\n"
        "\n"
        "Thread 0x7F3A2C0B5740 (active)\n"
        "    wait (threading.py:295)\n"
        "    get (multiprocessing/queues.py:94)\n"
        "    <module> (train.py:30)\n"
    )
    assert one.threads[0].tid == 0x7F3A2C0B5740
    assert one.waits_for == "queue"


def test_without_header_and_indentation() -> None:
    (one,) = stacks(
        'Thread 90 (idle): "MainThread"\n'
        "barrier (torch/distributed/distributed_c10d.py:4622)\n"
        "main (/srv/run/pretrain.py:88)\n"
        "INFO saving done (took 3 s)\n"
    )
    assert [frame.function for frame in one.threads[0].frames] == ["barrier", "main"]
    assert one.waits_for == "collective"
    assert one.pid is None


def test_log_lines_end_a_dump() -> None:
    found = stacks(
        "Process 5: python a.py\n"
        'Thread 5 (idle): "MainThread"\n'
        "    main (a.py:1)\n"
        "step 12 finished (loss 2.5)\n"
        "    evil (b.py:3)\n"
    )
    assert [frame.file for frame in found[0].threads[0].frames] == ["a.py"]


def test_watchdog_of_sglang() -> None:
    (one,) = stacks(
        "Pyspy dump for PID 4417 (py-spy dump --native --pid 4417):\n"
        "Process 4417: sglang::scheduler_DP1_TP0\n"
        "Python v3.12.3 (/usr/bin/python3.12)\n"
        "\n"
        'Thread 4417 (idle): "MainThread"\n'
        "    all_gather_into_tensor (torch/distributed/distributed_c10d.py:3793)\n"
        "    wrapper (torch/distributed/c10d_logger.py:81)\n"
        "    prepare_mlp_sync_batch_raw (sglang/srt/managers/scheduler_dp_attn_mixin.py:60)\n"
        "    event_loop_overlap (sglang/srt/managers/scheduler.py:1031)\n"
        "    run_scheduler_process (sglang/srt/managers/scheduler.py:2711)\n"
    )
    assert (one.pid, one.command) == (4417, "sglang::scheduler_DP1_TP0")
    assert one.waits_for == "collective"
    assert one.within is not None
    assert one.within.function == "prepare_mlp_sync_batch_raw"


def test_the_same_process_twice_is_two_dumps() -> None:
    text = 'Thread 8 (idle): "MainThread"\n    main (a.py:1)\n'
    assert len(stacks(text + text)) == 2


def test_ranks_that_dump_at_once_are_kept_apart() -> None:
    first, second = Speaker(rank=0), Speaker(rank=1)
    lines = [
        ("Process 20: python t.py", first),
        ("Process 21: python t.py", second),
        ('Thread 20 (idle): "MainThread"', first),
        ('Thread 21 (idle): "MainThread"', second),
        ("    barrier (torch/distributed/distributed_c10d.py:4)", first),
        ("    save (torch/serialization.py:9)", second),
        ("    <module> (t.py:1)", first),
        ("    <module> (t.py:2)", second),
    ]
    found = [one for one in feed(lines) if isinstance(one, ProcessStack)]
    told = {one.speaker.rank: (one.pid, one.waits_for) for one in found}
    assert told == {0: (20, "collective"), 1: (21, "disk")}


def test_heading_gives_rank_and_host() -> None:
    (one,) = stacks(
        "===== host=node7 rank 3 pid 881 =====\n"
        "Process 881: python t.py\n"
        'Thread 881 (idle): "MainThread"\n'
        "    main (t.py:1)\n"
    )
    assert (one.speaker.rank, one.speaker.host, one.pid) == (3, "node7", 881)


def test_refusal_is_told() -> None:
    (fact,) = read(
        "Permission Denied: Try running again with elevated permissions by going "
        "'sudo env \"PATH=$PATH\" !!'"
    )
    assert isinstance(fact, Unreadable)
    assert not fact.fatal
    assert "SYS_PTRACE" in fact.reason


def test_frames_of_a_broken_copy() -> None:
    assert frame_of("     (dbg.py:12)") == Frame("<module>", "dbg.py", 12)
    assert frame_of("no frame here") is None


# what Python calls functions; other names in angle brackets would be a web page's tags
NAMES = st.text(alphabet=string.ascii_letters + "_.", min_size=1, max_size=20) | st.sampled_from(
    ("<module>", "<lambda>", "<listcomp>", "Wave.<locals>.<genexpr>")
)
FILES = st.text(alphabet=string.ascii_lowercase + "_/", min_size=1, max_size=20).map(
    lambda stem: stem + ".py"
)
FRAMES = st.lists(st.tuples(NAMES, FILES, st.integers(1, 99999)), min_size=1, max_size=8)
THREADS = st.lists(
    st.tuples(st.integers(2, 10**6), st.booleans(), FRAMES),
    min_size=1,
    max_size=5,
    unique_by=lambda t: t[0],
)


@given(THREADS)
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read(
    threads: list[tuple[int, bool, list[tuple[str, str, int]]]],
) -> None:
    text = ["Process 1: python x.py", "Python v3.11.7 (/usr/bin/python3.11)", ""]
    for number, (tid, active, frames) in enumerate(threads):
        name = "MainThread" if number == 0 else f"Thread-{number}"
        text.append(f'Thread {tid} ({"active" if active else "idle"}): "{name}"')
        text.extend(f"    {function} ({file}:{line})" for function, file, line in frames)
    (one,) = stacks("\n".join(text))
    assert [
        (t.tid, t.state == "active", [(f.function, f.file, f.line) for f in t.frames])
        for t in one.threads
    ] == threads


LINES = st.one_of(
    st.text(max_size=80),
    st.sampled_from(
        [
            "Process 3: x",
            'Thread 3 (idle): "MainThread"',
            "Thread 4 (active+gil)",
            "    f (a.py:1)",
            "        Arguments:",
            '    "pid": 3,',
            '"pid": 3,',
            '"thread_id": 9,',
            "  },",
            "{",
            "]",
            '[{"pid": 1, "thread_id": 2, "frames": []}]',
            '[{"pid": 1, "frames": [[[[',
            "##### 77 python",
            "",
        ]
    ),
)


@given(st.lists(LINES, max_size=40))
@settings(max_examples=150, deadline=None)
def test_any_text_is_survived(lines: list[str]) -> None:
    for one in read("\n".join(lines)):
        assert one.place.line >= 1


def test_size_is_bounded() -> None:
    lines = ["Process 3: x", 'Thread 3 (idle): "MainThread"'] + ["    f (a.py:1)"] * 5000
    lines += [f"Thread {number} (idle)\n    f (a.py:1)" for number in range(10, 3000)]
    (one,) = stacks("\n".join(lines))
    assert len(one.threads[0].frames) == 300
    assert len(one.threads) == 1000


def test_main_thread_is_the_one_with_the_process_id() -> None:
    (one,) = stacks(
        "Process 640: ./embedded\n"
        "Thread 641 (idle)\n"
        "    serve (pool.py:3)\n"
        "Thread 640 (idle)\n"
        "    step (loop.py:7)\n"
    )
    assert [thread.tid for thread in one.threads] == [640, 641]


def test_a_heading_far_above_is_no_heading() -> None:
    dump = 'Thread 8 (idle): "MainThread"\n    main (a.py:1)\n'
    (near,) = stacks("##### rank 4\n\n" + dump)
    (far,) = stacks("##### rank 4\n" + "step\n" * 7 + dump)
    assert (near.speaker.rank, far.speaker.rank) == (4, None)


def test_a_persons_line_above_a_dump_names_the_rank() -> None:
    for above in (
        "rank 2:",
        "**Rank 2**",
        "py-spy of rank 2",
        "rank 2 的堆栈：",
        "rank 2 (pid 77)",
    ):
        text = f'{above}\n```\nProcess 77: python t.py\n\nThread 77 (active): "M"\n    f (t.py:1)\n'
        assert [one.speaker.rank for one in stacks(text)] == [2], above
    for above in ("ranks 1-3:", "rank 2 ok", "the local rank 2 hangs here"):
        text = f'{above}\nProcess 77: python t.py\n\nThread 77 (active): "M"\n    f (t.py:1)\n'
        assert [one.speaker.rank for one in stacks(text)] == [None], above
