from __future__ import annotations

import string

import pytest
from conftest import lines_of
from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.writers.packages import PackageVersions


@pytest.mark.parametrize(
    ("line", "name", "version"),
    [
        ("torch==2.8.0", "torch", "2.8.0"),
        ("[pip3] torch==2.3.0+cu121", "torch", "2.3.0+cu121"),
        ("[conda] nvidia-nccl-cu12      2.20.5       pypi_0    pypi", "nvidia-nccl", "2.20.5"),
        ("PyTorch version: 2.4.1+cu124", "torch", "2.4.1+cu124"),
        ("- PyTorch version (GPU?): 2.1.0 (True)", "torch", "2.1.0"),
        ("- `transformers` version: 4.57.1", "transformers", "4.57.1"),
        ("torch版本：2.8.0", "torch", "2.8.0"),
        ("vLLM Version                 : 0.10.0", "vllm", "0.10.0"),
        ("torch                     2.6.0", "torch", "2.6.0"),
        ("deepspeed info ................... 0.14.2, unknown, unknown", None, None),
        ("torch version .................... 2.3.0+cu121", "torch", "2.3.0+cu121"),
        ("I use torch 2.8 and H100s", "torch", "2.8"),
        ("ms_swift==3.10.3", "ms-swift", "3.10.3"),
        ("| NVIDIA-SMI 535.1  Driver Version: 535.104.05   |", "nvidia-driver", "535.104.05"),
        ("CUDA used to build PyTorch: 12.1", "cuda", "12.1"),
        ("Python version: 3.10.12 (main, Nov 20 2023)", "python", "3.10.12"),
    ],
)
def test_spellings(read, line, name, version):
    facts = read(PackageVersions, line + "\n")
    expected = [] if name is None else [(name, version)]
    assert [(fact.name, fact.version) for fact in facts] == expected


def test_pip_show(read):
    text = "Name: vllm\nVersion: 0.11.0\nSummary: x\nName: unrelated\nVersion: 9.9\n"
    (fact,) = read(PackageVersions, text)
    assert (fact.name, fact.version) == ("vllm", "0.11.0")


def test_each_version_once(read):
    facts = read(PackageVersions, "torch==2.8.0\ntorch==2.8.0\ntorch==2.7.1\n")
    assert [fact.version for fact in facts] == ["2.8.0", "2.7.1"]


@pytest.mark.parametrize(
    "line",
    [
        "TRL currently only supports vLLM version `0.10.2`. You have installed another",
        "xformers 0.0.28 requires torch==2.4.1",
        "/opt/lib/python3.10/site-packages/torch/nn/modules/module.py",
        "torchrun --nproc 8 --master_port 29500.5",
    ],
)
def test_what_is_not_installed_is_not_told(read, line):
    assert read(PackageVersions, line + "\n") == []


@given(
    st.sampled_from(["torch", "vllm", "deepspeed", "ms-swift"]),
    st.lists(st.integers(0, 999), min_size=2, max_size=4),
    st.text(string.ascii_lowercase, max_size=4).filter(lambda tail: tail != "v"),
)
def test_any_pinned_version_comes_back(name, numbers, tail):
    version = ".".join(map(str, numbers)) + (f"+{tail}" if tail else "")
    (line,) = lines_of(f"{name}=={version}\n")
    (fact,) = PackageVersions().feed(line)
    assert (fact.name, fact.version) == (name, version)
