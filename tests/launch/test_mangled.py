from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.launch.mangled import repair
from unstall.launch.prose import is_prose


def test_a_whole_script_comes_back_unchanged() -> None:
    text = (
        "#!/bin/bash\nset -e\nexport A=1\n# a comment\nARGS=(\n  --x 1\n  --y 2\n)\n"
        "cat <<EOF\n--not a flag\nIt's prose, but quoted.\nEOF\n"
        "torchrun --nproc_per_node 2 \\\n  train.py \\\n  --lr 1\n"
        'echo "a\n--b\nc"\n'
        'if [ -n "$A" ]; then\n  run_it --x\nfi\n'
    )
    fixed = repair(text)
    assert fixed.text == text
    assert (fixed.joined, fixed.assignments, fixed.prose) == ((), (), ())


def test_flags_on_lines_of_their_own_are_joined_to_the_command() -> None:
    fixed = repair("prog run\n--a 1\n  --b\n-c 2 &\necho done")
    assert fixed.text.split("\n") == ["prog run \\", "--a 1 \\", "  --b \\", "-c 2 &", "echo done"]
    assert fixed.joined == (0, 1, 2)


def test_assignments_right_before_a_broken_command_belong_to_it() -> None:
    fixed = repair("export K=1\n\nA=1\nB='x y'\nC=$(echo $D | cut -d, -f1)\nprog\n--a 1")
    assert fixed.assignments == (2, 3, 4)


def test_assignments_stay_where_no_backslash_was_lost() -> None:
    assert repair("A=1\nB=2\nprog --a 1").assignments == ()


@pytest.mark.parametrize(
    "line",
    [
        "Install the dependencies",
        "8 * 80GiB of memory",
        "--- 第一步 ---",
        "必须先启动服务",
        "新增】端口",
        "Set the W&B project and run's name",
        "don't forget to start the server",
        "====== part two ======",
    ],
)
def test_prose(line: str) -> None:
    assert is_prose(line)


@pytest.mark.parametrize(
    "line",
    [
        "swift rlhf --model x",
        "A=1",
        "A=1 prog",
        "./run.sh",
        "/usr/bin/env python x.py",
        "my_tool --flag x",
        "}",
        "echo 你好",
        "python 训练.py --数据 a",
        "# comment",
        "",
        "export 名字=1",
        'if [ "$A" = "是" ]; then',
        "mytool 'single quoted'",
        "PORT=$(get)",
        "ARGS+=(--x)",
        "--model /x",
    ],
)
def test_not_prose(line: str) -> None:
    assert not is_prose(line)


def test_windows_line_ends_are_noted_and_removed() -> None:
    fixed = repair("A=1\r\nprog \\\r\n  --x 1\r\n")
    assert fixed.carriage_returns
    assert fixed.text == "A=1\nprog \\\n  --x 1\n"


def test_an_apostrophe_in_prose_swallows_nothing() -> None:
    fixed = repair("Don't panic\nprog\n--x 1\n")
    assert fixed.prose == (0,)
    assert fixed.joined == (1,)


def test_an_unclosed_quote_costs_its_own_line_only() -> None:
    fixed = repair('echo "never closed\nprog\n--x 1\n')
    assert 1 in fixed.joined


@given(st.text(max_size=400))
def test_any_text_keeps_its_number_of_lines(text: str) -> None:
    fixed = repair(text)
    expected = text.replace("\r\n", "\n").replace("\r", " ").count("\n")
    assert fixed.text.count("\n") == expected


def test_a_launchers_script_on_a_line_of_its_own_goes_on() -> None:
    fixed = repair("torchrun\n--nproc_per_node 4\ntrain.py\n--lr 1\npython other.py\n")
    assert fixed.joined == (0, 1, 2)


def test_overrides_on_lines_of_their_own_go_on() -> None:
    fixed = repair(
        "python -m verl.trainer.main_ppo\ndata.size=8\n+a.b.c=x\ntrainer.nnodes=2\necho x\n"
    )
    assert fixed.joined == (0, 1, 2)


def test_a_script_that_is_run_by_itself_stays_a_command() -> None:
    assert repair("cd /x\ntrain.py --lr 1\nA=1\n").joined == ()
