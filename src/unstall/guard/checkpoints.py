"""The checkpoint from which a job can go on: the newest that is whole.

A job that hangs while it saves leaves half a checkpoint behind, and going on from that fails at
once. Frameworks write a mark when all the rest is there:

- ``torch.distributed.checkpoint``: ``.metadata`` in the folder (``filesystem.py``, ``finish``; the
  ``*.distcp`` files before it);
- DeepSpeed: ``latest`` beside the folder, or in the one around it, names the last whole one
  (``engine.py``, ``save_checkpoint``);
- Megatron-LM: ``latest_checkpointed_iteration.txt`` beside ``iter_0000100`` (``checkpointing.py``);
- transformers' ``Trainer``: ``trainer_state.json`` in ``checkpoint-100`` (``trainer.py``,
  ``_save_checkpoint``, 4.57).

One without a mark counts as whole if nothing was written to it in the last moments of the job.
Those of earlier runs do not count: a folder often holds them, with higher steps.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

#: Seconds before the end of a job in which nothing may have been written to a checkpoint that has
#: no mark.
SETTLED = 10.0
#: Entries of a checkpoint's folder that are looked at.
_MOST = 100_000
_NUMBER = re.compile(r"\d{1,15}")
#: Where a name holds several numbers, the one of these words is the step.
_STEPS = tuple(
    re.compile(word + r"s?[-_= ]{0,3}(\d{1,15})")
    for word in (r"(?:step|iter|iteration)", r"(?:checkpoint|ckpt)", r"epoch")
)
#: Seconds by which the clock of a file server may be behind.
SKEW = 60.0


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint's file or folder.

    Attributes:
        path: as the pattern finds it.
        step: by its name; -1 without a number.
        written: when something in it was last written, as seconds since 1970, as files say.
        changed: the same as the file system says, whatever was set since.
        whole: by its framework's mark; ``None`` where it has none.
    """

    path: Path
    step: int
    written: float
    changed: float
    whole: bool | None


def found(pattern: str) -> Iterator[Checkpoint]:
    """All checkpoints that a pattern of the shell's kind names, the newest first."""
    paths = [Path(path) for path in glob.iglob(os.path.expanduser(pattern), recursive=True)]
    for path in sorted(paths, key=lambda one: (_step(one), _written(one)), reverse=True):
        one = _read(path)
        if one is not None:
            yield one


def newest(pattern: str, ended: float, begun: float = 0.0) -> Checkpoint | None:
    """The newest whole checkpoint.

    Args:
        pattern: of the shell's kind.
        ended: when the job ended or was stopped, as seconds since 1970.
        begun: when the first attempt began; checkpoints that were there before do not count.
    """
    for one in found(pattern):
        if one.changed < begun - SKEW:
            continue
        if one.whole or (one.whole is None and one.written <= ended - SETTLED):
            return one
    return None


def _written(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _read(path: Path) -> Checkpoint | None:
    try:
        about = path.stat()
        written, changed = about.st_mtime, about.st_ctime
        names: set[str] = set()
        if path.is_dir():
            for count, (folder, _, files) in enumerate(os.walk(path)):
                if count > _MOST or len(names) > _MOST:
                    break
                for name in files:
                    names.add(name)
                    with contextlib.suppress(OSError):
                        about = os.stat(os.path.join(folder, name))
                        written = max(written, about.st_mtime)
                        changed = max(changed, about.st_ctime)
    except OSError:
        return None
    whole = _whole(path, names) if names or not path.is_dir() else False
    return Checkpoint(path, _step(path), written, changed, whole)


def _step(path: Path) -> int:
    name = path.name.removesuffix(path.suffix) if path.suffix[1:].isalpha() else path.name
    for word in _STEPS:
        if (told := word.search(name.lower())) is not None:
            return int(told[1])
    numbers = _NUMBER.findall(name)
    return int(numbers[-1]) if numbers else -1


def _whole(path: Path, names: set[str]) -> bool | None:
    if any(name.endswith(".distcp") for name in names) and ".metadata" not in names:
        return False
    beside = _first_word(path.parent / "latest_checkpointed_iteration.txt")
    if path.name.startswith("iter_") and beside is not None:
        return beside == "release" or (beside.isdigit() and _step(path) <= int(beside))
    if path.name.startswith("checkpoint-") and names & _TRAINER:
        if "trainer_state.json" not in names:
            return False
        inside = _first_word(path / "latest")  # DeepSpeed under the Trainer
        return (path / inside).is_dir() if inside else True
    latest = _first_word(path.parent / "latest")
    if latest is not None and any(name.endswith("_states.pt") for name in names):
        return _step(path) <= _step(Path(latest))
    return True if ".metadata" in names else None


#: Files of the Trainer's checkpoints.
_TRAINER = frozenset(
    {
        "trainer_state.json", "training_args.bin", "optimizer.pt", "scheduler.pt",
        "model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors",
        "pytorch_model.bin", "pytorch_model.bin.index.json",
    }
)  # fmt: skip


def _first_word(path: Path) -> str | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(256).strip() or None
    except OSError:
        return None
