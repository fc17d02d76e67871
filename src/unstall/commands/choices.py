"""Values that options of several commands may have."""

from __future__ import annotations

from enum import Enum


class Language(str, Enum):
    """Language of what a command says."""

    en = "en"
    zh = "zh"


class Backend(str, Enum):
    """Back end of the process groups."""

    auto = "auto"
    gloo = "gloo"
    nccl = "nccl"
