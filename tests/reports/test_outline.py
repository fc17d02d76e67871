from __future__ import annotations

import pytest

from unstall.model.findings import Change, Collective, Evidence, Origin, ProcessGroup
from unstall.model.text import say, verbatim
from unstall.reports.outline import (
    change_text,
    collective_text,
    group_text,
    origin_text,
    strongest,
)


@pytest.mark.parametrize(
    ("collective", "shown"),
    [
        (Collective("BROADCAST"), "BROADCAST"),
        (Collective("", 3), "unnamed operation, SeqNum 3"),
        (Collective("ALLREDUCE", 1, 1, 1, 1500), "ALLREDUCE, SeqNum 1, 1 element, time-out 1.5 s"),
        (Collective("GATHER", None, 4, 32), "GATHER, 4 elements in, 32 out"),
        (Collective("GATHER", None, None, 32), "GATHER, 32 elements out"),
        (Collective("GATHER", None, None, 1), "GATHER, 1 element out"),
        (Collective("GATHER", None, 4), "GATHER, 4 elements in"),
        (Collective("GATHER", None, 1), "GATHER, 1 element in"),
    ],
)
def test_operations(collective: Collective, shown: str) -> None:
    assert collective_text(collective).render() == shown


@pytest.mark.parametrize(
    ("origin", "shown"),
    [
        (Origin("trainer", "trainer", "torchrun", (0,)), "trainer (torchrun), rank 0"),
        (Origin("trainer", "trainer"), "trainer"),
        (Origin("vllm", "inference", "vllm", (1, 2, 3)), "vllm (inference), ranks 1-3"),
        (Origin("unknown", "reward"), "a program not identified (reward model)"),
    ],
)
def test_origins(origin: Origin, shown: str) -> None:
    assert origin_text(origin).render() == shown


def test_groups() -> None:
    group = ProcessGroup(2, "7", "tp:0", say("trainer"), (0, 1, 2, 3))
    assert group_text(group).render() == ('trainer, named "tp:0", PG ID 2, PG GUID 7, ranks 0-3')
    assert group_text(group).render("zh") == "训练，名为“tp:0”，PG ID 2，PG GUID 7，rank 0-3"


def test_changes_hide_secrets() -> None:
    change = Change("server", {"dp": "1", "HF_TOKEN": "abc"}, ("A", "B"))
    assert change_text(change).render() == "server: set dp=1 HF_TOKEN=***, remove A B"


def test_the_strongest_come_first_and_equals_keep_their_order() -> None:
    evidence = [
        Evidence(verbatim(name), weight=w) for name, w in zip("abcd", (1, 3, 1, 5), strict=True)
    ]
    assert [str(item.text) for item in strongest(evidence, 3)] == ["d", "b", "a"]
