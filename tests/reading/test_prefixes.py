"""Prefixes: each form, their order, what they tell, and what is left alone."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.model.facts import NOBODY, Moment, Speaker
from unstall.reading.prefixes import Prefixes, Speakers, moment_of
from unstall.reading.profile import Profile

EVERYTHING = Profile(
    numbered=("bracket", "pipe"),
    tasks=True,
    hosts=frozenset({"worker-1", "rank7"}),
    containers=frozenset({"trainer"}),
    roles=frozenset({"actor"}),
)
PLAIN = Prefixes()
TEN = datetime(2026, 11, 30, 10, 0, 0)


def told(line: str, profile: Profile | None = None) -> tuple[str, Speaker, Moment | None]:
    stripped = Prefixes(profile).strip(line)
    return stripped.text, Speakers().of(stripped.fields), stripped.moment


@pytest.mark.parametrize(
    ("line", "text", "fields"),
    [
        ("[rank3]:[E1206 21:12:01.85 P.cpp:6] x", "[E1206 21:12:01.85 P.cpp:6] x", {"rank": 3}),
        ("[rank3]: Traceback (most", "Traceback (most", {"rank": 3}),
        ('[rank3]:   File "a.py", line 1', '  File "a.py", line 1', {"rank": 3}),
        ("[rank0]:W0304 11:22:33.1 4 a.py:1] m", "W0304 11:22:33.1 4 a.py:1] m", {"rank": 0}),
        ("[default3]:text", "text", {"local_rank": 3}),
        ("[default1]:[rank9]: text", "text", {"local_rank": 1, "rank": 9}),
        ("[default0]:  what():  x", "  what():  x", {"local_rank": 0}),
        ("[trainer0]:text", "text", {"local_rank": 0}),
        ("[actor2]:text", "text", {"local_rank": 2}),
        ("[RANK 3] msg", "msg", {"rank": 3}),
        ("[rank: 3] Child process", "Child process", {"rank": 3}),
        ("[1,5]<stderr>:text", "text", {"rank": 5, "stream": "stderr"}),
        ("[1784] [rank0]:[E602 1", "[E602 1", {"rank": 0}),
        ("31| text", "text", {}),
        (" 3: text", "text", {"task": 3}),
        ("12: [rank12]: text", "text", {"task": 12, "rank": 12}),
        ("3:", "", {"task": 3}),
        ("worker-1: text", "text", {"host": "worker-1"}),
        ("rank7: text", "text", {"rank": 7}),
        ("trainer-1  | text", "text", {"container": "trainer-1"}),
        ("trainer    | text", "text", {"container": "trainer"}),
        ("[pod/job-0-x/main] text", "text", {"container": "job-0-x/main"}),
        ("(WorkerDict pid=71, ip=10.0.0.2) text", "text",
         {"name": "WorkerDict", "pid": 71, "host": "10.0.0.2"}),
        ("(pid=71) text", "text", {"pid": 71}),
        ("(raylet, ip=10.0.0.2) text", "text", {"name": "raylet", "host": "10.0.0.2"}),
        ("(autoscaler +1m2s) text", "text", {"name": "autoscaler"}),
        ("(WorkerDict pid=71) text [repeated 3x across cluster]", "text",
         {"name": "WorkerDict", "pid": 71}),
        ("(EngineCore_DP0 pid=9) INFO 12-06 21:12:01 [core.py:58] m",
         "INFO 12-06 21:12:01 [core.py:58] m", {"name": "EngineCore_DP0", "pid": 9}),
        ("(VllmWorker rank=1 pid=9) text", "text", {"name": "VllmWorker", "rank": 1, "pid": 9}),
        ("(Worker_DP1_PP0_TP1_EP3 pid=9)   File", "  File",
         {"name": "Worker_DP1_PP0_TP1_EP3", "pid": 9}),
        ("(ServeReplica:a:M pid=9) text", "text", {"name": "ServeReplica:a:M", "pid": 9}),
        ("> > [rank1]: quoted", "quoted", {"rank": 1}),
        ("train\tRun tests\t2026-11-30T10:00:00.1234567Z text", "text", {}),
        ("[INFO] [a.py:96:log_dist] [Rank 3] m", "[INFO] [a.py:96:log_dist] [Rank 3] m",
         {"rank": 3}),
        ("14:20:51    INFO [rank 2] m", "14:20:51    INFO [rank 2] m", {"rank": 2}),
    ],
)  # fmt: skip
def test_who_spoke(line: str, text: str, fields: dict[str, Any]) -> None:
    found, speaker, _ = told(line, EVERYTHING)
    assert found == text
    assert speaker == Speaker(**fields)


@pytest.mark.parametrize(
    ("line", "text", "moment"),
    [
        ("2026-11-30T10:00:00.123456789Z t", "t",
         Moment(TEN.replace(microsecond=123456), zone=0)),
        ("2026-11-30T10:00:00+08:00 t", "t", Moment(TEN, zone=480)),
        ("2026-11-30T10:00:00.5-0330 t", "t", Moment(TEN.replace(microsecond=500000), zone=-210)),
        ("2026-11-30T10:00:00.1234567Z ##[error]t", "t",
         Moment(TEN.replace(microsecond=123456), zone=0)),
        ("2026-11-30T10:00:00Z stderr F t", "t", Moment(TEN, zone=0)),
        ("Nov 30 10:00:00 t", "t", Moment(TEN.replace(year=1904), year_known=False)),
        ("Nov  3 10:00:00 n1 python[71]: t", "t",
         Moment(datetime(1904, 11, 3, 10), year_known=False)),
        ("Mon Nov 30 10:00:00 2026[1,3]<stdout>:t", "t", Moment(TEN)),
        ("[2026-11-30 10:00:00 DP0 TP1] t", "t", Moment(TEN)),
        ("[2026-11-30 10:00:00] [rank1]: t", "t", Moment(TEN)),
        ("2026-11-30 10:00:00,250 (W pid=3) t", "t", Moment(TEN.replace(microsecond=250000))),
    ],
)  # fmt: skip
def test_when_it_was_said(line: str, text: str, moment: Moment) -> None:
    found, _, when = told(line)
    assert (found, when) == (text, moment)


def test_the_outermost_time_counts() -> None:
    _, _, moment = told("Nov 30 10:00:00 2026-11-30T11:00:00Z t")
    assert moment == Moment(TEN.replace(year=1904), year_known=False)


def test_names_of_sglang_and_daemons() -> None:
    assert told("[2026-11-30 10:00:00 DP0 TP1] t")[1] == Speaker(name="DP0 TP1")
    assert told("Nov 30 10:00:00 n1 slurmstepd[71]: t")[1] == Speaker(
        host="n1", name="slurmstepd", pid=71
    )


@pytest.mark.parametrize(
    "line",
    [
        "[E1206 21:12:01.852621435 ProcessGroupNCCL.cpp:685] [Rank 0] Watchdog caught",
        "[E ProcessGroupNCCL.cpp:828] [Rank 0] Watchdog",
        "[Rank 0] Watchdog caught collective operation timeout",
        "[PG ID 5 PG GUID 15 Rank 0] First PG",
        "INFO 12-06 21:12:01 [core.py:58] msg",
        "[2024-05-01 12:00:00,123] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711",
        "[2026-06-07 04:11:02,312 I 2712 2712] (raylet) local_object_manager.cc:490: Restored",
        "[2026-11-30 10:00:00] iteration        1/  100",
        "[INFO:swift] args",
        "Epoch: [3]  [ 820/2502]  eta: 0:51:04",
        "[prompt] Find the last digit",
        "[0]:",
        "[step3]: loss",
        "0: warmup finished",
        "worker-9: text",
        "100%|█████| 48/48 [00:00<00:00, 103.13it/s]",
        "  7%|▋         | 311/4410 [41:18<9:02:11,  7.94s/it]",
        "host2:900:904 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P",
        "{'loss': 1.1043, 'epoch': 0.07}",
        '{"loss": 1.1, "step": 3}',
        '{"train_batch_size": 8, "level": 3}',
        "2025-05-22 20:16:37 - INFO - trl.extras.vllm_client - Server is up!",
        ">>> import torch",
        "(see pid=3 above) text",
        "| GPU | Memory |",
        "",
    ],
)
def test_what_a_program_wrote_stays(line: str) -> None:
    text, speaker, moment = told(line)
    assert (text, moment) == (line, None)
    assert speaker in (NOBODY, Speaker(rank=0))


def test_objects_of_collectors() -> None:
    docker = json.dumps(
        {"log": "[rank1]: boom\n", "stream": "stderr", "time": "2026-11-30T10:00:00Z"}
    )
    assert told(docker) == ("boom", Speaker(rank=1, stream="stderr"), Moment(TEN, zone=0))
    vector = json.dumps({
        "timestamp": 1796032800.0, "message": "a\nb", "stream": "stdout",
        "kubernetes": {"pod_name": "p-0", "container_name": "main"},
    })  # fmt: skip
    text, speaker, moment = told(vector)
    assert text == "a\nb"
    assert speaker == Speaker(container="main", stream="stdout")
    assert moment == Moment(datetime(2026, 11, 30, 10), zone=0)


def test_parts_of_a_cut_line_are_told() -> None:
    for letter, partial in (("P", True), ("F", False)):
        line = f"2026-11-30T10:00:00Z stdout {letter} beg"
        assert PLAIN.strip(line).partial is partial
    assert PLAIN.strip(json.dumps({"log": "x" * 16_384, "stream": "stdout"})).partial


def test_moments_that_do_not_exist() -> None:
    assert moment_of("2026-02-30T10:00:00Z") is None
    assert told("Feb 30 10:00:00 t")[2] is None


OUTER = [
    "2026-11-30T10:00:00.123456789Z ", "2026-11-30T10:00:00Z stderr F ", "Nov 30 10:00:00 ",
    "trainer-1  | ", "trainer | ", "worker-1: ", "[pod/a-b/c] ", "[1,3]<stdout>:", "> ",
]  # fmt: skip
MIDDLE = [
    "(WorkerDict pid=7, ip=10.0.0.2) ", "(EngineCore_DP0 pid=9) ", "(VllmWorker rank=1 pid=9) ",
    "(raylet) ", "[default3]:", "[actor1]:",
]  # fmt: skip
INNER = ["[rank3]: ", "[RANK 3] ", "[rank: 3] ", "[2026-11-30 10:00:00 DP0 TP1] "]
TEXTS = [
    "Traceback (most recent call last):", '  File "a.py", line 3, in <module>',
    "[E1206 21:12:01.852621435 ProcessGroupNCCL.cpp:685] [PG ID 0 Rank 0] x", "step:6 - a:1",
    "INFO 12-06 21:12:01 [core.py:58] m", "Epoch: [3] loss 0.1", "你好，世界", "{'loss': 1.0}",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(OUTER), max_size=3),
    st.lists(st.sampled_from(MIDDLE), max_size=2),
    st.lists(st.sampled_from(INNER), max_size=1),
    st.sampled_from(TEXTS),
)
def test_composed_prefixes_come_off(
    outer: list[str], middle: list[str], inner: list[str], text: str
) -> None:
    line = "".join([*outer, *middle, *inner, text])
    assert told(line, EVERYTHING)[0] == text


@given(st.text(max_size=300))
def test_any_line_is_cut_only_at_its_front(line: str) -> None:
    text = told(line, EVERYTHING)[0]
    assert text in line or line.startswith(("{", " {"))


@given(st.dictionaries(st.text(max_size=8), st.none() | st.floats() | st.text(max_size=20)))
def test_any_object_is_survived(value: dict[str, Any]) -> None:
    value = {"log": "x", "time": 1, **value}
    assert isinstance(told(json.dumps(value))[0], str)


def test_what_a_terminal_shows_of_a_key_comes_off() -> None:
    cut = PLAIN.strip
    stripped = cut("^C(TaskRunner pid=9) KeyboardInterrupt")
    assert (stripped.text, stripped.fields) == (
        "KeyboardInterrupt",
        {"name": "TaskRunner", "pid": 9},
    )
    assert cut("^C").text == "^C"
    assert cut("^ here").text == "^ here"


def test_names_of_joined_outputs_come_off_where_they_are_known() -> None:
    joined = Prefixes(Profile(labels=frozenset({"node1"}), labelled="["))
    cut = joined.strip
    stripped = cut("[node1] [rank3]: KeyError: 'x'")
    assert (stripped.text, stripped.fields) == ("KeyError: 'x'", {"container": "node1", "rank": 3})
    assert cut("[node2] [rank3]: bye").fields == {"container": "node2", "rank": 3}
    assert cut("[INFO] x").text == "[INFO] x"
    assert cut("[node2] step").text == "[node2] step"
