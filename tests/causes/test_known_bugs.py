"""What a known defect adds to a claim: inside its range, outside, and where nothing tells."""

from __future__ import annotations

import pytest

from unstall.causes.known_bugs import consulted
from unstall.job import build
from unstall.model.facts import Fact, PackageVersion, Place, PythonException
from unstall.model.findings import Finding, Fix
from unstall.model.plan import Plan
from unstall.model.text import verbatim

FAILED = PythonException(
    place=Place("r1.log", 40),
    quote="FileNotFoundError: …",
    type="FileNotFoundError",
    message="[Errno 2] No such file or directory: 'o/tmp-checkpoint-9' -> 'o/checkpoint-9'",
)


def claim(cause: str = "python-exception", *fixes: str) -> Finding:
    return Finding(
        cause=cause,
        summary=verbatim("a claim"),
        support=(),
        fixes=tuple(Fix(verbatim(text)) for text in fixes),
    )


def transformers(version: str) -> Fact:
    return PackageVersion(
        place=Place("pip.txt", 1), quote=version, name="transformers", version=version
    )


@pytest.mark.parametrize(
    ("facts", "said", "weight", "fixes"),
    [
        ((FAILED, transformers("4.37.1")), "4.37.1 has it", 0.7, 1),
        ((FAILED, transformers("4.40.0")), "4.40.0 is outside", 0.0, 0),
        ((FAILED,), "the release here is not told", 0.7, 1),
    ],
)
def test_the_release_decides(facts: tuple[Fact, ...], said: str, weight: float, fixes: int) -> None:
    found = consulted(build(facts, Plan()), claim())
    (item,) = found.support
    assert said in str(item.text)
    assert item.weight == weight
    assert item.place == Place("r1.log", 40)
    assert item.source is not None
    assert item.source.startswith("https://github.com/huggingface/transformers/")
    assert len(found.fixes) == fixes


def test_another_cause_is_left_alone() -> None:
    other = claim("host-oom")
    assert consulted(build((FAILED, transformers("4.37.1")), Plan()), other) is other


def test_a_fix_that_names_the_release_is_not_doubled() -> None:
    found = consulted(
        build((FAILED, transformers("4.37.1")), Plan()),
        claim("python-exception", "take transformers 4.38.0"),
    )
    assert [str(fix.text) for fix in found.fixes] == ["take transformers 4.38.0"]
