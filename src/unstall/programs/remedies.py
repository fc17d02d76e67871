"""What a framework's own settings and releases offer against a cause.

Each framework that has such knowledge keeps it in ``programs/<framework>/remedies.py`` as a
function ``remedies(cause, program, programs)``; this module asks those that concern a program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from unstall.model.findings import Fix
from unstall.model.plan import Program
from unstall.programs.swift import remedies as swift
from unstall.programs.trl import remedies as trl
from unstall.programs.vllm import remedies as vllm

Remedies = Callable[[str, Program, Sequence[Program], Mapping[str, str]], list[Fix]]

#: Software to its remedies, the outer software (which has the flags) before its engine.
_KNOWN: tuple[tuple[str, Remedies], ...] = (
    ("ms-swift", swift.remedies),
    ("trl", trl.remedies),
    ("vllm", vllm.remedies),
)


def remedies(
    cause: str, program: Program | None, programs: Sequence[Program], versions: Mapping[str, str]
) -> list[Fix]:
    """Fixes in order, those of the program's own software before its engine's."""
    if program is None:
        return []
    found: list[Fix] = []
    for software, of in _KNOWN:
        if software in (program.software, program.engine):
            found.extend(of(cause, program, programs, versions))
    return found
