"""What a source is, from its name and first bytes."""

from __future__ import annotations

import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.kinds import config_kind, named_like_dump, recognise

LOG = b"[rank0]:[E1206 21:12:01.852621435 ProcessGroupNCCL.cpp:685] [Rank 0] Watchdog\n"
NOISE = random.Random(5).randbytes(4000)  # noqa: S311 - any bytes will do
DUMP = {"version": "2.10", "pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": []}


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("run.log", LOG, "text"),
        ("slurm-17.out", LOG, "text"),
        ("launch.sh", b"torchrun train.py\n", "script"),
        ("job.sbatch", b"#SBATCH -N 2\n", "script"),
        ("launch", b"#!/usr/bin/env bash\nvllm serve x\n", "script"),
        ("launch", b"\n#!/bin/bash\nvllm serve x\n", "script"),
        ("start", b"#!/usr/bin/python3\nimport os\n", "text"),
        ("issue.txt", b"#!/bin/bash\ntorchrun x.py\n\n" + LOG, "text"),
        ("ds.json", b'{"zero_optimization": {"stage": 3}}', "config"),
        ("x.YAML", b"a: 1\n", "config"),
        ("accelerate.toml", b"a = 1\n", "config"),
        ("conf/hostfile", b"worker-1 slots=8\n", "config"),
        ("c-json.json", b'{"log":"x\\n","stream":"stderr"}\n', "text"),
        ("train.py", b"import torch\n", "code"),
        ("_dump_7", pickle.dumps(DUMP, protocol=2), "recorder"),
        ("anything", pickle.dumps(DUMP, protocol=4), "recorder"),
        ("state.pkl", pickle.dumps({"a": 1}), "binary"),
        ("dump.json", b'{"version": "2.10", "pg_config": {}, "entries": []}', "recorder"),
        ("metrics.json", b'{"entries": [1, 2]}', "config"),
        ("nccl_trace_rank_12", b"", "recorder"),
        ("model.log", b"", "binary"),
        ("a.png", b"\x89PNG\r\n\x1a\n", "binary"),
        ("noise", NOISE, "binary"),
        ("nul.log", LOG + b"\0" * 300 + LOG, "text"),
        ("only-nul.log", b"\0" * 300, "binary"),
        ("utf16.log", "rank 0 失败".encode("utf-16"), "text"),
        ("gbk.log", "训练到一定步数后卡住，没有任何输出".encode("gb18030") * 3, "text"),
        ("bars.log", b"\r 10%|##   | 1/10\r 20%|##   | 2/10\x1b[A\n", "text"),
        ("broken.log", LOG * 9 + b"\xff\xfe\x80 cut" + LOG, "text"),
    ],
)
def test_recognise(name: str, head: bytes, kind: str) -> None:
    assert recognise(name, head) == kind


def test_names_of_dumps() -> None:
    for name in ("_dump_0", "a/nccl_trace_rank_3", "t.tgz!comm_lib_trace_rank_1", "my_dump_4.json"):
        assert named_like_dump(name), name
    for name in ("dump.log", "trace_rank", "heap_dump_tool.py", "rank_3"):
        assert not named_like_dump(name), name


def test_config_kinds() -> None:
    names = ("a/b.yml", "b.json", "hostfile", "train.py", "k.cu")
    assert [config_kind(name) for name in names] == ["yaml", "json", "hostfile", "python", "code"]


@given(st.text(max_size=30), st.binary(max_size=600))
def test_any_bytes_have_a_kind(name: str, head: bytes) -> None:
    assert recognise(name, head) in {"text", "script", "config", "code", "recorder", "binary"}
