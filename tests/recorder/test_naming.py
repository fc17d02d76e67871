"""Rank, host and series by a dump's name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.recorder.naming import read_name


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("/var/nccl_trace_rank_0", 0),
        ("/home/ml/.cache/torch/comm_lib_trace_rank_17", 17),
        ("dumps/_dump_12", 12),
        ("fr/hang__dump_fr_trace_rank1", 1),
        ("trace_00031.pickle", 31),
        ("rank-7.json", 7),
        ("RANK=5.pkl.gz", 5),
        ("dump.r12.bin", 12),
        ("node03_gpu2_global_rank_26.pkl", 26),
        ("local_rank_3_rank_11", 11),
        ("run.tgz!inner/rank_4/trace.pickle", 4),
        ("rank3/dump_2024.pkl", 3),
        ("job-1234-9", 9),
        ("dump", None),
        ("", None),
    ],
)
def test_the_rank_is_the_number_that_the_name_calls_so_or_the_last_one(
    name: str, rank: int | None
) -> None:
    assert read_name(name).rank == rank


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("node07_nccl_trace_rank_3", "node07"),
        ("dumps/gpu-a100-12.cluster_rank_3.pkl", "gpu-a100-12.cluster"),
        ("worker-2/nccl_trace_rank_3", "worker-2"),
        ("nccl_trace_rank_3", None),
        ("results/comm_lib_trace_rank_3", None),
        ("gpu_error_1st/_dump_3", None),
    ],
)
def test_the_host_is_found_where_the_name_has_one(name: str, host: str | None) -> None:
    assert read_name(name).host == host


def test_files_of_one_writer_share_a_series() -> None:
    names = ["a/trace_rank_0", "a/trace_rank_11", "b/trace_rank_0", "a/other_rank_0"]
    series = [read_name(name).series for name in names]
    assert series[0] == series[1]
    assert len(set(series)) == 3


@given(st.text(max_size=300))
def test_any_name_is_read(name: str) -> None:
    rank = read_name(name).rank
    assert rank is None or 0 <= rank < 10_000_000
