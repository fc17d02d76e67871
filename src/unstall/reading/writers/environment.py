"""Environment variables that logs print: ``env``, ``collect_env``, traces of a shell, launchers.

Only names that bear on distributed jobs are taken, and only where they stand alone on a line or
behind the words of a known writer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import EnvironmentValue, Fact
from unstall.reading.line import Line
from unstall.reading.writers.lines import common

_NAME = (
    r"(?:(?:NCCL|TORCH|TORCHELASTIC|PYTORCH|CUDA|VLLM|SGLANG|SGL|RAY|GLOO|MASTER|OMP|HCCL|ASCEND|"
    r"NVIDIA|DS|ACCELERATE|SLURM|SWIFT|DEEPSPEED|FI|UCX|TP|PL)_[A-Z0-9_]{1,60}"
    r"|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|NNODES|NPROC_PER_NODE|LD_PRELOAD"
    r"|LD_LIBRARY_PATH|TOKENIZERS_PARALLELISM|ddp_timeout"
    r"|(?:http|https|no|all|HTTP|HTTPS|NO|ALL)_(?:proxy|PROXY))"
)
_ALONE = re.compile(
    r"^\s{0,16}(?:\++ |export |declare -x |\d{1,4} |- )?(?:export )?(" + _NAME + r")"
    r" ?[=:] ?(\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'|[^\s\"']{0,500})\s*$",
    re.ASCII,
)
_SET = re.compile(
    r"(?:Setting|setting|Using|with env|nccl_env)[: ]{1,2}(" + _NAME + r")=(\S{1,300})",
    re.ASCII,
)
_BY_NCCL = re.compile(
    r"(NCCL_[A-Z0-9_]{1,60}) set (?:by environment )?to (\S{1,300}?)\.?\s*$", re.ASCII
)
_MOST = 2_000


class EnvironmentValues:
    """Values of environment variables, each told once a speaker."""

    marks: tuple[str, ...] = (
        "NCCL_",
        "TORCH_",
        "TORCHELASTIC_",
        "PYTORCH_",
        "CUDA_",
        "VLLM_",
        "SGLANG_",
        "RAY_",
        "GLOO_",
        "MASTER_",
        "OMP_",
        "HCCL_",
        "ASCEND_",
        "SLURM_",
        "RANK",
        "WORLD_SIZE",
        "NNODES",
        "NPROC_PER_NODE",
        "LD_PRELOAD",
        "TOKENIZERS_",
        "_proxy",
        "_PROXY",
    )

    def __init__(self) -> None:
        self._told: set[tuple[object, str, str]] = set()

    @property
    def wants_more(self) -> bool:
        """Never: a value stands on its name's line."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """The value that the line prints."""
        text = line.text[:1024]
        found = _ALONE.match(text)
        pair = (found[1], found[2].strip("\"'")) if found is not None else None
        if pair is None and (found := _SET.search(text) or _BY_NCCL.search(text)) is not None:
            pair = (found[1], found[2].strip("\"'"))
        if pair is None or pair[1].startswith(("$", "`")):
            return ()
        key = (line.speaker, *pair)
        if key in self._told or len(self._told) >= _MOST:
            return ()
        self._told.add(key)
        return (EnvironmentValue(**common(line), name=pair[0], value=pair[1]),)

    def finish(self) -> Iterable[Fact]:
        """Nothing is held back."""
        return ()
