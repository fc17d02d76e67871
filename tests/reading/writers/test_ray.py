# ruff: noqa: E501 (log lines stand as they were written)
from __future__ import annotations

from unstall.reading.writers.ray import DeadWorkers, RayEvents


def test_an_actors_description(read):
    (end,) = read(
        DeadWorkers,
        """\
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: create_colocated_worker_cls.<locals>.WorkerDict
\tactor_id: 5066
\tpid: 87687
\tname: 07GxnAWorkerDict_0:3
\tnamespace: b886
\tip: 10.29.214.5
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.
""",
    )
    assert (end.reporter, end.pid, end.host) == ("ray", 87687, "10.29.214.5")
    assert (end.exit_code, end.place.line) == (None, 1)


def test_a_raylets_line_and_the_actors_error_are_one_end(read):
    ends = read(
        DeadWorkers,
        "(raylet) A worker died or was killed while executing a task by an unexpected system error."
        " RayTask ID: f Worker ID: 8 Node ID: 4 Worker IP address: 10.0.0.1 Worker port: 10004"
        " Worker PID: 311 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits with an"
        " exit code 1.\n"
        "ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "\tpid: 311\n\tip: 10.0.0.1\n"
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR\n",
    )
    assert [(end.pid, end.exit_code) for end in ends] == [(311, 1)]


def test_an_intended_exit_is_no_failure(read):
    assert (
        read(
            DeadWorkers,
            "A worker died or was killed while executing a task. Worker PID: 5 Worker exit type:"
            " INTENDED_SYSTEM_EXIT Worker exit detail: idle\n",
        )
        == []
    )


def test_out_of_memory_exits_are_kills(read):
    (kill,) = read(
        DeadWorkers,
        "The actor died unexpectedly. Worker PID: 12 Worker exit type: NODE_OUT_OF_MEMORY Worker\n",
    )
    assert (kill.by, kill.pid) == ("ray", 12)


def test_the_memory_monitor(read):
    facts = read(
        RayEvents,
        """\
(raylet) [2024-08-25 19:21:02,241 E 11 11] (raylet) node_manager.cc:3064: 12 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: b, IP: 172.31.105.218)
(raylet) node_manager.cc:3064: 0 Workers (tasks / actors) killed due to memory pressure (OOM), 1 Workers crashed
ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
Memory on the node (IP: 172.17.0.2, ID: 3a) where the task was running was 32.53GB / 33.28GB (0.977449), which exceeds the memory usage threshold of 0.95.
""",
    )
    assert [type(fact).__name__ for fact in facts] == ["MemoryKill", "MemoryKill", "HostMemory"]
    assert facts[0].by == "ray"
    assert (facts[2].used_gb, facts[2].percent) == (32.53, 97.7449)


def test_a_lost_node(read):
    (fact,) = read(
        RayEvents,
        "The node with node id: ab12 and address: 10.0.0.9 and node name: 10.0.0.9 has been marked"
        " dead because the detector has missed too many heartbeats from it.\n",
    )
    assert (fact.kind, fact.scheduler, fact.node) == ("node-failure", "ray", "10.0.0.9")
