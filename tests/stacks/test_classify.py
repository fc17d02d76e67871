from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.languages import catalogue
from unstall.model.facts import Frame, Place, ProcessStack, ThreadStack
from unstall.model.plan import ROLES
from unstall.stacks import classify, is_helper, own_frames, wait_of, wait_of_process
from unstall.stacks.knowledge import circumstances, role_signs, signs

KINDS = {
    "collective",
    "point-to-point",
    "queue",
    "pipe",
    "http",
    "lock",
    "store",
    "disk",
    "process",
    "sleep",
    "gpu",
    "computing",
    "unknown",
}
C10D = "torch/distributed/distributed_c10d.py"


def thread(
    *frames: str, state: str | None = "idle", gil: bool = False, name: str = ""
) -> ThreadStack:
    """A thread of ``function file[:line]``, innermost first; ``!`` marks a native frame."""
    made = []
    for text in frames:
        function, _, file = text.lstrip("!").rpartition(" ")
        made.append(Frame(function, file, 1, text.startswith("!")))
    return ThreadStack(name or "MainThread", tuple(made), state, 1, gil)


@pytest.mark.parametrize(
    ("frames", "kind", "within"),
    [
        ((f"barrier {C10D}", "save_model train.py"), "collective", "barrier"),
        ((f"recv {C10D}", "forward pipe.py"), "point-to-point", "recv"),
        (
            (f"_store_based_barrier {C10D}", f"init_process_group {C10D}"),
            "store",
            "init_process_group",
        ),
        # a store inside a collective is a start-up wait, not the collective itself
        (
            ("!c10d::TCPStore::doGet(std::string const&) libtorch_cpu.so", f"broadcast {C10D}"),
            "store",
            "c10d::TCPStore::doGet(std::string const&)",
        ),
        (("!ncclGroupEnd libnccl.so.2", f"all_reduce {C10D}"), "collective", "ncclGroupEnd"),
        (("!cuStreamSynchronize libcuda.so.1", "item train.py"), "gpu", "cuStreamSynchronize"),
        (("!take_gil libpython3.11.so.1.0", "work a.py"), "lock", "take_gil"),
        # a bare lock gives way to what it is for
        (
            ("Condition.wait threading.py", "Queue.get queue.py", "run a.py"),
            "queue",
            "Queue.get",
        ),
        (("wait threading.py", "get queue.py", "run a.py"), "queue", "get"),
        (
            ("Condition.wait threading.py", "Event.wait threading.py", "run a.py"),
            "lock",
            "Condition.wait",
        ),
        (
            ("SSLSocket.read ssl.py", "HTTPAdapter.send requests/adapters.py", "score reward.py"),
            "http",
            "HTTPAdapter.send",
        ),
        (("get ray/_private/worker.py", "fit my_trainer.py"), "queue", "get"),
        (("_save torch/serialization.py", "save torch/serialization.py"), "disk", "_save"),
        # the gather inside a save is a collective, told together with the save
        (
            (f"all_gather_object {C10D}", "Trainer._save_checkpoint transformers/trainer.py"),
            "collective",
            "Trainer._save_checkpoint",
        ),
        (
            ("EpollSelector.select selectors.py", "BaseEventLoop._run_once asyncio/base_events.py"),
            "queue",
            "BaseEventLoop._run_once",
        ),
    ],
)
def test_kinds(frames: tuple[str, ...], kind: str, within: str) -> None:
    told, frame = classify(thread(*frames))
    assert (told, frame.function if frame else None) == (kind, within)


def test_an_event_loop_around_the_programs_work_says_nothing() -> None:
    busy = thread(
        "compress handler.py",
        "BaseEventLoop._run_once asyncio/base_events.py",
        "BaseEventLoop.run_forever asyncio/base_events.py",
    )
    assert classify(busy) == ("unknown", None)


def test_work_counts_where_nothing_waits() -> None:
    running = thread(
        "encode tok.py", "Dataset._map_single datasets/arrow_dataset.py", state="active"
    )
    assert classify(running)[0] == "computing"
    waiting = thread(f"barrier {C10D}", "Dataset._map_single datasets/arrow_dataset.py")
    assert classify(waiting)[0] == "collective"


def test_running_and_idle_without_a_sign() -> None:
    assert classify(thread("f a.py", state="active")) == ("computing", Frame("f", "a.py", 1))
    assert classify(thread("f a.py", gil=True))[0] == "computing"
    assert classify(thread("f a.py")) == ("unknown", None)
    assert classify(ThreadStack("", ())) == ("unknown", None)


def test_same_names_elsewhere_are_no_signs() -> None:
    assert classify(thread("get cache.py", "barrier sync.py", "save model.py"))[0] == "unknown"
    assert classify(thread("get myqueue.py"))[0] == "unknown"


def test_vllm_step_and_vote() -> None:
    step = wait_of(
        thread(
            f"all_reduce {C10D}",
            "_run_ar vllm/v1/worker/dp_utils.py",
            "coordinate_batch_across_dp vllm/v1/worker/dp_utils.py",
            "DPEngineCoreProc.execute_dummy_batch vllm/v1/engine/core.py",
        )
    )
    assert (step.kind, step.keys) == ("collective", ("data-parallel-sync", "dummy-step"))
    vote = wait_of(
        thread(
            f"all_reduce {C10D}",
            "ParallelConfig.has_unfinished_dp vllm/config/parallel.py",
            "DPEngineCoreProc._has_global_unfinished_reqs vllm/v1/engine/core.py",
        )
    )
    assert vote.keys == ("data-parallel-vote",)


def test_vllm_ring_of_worker_and_engine() -> None:
    ring = "MessageQueue.acquire_read vllm/distributed/device_communicators/shm_broadcast.py"
    executor = "vllm/v1/executor/multiproc_executor.py"
    worker = wait_of(thread(ring, f"WorkerProc.worker_busy_loop {executor}"))
    engine = wait_of(thread(ring, f"MultiprocExecutor.collective_rpc {executor}"))
    assert (worker.kind, worker.keys) == ("queue", ("worker-idle",))
    assert (engine.kind, engine.keys) == ("queue", ("awaits-workers",))


def test_sentences_are_translated() -> None:
    known = catalogue("zh")
    rows = [row for found in circumstances().values() for row in found]
    assert rows
    for row in rows:
        assert row.text.template in known


def test_forked_frames_are_the_parents() -> None:
    forked = thread(
        "work a.py",
        "BaseProcess.run multiprocessing/process.py",
        "Popen._launch multiprocessing/popen_fork.py",
        "BaseProcess.start multiprocessing/process.py",
        f"all_reduce {C10D}",
    )
    assert len(own_frames(forked)) == 2
    assert classify(forked)[0] == "unknown"


def test_helpers() -> None:
    assert is_helper(thread("wait threading.py", name="tqdm_monitor"))
    assert is_helper(
        thread(
            "Poller.poll zmq/sugar/poll.py",
            "process_input_sockets vllm/v1/engine/core.py",
            name="Thread-1",
        )
    )
    assert is_helper(thread("!poll libc.so.6", name="Thread-9"))
    assert not is_helper(thread("save torch/serialization.py", name="Thread-3 (save)"))
    assert not is_helper(thread("!poll libc.so.6", name="MainThread"))


def test_every_row_has_a_kind_a_source_and_a_file_where_its_name_is_common() -> None:
    for found in signs().values():
        for sign in found:
            assert sign.waits_for in KINDS - {"unknown"}
            assert sign.source
            assert sign.file or sign.native or all(len(name) > 12 for name in sign.functions), sign
    for rows in circumstances().values():
        for row in rows:
            assert set(row.over) <= KINDS
            assert row.source
            assert row.file or not {"save", "load", "get", "wait", "fit", "train"} & set(
                row.functions
            )


def test_every_role_is_known() -> None:
    assert {row.role for row in role_signs()} <= set(ROLES)
    for row in role_signs():
        assert row.source
        assert row.functions or row.command or row.thread


NAMES = st.sampled_from(
    ["all_reduce", "Queue.get", "wait", "f", "<module>", "", "a.b.c", "x::y(z)", "(", "<<"]
)
FILES = st.sampled_from(
    [C10D, "queue.py", "threading.py", "a.py", "", "/", "\\x\\queue.py", "libc.so.6"]
)
FRAME = st.builds(
    Frame,
    NAMES | st.text(max_size=12),
    FILES | st.text(max_size=12),
    st.none() | st.integers(0, 9),
    st.booleans(),
)


@given(st.lists(FRAME, max_size=12), st.sampled_from([None, "idle", "active", "odd"]))
@settings(max_examples=200, deadline=None)
def test_any_stack_is_survived(frames: list[Frame], state: str | None) -> None:
    kind, within = classify(ThreadStack("MainThread", tuple(frames), state))
    assert kind in KINDS
    assert within is None or within in frames


POOL = ("Thread.run threading.py", "Thread._bootstrap threading.py")
SERVES = "_worker concurrent/futures/thread.py"
ASKS = ("SocketIO.readinto socket.py", "HTTPAdapter.send requests/adapters.py", "score reward.py")


def process(*threads: ThreadStack) -> ProcessStack:
    return ProcessStack(place=Place("x", 1), quote="", threads=threads)


def test_a_main_thread_that_waits_for_its_pool_stands_for_it() -> None:
    main = thread("wait threading.py", "Future.result concurrent/futures/_base.py", "fit driver.py")
    idle = thread(SERVES, *POOL, name="ThreadPoolExecutor-0_0")
    asking = thread(*ASKS, SERVES, *POOL, name="ThreadPoolExecutor-0_1")
    assert classify(main)[0] == "lock"
    assert is_helper(idle)
    assert not is_helper(asking)
    told = wait_of_process(process(main, idle, asking))
    assert (told.kind, told.caller and told.caller.function) == ("http", "score")
    saving = thread("save torch/serialization.py", *POOL, name="Thread-2")
    assert wait_of_process(process(main, asking, saving)).kind == "lock"
    assert wait_of_process(process(main, idle)).kind == "lock"
    assert wait_of_process(process(thread("Event.wait threading.py"), asking)).kind == "lock"
    assert wait_of_process(process()).kind == "unknown"


def test_a_lock_under_a_rollout_call_is_a_wait_for_its_answer() -> None:
    told = wait_of(
        thread(
            "wait threading.py",
            "Future.result concurrent/futures/_base.py",
            "VLLMClient.infer swift/trainers/rlhf_trainer/vllm_client.py",
        )
    )
    assert (told.kind, told.keys) == ("http", ("awaits-rollout",))


def test_a_driver_that_computes_rewards() -> None:
    told = wait_of(
        thread(
            "simplify sympy/simplify.py",
            "NaiveRewardManager.__call__ verl/workers/reward_manager/naive.py",
            state="active",
        )
    )
    assert (told.kind, told.keys) == ("computing", ("reward",))


def test_idle_servers() -> None:
    plain = wait_of(
        thread(
            "EpollSelector.select selectors.py", "BaseEventLoop._run_once asyncio/base_events.py"
        )
    )
    fast = wait_of(thread("Runner.run asyncio/runners.py", "Server.run uvicorn/server.py"))
    busy = wait_of(thread("answer app.py", "Runner.run asyncio/runners.py"))
    assert plain.keys == fast.keys == ("event-loop-idle",)
    assert (fast.kind, busy.kind) == ("queue", "unknown")


def test_a_bare_name_needs_its_file() -> None:
    # AllGatherHandle.wait is known by its class, wherever it stands; a mere wait is not.
    known = wait_of(thread(f"barrier {C10D}", "AllGatherHandle.wait zero/partition.py"))
    mere = wait_of(thread(f"barrier {C10D}", "wait zero/partition.py"))
    assert (known.keys, mere.keys) == (("parameter-gather",), ())
