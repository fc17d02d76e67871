from __future__ import annotations

import pytest

from unstall.reading.writers.environment import EnvironmentValues


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("NCCL_DEBUG=INFO", "NCCL_DEBUG", "INFO"),
        ("+ export MASTER_PORT=29501", "MASTER_PORT", "29501"),
        ("export NCCL_IB_DISABLE='1'", "NCCL_IB_DISABLE", "1"),
        ('declare -x http_proxy="http://p:3128"', "http_proxy", "http://p:3128"),
        (
            "[2023-08-30 10:02:14,902] [INFO] [launch.py:165:main] Setting"
            " CUDA_VISIBLE_DEVICES=0,1,2,3",
            "CUDA_VISIBLE_DEVICES",
            "0,1,2,3",
        ),
        (
            "h:1:2 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.",
            "NCCL_IB_GID_INDEX",
            "3",
        ),
        ("WORLD_SIZE: 16", "WORLD_SIZE", "16"),
    ],
)
def test_forms(read, line, name, value):
    (fact,) = read(EnvironmentValues, line + "\n")
    assert (fact.name, fact.value) == (name, value)


@pytest.mark.parametrize(
    "line",
    [
        "You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value.",
        "MASTER_PORT=$VLLM_DIST_PORT",
        "CUDA_VISIBLE_DEVICES=0,1 python train.py",
        "RANK is unset",
        "MY_OWN_THING=3",
    ],
)
def test_what_is_no_value(read, line):
    assert read(EnvironmentValues, line + "\n") == []
