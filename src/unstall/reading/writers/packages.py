"""Versions of packages, in the ways that tools and people write them.

``pip freeze`` and ``pip list``, ``conda list``, ``pip show``, torch's and vLLM's ``collect_env``,
``transformers env``, ``accelerate env``, ``ds_report``, ``nvidia-smi``, and prose in English and
Chinese (``torch 2.8``, ``torch版本：2.8.0``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import Fact, PackageVersion
from unstall.reading.line import Line
from unstall.reading.writers.lines import common

# As written -> name in facts. Only what a hang or crash may depend on.
_NAMES = {
    "accelerate": "accelerate",
    "apex": "apex",
    "axolotl": "axolotl",
    "cuda": "cuda",
    "cudnn": "cudnn",
    "datasets": "datasets",
    "deepspeed": "deepspeed",
    "flash attention": "flash-attn",
    "flash-attn": "flash-attn",
    "flash_attn": "flash-attn",
    "flashinfer-python": "flashinfer-python",
    "lightning": "lightning",
    "llamafactory": "llamafactory",
    "llama-factory": "llamafactory",
    "megatron-core": "megatron-core",
    "megatron_core": "megatron-core",
    "ms-swift": "ms-swift",
    "ms_swift": "ms-swift",
    "nccl": "nccl",
    "nemo-toolkit": "nemo-toolkit",
    "numpy": "numpy",
    "nvidia-nccl-cu11": "nvidia-nccl",
    "nvidia-nccl-cu12": "nvidia-nccl",
    "nvidia-nccl-cu13": "nvidia-nccl",
    "openrlhf": "openrlhf",
    "peft": "peft",
    "python": "python",
    "pytorch": "torch",
    "pytorch-lightning": "pytorch-lightning",
    "qwen-vl-utils": "qwen-vl-utils",
    "qwen_vl_utils": "qwen-vl-utils",
    "ray": "ray",
    "sgl-kernel": "sgl-kernel",
    "sglang": "sglang",
    "swift": "ms-swift",
    "torch": "torch",
    "torch-npu": "torch-npu",
    "torch_npu": "torch-npu",
    "torchao": "torchao",
    "torchaudio": "torchaudio",
    "torchrun": "torch",
    "torchtitan": "torchtitan",
    "torchtune": "torchtune",
    "torchvision": "torchvision",
    "transformer-engine": "transformer-engine",
    "transformer_engine": "transformer-engine",
    "transformers": "transformers",
    "triton": "triton",
    "trl": "trl",
    "unsloth": "unsloth",
    "verl": "verl",
    "vllm": "vllm",
    "xformers": "xformers",
}
_ANY = "|".join(sorted((re.escape(name) for name in _NAMES), key=len, reverse=True))
_VERSION = r"v?(\d{1,4}\.\d{1,5}(?:[.+\-_]?[0-9A-Za-z]{1,40}){0,8})"
_PINNED = re.compile(r"(?<![\w./-])(" + _ANY + r") ?== ?" + _VERSION, re.IGNORECASE | re.ASCII)
_SAID = re.compile(
    r"(?<![\w./@-])(" + _ANY + r")(?:['`\"]|\*\*)?"
    r"(?: ?(?:[Vv]ersions?|[Rr]untime version|[Vv]er\.?|版本号?|的版本(?:是|为)?)"
    r"(?: \(GPU\?\))?)?(?:['`\"]|\*\*)?"
    r"(?:\s{0,30}[:=：]\s{0,4}| |\s{0,4}\.{4,60} ?|\s{2,40})[`'\"]?" + _VERSION,
    re.IGNORECASE | re.ASCII,
)
_LISTED = re.compile(r"^\s{0,8}(?:\[\w{3,8}\] )?(" + _ANY + r")\s{1,60}" + _VERSION, re.I | re.A)
_DRIVER = re.compile(
    r"(?:[Dd]river [Vv]ersion|nvidia[- ]driver(?: version)?|驱动版本)\s{0,20}[:：=]?\s{1,4}"
    r"(\d{3}\.\d{1,4}(?:\.\d{1,4})?)",
    re.IGNORECASE | re.ASCII,
)
_CUDA = re.compile(
    r"(?:CUDA used to build PyTorch|CUDA [Rr]untime version|CUDA Version): ?(\d{1,2}\.\d{1,2})",
    re.ASCII,
)
_SHOWN = re.compile(r"^\s{0,8}(Name|Version): (\S{1,80})\s*$")
_WISHED = re.compile(
    r"\b(?:supports?|requires?|required|recommend\w{0,6}|minimum|at least|compatible|expected"
    r"|below)\b|[<>~]=|\bpip3? install\b.{0,40}\"",
    re.IGNORECASE,
)
"""A line that tells which version something wants, not which one is there."""
_MOST = 3_000


def _marks() -> tuple[str, ...]:
    """Literals of the forms; short ones would make every line of a log a candidate."""
    spelled = (
        *("torch", "PyTorch", "Pytorch", "pytorch", "vllm", "vLLM", "sglang", "SGLang"),
        *("transformers", "trl", "TRL", "deepspeed", "DeepSpeed", "accelerate", "swift"),
        *("ray", "Ray", "cuda", "CUDA", "python", "Python", "nccl", "NCCL", "verl"),
    )
    close = [f"{name}{between}" for name in spelled for between in (": ", "：", "   ", " = ")]
    digits = {"torch": "12", "pytorch": "12", "vllm": "0", "sglang": "0", "transformers": "45"}
    digits |= {"trl": "01", "deepspeed": "0", "accelerate": "01", "swift": "234", "ray": "2"}
    digits |= {"cuda": "1", "python": "3", "nccl": "2", "verl": "0"}
    near = [
        f"{name}{between}{digit}"
        for name in spelled
        for digit in digits[name.lower()]
        for between in (" ", " v", ":")
    ]
    return (
        "==",
        "ersion",
        "版本",
        "river",
        "CUDA used",
        "Name: ",
        "[conda]",
        "-nccl-cu",
        *close,
        *near,
    )


class PackageVersions:
    """Versions of the packages that a failure may depend on, each told once a source."""

    marks: tuple[str, ...] = _marks()

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()
        self._shown: str | None = None

    @property
    def wants_more(self) -> bool:
        """Whether ``pip show``'s name waits for its version."""
        return self._shown is not None

    def feed(self, line: Line) -> Iterable[Fact]:
        """Versions that the line names."""
        text = line.text[:4096]
        found: list[tuple[str, str]] = []
        if (shown := _SHOWN.match(text)) is not None:
            if shown[1] == "Name":
                name = shown[2].lower()
                self._shown = name if name in _NAMES else None
                return ()
            if self._shown is not None:
                found.append((_NAMES[self._shown], shown[2]))
        self._shown = None
        if _WISHED.search(text) is not None:
            return ()
        if (built := _CUDA.search(text)) is not None:
            found.append(("cuda", built[1]))
        elif "==" in text:
            found += [(_NAMES[m[1].lower()], m[2]) for m in _PINNED.finditer(text)]
        else:
            found += [(_NAMES[m[1].lower()], m[2]) for m in _SAID.finditer(text)]
            if not found and (listed := _LISTED.match(text)) is not None:
                found.append((_NAMES[listed[1].lower()], listed[2]))
        found += [("nvidia-driver", m[1]) for m in _DRIVER.finditer(text)]
        facts: list[Fact] = []
        for name, version in found:
            version = version.rstrip(".-_+")
            if (name, version) in self._told or len(self._told) >= _MOST:
                continue
            self._told.add((name, version))
            facts.append(PackageVersion(**common(line), name=name, version=version))
        return facts

    def finish(self) -> Iterable[Fact]:
        """Nothing is held back."""
        return ()
