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
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from pathlib import Path

import msgspec

#: Seconds before the end of a job in which nothing may have been written to a checkpoint that has
#: no mark.
SETTLED = 10.0
#: Entries of a checkpoint's folder that are looked at.
_MOST = 100_000
_NUMBER = re.compile(r"\d{1,15}")


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint's file or folder.

    Attributes:
        path: as the pattern finds it.
        step: the last number of its name; -1 without one.
        written: when something in it was last written, as seconds since 1970.
        whole: by its framework's mark; ``None`` where it has none.
    """

    path: Path
    step: int
    written: float
    whole: bool | None


def found(pattern: str) -> list[Checkpoint]:
    """All checkpoints that a pattern of the shell's kind names, the newest first."""
    some = [_read(Path(path)) for path in glob.glob(os.path.expanduser(pattern), recursive=True)]
    return sorted(
        (one for one in some if one is not None),
        key=lambda one: (one.step, one.written),
        reverse=True,
    )


def newest(pattern: str, ended: float) -> Checkpoint | None:
    """The newest whole checkpoint.

    Args:
        pattern: of the shell's kind.
        ended: when the job ended or was stopped, as seconds since 1970.
    """
    for one in found(pattern):
        if one.whole or (one.whole is None and one.written <= ended - SETTLED):
            return one
    return None


def _read(path: Path) -> Checkpoint | None:
    try:
        written = path.stat().st_mtime
        names: set[str] = set()
        if path.is_dir():
            for count, (folder, _, files) in enumerate(os.walk(path)):
                if count > _MOST or len(names) > _MOST:
                    break
                for name in files:
                    names.add(name)
                    with contextlib.suppress(OSError):
                        written = max(written, os.stat(os.path.join(folder, name)).st_mtime)
    except OSError:
        return None
    if path.is_dir() and not names:
        return Checkpoint(path, _step(path), written, False)
    return Checkpoint(path, _step(path), written, _whole(path, names))


def _step(path: Path) -> int:
    numbers = _NUMBER.findall(path.stem if path.is_file() else path.name)
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
