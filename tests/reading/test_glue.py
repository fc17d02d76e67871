"""Several records on one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.reading.glue import Piece, unescape, unglue

E0 = "[E1003 09:00:00.000000001 ProcessGroupNCCL.cpp:632] [Rank 0] a."
BAR = "  7%|▋         | 312/4410 [41:26<9:02:03,  7.94s/it]"


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (E0 + "[rank1]:" + E0, [E0, "[rank1]:" + E0]),
        (E0 + E0, [E0, E0]),
        ("[E ProcessGroupNCCL.cpp:828] a[W socket.cpp:601] b",
         ["[E ProcessGroupNCCL.cpp:828] a", "[W socket.cpp:601] b"]),
        (BAR + "[rank1]: Traceback (most recent call last):",
         [BAR, "[rank1]: Traceback (most recent call last):"]),
        (BAR + " {'loss': 1.0}", [BAR, "{'loss': 1.0}"]),
        (BAR + BAR, [BAR, BAR.lstrip()]),
        (" 0%|          | 0/9 [00:00<?, ?it/s] 11%|█  | 1/9 [00:57<07:42,  7.70it/s, loss=0.6]",
         [" 0%|          | 0/9 [00:00<?, ?it/s]",
          "11%|█  | 1/9 [00:57<07:42,  7.70it/s, loss=0.6]"]),
        ("text(EngineCore_DP0 pid=3) INFO 11-07 02:31:02 [core.py:1] m",
         ["text", "(EngineCore_DP0 pid=3) INFO 11-07 02:31:02 [core.py:1] m"]),
        ("done. terminate called after throwing an instance of 'x'",
         ["done. ", "terminate called after throwing an instance of 'x'"]),
        ("a: frame #0: f + 0x1 frame #1: g", ["a:", "frame #0: f + 0x1", "frame #1: g"]),
        ("x host2:9:10 [0] NCCL INFO a", ["x ", "host2:9:10 [0] NCCL INFO a"]),
    ],
)  # fmt: skip
def test_glued(line: str, parts: list[str]) -> None:
    assert [piece.text for piece in unglue(line) or ()] == parts


@pytest.mark.parametrize(
    "line",
    [
        E0,
        BAR,
        BAR + "  ",
        "frame #3: f(x) + 0x3 (0x7f in /a/b.so)",
        "a.cpp:12: note: b",
        "host2:9:10 [0] NCCL INFO a",
        "[2026-03-04 11:32:40] host2:9:10 [0] misc/socket.cc:50 NCCL WARN x",
        "2026-03-04 11:32:40,123 [W socket.cpp:601] x",
        "see ProcessGroupNCCL.cpp:828 for [rank0]",
        "",
        "Exception raised from f at ../c10/cuda/CUDAException.cpp:43 (most recent call first):",
    ],
)
def test_whole(line: str) -> None:
    assert unglue(line) is None


def test_who_wrote_what_follows() -> None:
    assert [piece.other for piece in unglue(BAR + E0) or ()] == [False, True]
    assert [piece.other for piece in unglue(BAR + BAR) or ()] == [False, False]


def test_a_stack_in_one_string() -> None:
    text = r'{"message": "Traceback (most recent call last):\n  File \"a.py\", line 1\nE: x\n"}'
    assert unescape(text).split("\n")[1] == '  File "a.py", line 1'
    for other in (r"C:\new\name", r"a\nb", r"printf('%d\n\n')"):
        assert unescape(other) == other


@given(st.text(alphabet="[]rank01E: <,?s/it%|()pidCNcp.W#fme\n", max_size=200))
def test_parts_are_the_line(line: str) -> None:
    parts = [piece.text for piece in unglue(line) or [Piece(line, other=False)]]
    assert "".join("".join(parts).split()) == "".join(line.split())
