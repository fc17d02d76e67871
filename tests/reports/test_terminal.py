from __future__ import annotations

import io
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from tests.reports.sample import Sample
from tests.reports.strange import diagnoses
from unstall.model.facts import Place, Unreadable
from unstall.model.findings import Diagnosis, Finding, Origin, Ranked
from unstall.model.text import say, verbatim
from unstall.reports.terminal import render

FAR = "/mnt/shared-storage/experiments/2031-03-07/run-0017/node-004/stdout/"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def shown(
    diagnosis: Diagnosis,
    language: str = "en",
    *,
    width: int = 80,
    height: int = 24,
    verbose: int = 0,
    terminal: bool = True,
    colour: bool = False,
) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        height=height,
        force_terminal=terminal,
        color_system="truecolor" if colour else None,
        _environ={},
    )
    render(diagnosis, language=language, verbose=verbose, console=console)
    return out.getvalue()


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_the_verdict_on_a_small_screen() -> None:
    lines = shown(Sample("en").diagnosis()).splitlines()
    assert len(lines) <= 23
    assert lines[:8] == [
        "The answer server's two engines fell out of step: engine 1 never entered the",
        "all-reduce in which engine 0 waited.",
        "cause        engine-desync: almost certain (91%)",
        "origin       answer server (rollout, vllm), rank 1",
        "group        data-parallel group, PG ID 4, PG GUID 12, ranks 0, 1",
        "operation    ALLREDUCE, SeqNum 7009, 2 elements, time-out 10 min",
        "since        Mar 7, 04:05:06.250",
        "waiting      rank 0 of answer server only waited",
    ]
    why = [at for at, line in enumerate(lines) if line.startswith("why  ")]
    assert lines[why[0]].startswith("why          1. Rank 0 entered operation 7009")
    assert [line.rsplit("  ")[-1] for line in lines[why[0] : why[0] + 3]] == [
        "answers.log:42",
        "answers.log:42",
        "answers.log:43",
    ]
    assert "ruled out    port-collision: no two listeners share a port  launch_both.sh:4" in lines
    assert "             port-collision, not likely (2%): A port was taken." in lines
    assert any(line.startswith("next step    While it hangs") for line in lines)
    assert lines[-1].startswith("-v shows everything")


def test_a_larger_screen_shows_whole_sentences() -> None:
    text = shown(Sample("en").diagnosis(), width=100, height=40)
    assert len(text.splitlines()) <= 39
    assert "…" not in text
    assert "answer server: set data_parallel_size=1, remove VLLM_DP_SIZE" in text
    assert "vLLM 0.9 forward_context.py" in text
    assert "The trainer had just asked for answers." not in text  # the seventh reason


def test_the_verdict_in_chinese() -> None:
    lines = shown(Sample("zh").diagnosis(), "zh").splitlines()
    assert len(lines) <= 23
    assert lines[:7] == [
        "推理服务的两个引擎失去同步：引擎 1 始终没有进入引擎 0 正在等待的 all-reduce。",
        "原因      engine-desync：几乎可以确定（91%）",
        "源头      answer server（rollout，vllm），rank 1",
        "进程组    数据并行组，PG ID 4，PG GUID 12，rank 0, 1",
        "通信操作  ALLREDUCE，SeqNum 7009，2 个元素，超时 10 分钟",
        "开始时间  3 月 7 日 04:05:06.250",
        "等待方    answer server 的 rank 0 只是在等待",
    ]
    assert "下一步    卡住时用 py-spy dump 抓取服务端四个进程的调用栈。" in lines


def left_out(count: int, kind: str) -> Unreadable:
    reason = say(
        "{count} facts of the kind {kind} between its first {early} and last {late} were left out",
        count=count,
        kind=kind,
        early=4000,
        late=4000,
    )
    place = Place("steps.log", 1)
    return Unreadable(place=place, quote="", reason=str(reason), text=reason, fatal=False)


def test_a_source_of_which_some_was_left_out_could_be_read() -> None:
    some = (left_out(7, "TrainingStep"), left_out(9, "Progress"))
    diagnosis = replace(Sample("en").healthy(), unread=some)
    assert shown(diagnosis).splitlines()[-1] == "Not read whole: steps.log"
    whole = shown(diagnosis, verbose=1).splitlines()
    assert "Not read whole" in whole
    assert not any("Could not be read" in line for line in whole)


def test_one_that_could_not_be_read_is_told_as_that_beside_others() -> None:
    core = Unreadable(place=Place("core.4711", 1), quote="", reason="A core file; skipped.")
    diagnosis = replace(Sample("en").healthy(), unread=(left_out(7, "TrainingStep"), core))
    last = shown(diagnosis).splitlines()[-1]
    assert last == "Could not be read, or not whole: steps.log, core.4711"


def test_the_reason_is_told_in_the_reports_language() -> None:
    diagnosis = replace(Sample("zh").healthy(), unread=(left_out(7, "TrainingStep"),))
    text = shown(diagnosis, "zh", verbose=1, width=100)
    assert "未完整读取" in text
    assert "were left out" not in text


def test_everything_with_v() -> None:
    text = shown(Sample("en").diagnosis(), width=100, verbose=1)
    lines = text.splitlines()
    for title in (
        "Evidence on engine-desync: almost certain (91%)",
        "Evidence on slow-rollout: not likely (6%)",
        "Settings side by side",
        "Time line",
        "Lines that matter",
        "Launch plan",
        "Noticed in the launch scripts",
        "These lines look alarming but are not:",
        "Could not be read",
    ):
        assert title in lines
    assert "Against it   No request was running.  runs/2031-03/answers.log:40  strong" in lines
    assert "Judgement   Setting                  answer server  trainer" in lines
    first, second = (
        next(at for at, line in enumerate(lines) if line.startswith(word))
        for word in ("CONFLICT    data_parallel_size       2              not set", "ok  ")
    )
    assert first < second
    assert "            corrected: --data-parallel-size 1" in lines
    assert "1. Step 311 asks for answers.  runs/2031-03/answers.log:12" in lines
    assert "messenger  runs/2031-03/answers.log:42" in lines
    assert "core.4711: A core file; skipped. Open it with gdb." in lines
    assert "0123456789abcdef" not in text
    assert "hf_abc" not in text


def test_many_programs_on_a_narrow_screen_are_stacked() -> None:
    text = shown(Sample("en").diagnosis(), width=60, verbose=1)
    assert "CONFLICT: data_parallel_size\n    answer server: 2\n    trainer: not set\n" in text


def test_nothing_failed() -> None:
    text = shown(Sample("en").healthy())
    lines = text.splitlines()
    assert lines[0] == "Nothing failed in this input."
    assert "These lines look alarming but are not:" in lines
    assert (
        "harmless process group not destroyed: the job had ended; only its last call is missing "
        "answers.log:7" in squeezed(text)
    )
    quiet = shown(Diagnosis(verdict="benign", counts={"lines": 80, "sources": 1}))
    assert "No line of it looks like a failure." in quiet
    assert "Lines read: 80; sources: 1." in quiet


def test_unknown_says_what_would_decide() -> None:
    lines = shown(Sample("en").undecided()).splitlines()
    assert lines[0].startswith("Not decided: one watchdog line of one rank says only")
    assert "cause       unknown: the evidence does not decide" in squeezed_columns(lines)
    assert "to decide   The logs of all ranks from the same minutes." in squeezed_columns(lines)
    assert any(line.startswith("candidates") and "slow-rollout, possible" in line for line in lines)


def squeezed_columns(lines: list[str]) -> list[str]:
    return [re.sub(r"^(\S+(?: \S+)?)  +", lambda m: m[1].ljust(12), line) for line in lines]


def test_no_cause_at_all() -> None:
    diagnosis = Diagnosis(verdict="inconclusive", counts={"lines": 3, "sources": 1})
    lines = shown(diagnosis).splitlines()
    assert lines == ["The input does not show what failed.", "", "Lines read: 3; sources: 1."]
    assert shown(diagnosis, verbose=1).splitlines() == lines


def test_an_origin_without_a_name() -> None:
    finding = Finding(
        cause="c",
        summary=verbatim("s"),
        support=(),
        origin=Origin("unknown", "trainer", None, (2,)),
    )
    diagnosis = Diagnosis(verdict="failure", causes=(Ranked(finding, 0.8),))
    assert "origin       a program not identified (trainer), rank 2\n" in shown(diagnosis)


def test_several_attempts_are_told() -> None:
    diagnosis = Diagnosis(verdict="benign", attempts=3)
    assert "attempts     3 in this input; this is about the last" in shown(diagnosis)


def test_colour_only_where_the_console_has_it() -> None:
    diagnosis = Sample("en").diagnosis()
    plain = shown(diagnosis, verbose=1)
    coloured = shown(diagnosis, verbose=1, colour=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31mCONFLICT" in coloured
    assert COLOURS.sub("", coloured) == plain


@pytest.mark.parametrize("name", ["NO_COLOR", "FORCE_COLOR"])
def test_the_usual_variables_are_obeyed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TERM", "COLORTERM"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    out = io.StringIO()
    render(Sample("en").diagnosis(), console=Console(file=out, width=80))
    assert ("\x1b[1;31m" in out.getvalue()) == (name == "FORCE_COLOR")


def test_markup_and_escapes_of_the_input_stay_text() -> None:
    source = Sample("en").diagnosis()
    excerpt = source.excerpts[0]
    text = "[bold]x[/bold] \x1b[2J:smile: [link=http://a]y[/link]"
    diagnosis = replace(source, excerpts=(replace(excerpt, text=text),))
    page = shown(diagnosis, verbose=1, width=100)
    assert "    [bold]x[/bold] :smile: [link=http://a]y[/link]\n" in page


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    diagnoses,
    st.sampled_from(["en", "zh"]),
    st.integers(40, 130),
    st.integers(1, 60),
    st.integers(0, 2),
    st.booleans(),
)
def test_whatever_is_said_it_fits_and_stays_text(
    diagnosis: Diagnosis, language: str, width: int, height: int, verbose: int, colour: bool
) -> None:
    text = shown(diagnosis, language, width=width, height=height, verbose=verbose, colour=colour)
    if colour:
        text = COLOURS.sub("", text)
    text.encode("utf-8")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    lines = text.split("\n")
    assert [line for line in lines if cell_len(line) > width] == []
    if not verbose:
        assert len(lines) - 1 <= min(max(height, 24), 40) - 1


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (100, 40)])
def test_a_crowded_verdict_keeps_every_part(language: str, width: int, height: int) -> None:
    text = shown(crowded(language), language, width=width, height=height)
    lines = text.splitlines()
    assert len(lines) <= height - 1
    labels = {
        "en": "cause origin group operation since waiting why fixes candidates",
        "zh": "原因 源头 进程组 通信操作 开始时间 等待方 依据 已排除 解决办法 下一步 其他可能",
    }
    english = ["ruled out", "next step", "less likely"]
    wanted = labels[language].replace(" candidates", "").split()
    for label in wanted + (english if language == "en" else []):
        assert [line for line in lines if line.startswith(label + " ")] != [], label
    assert sum("answers.log:" in line for line in lines) >= 3


def crowded(language: str) -> Diagnosis:
    """More than a screen holds: long sentences, long paths, many items."""
    source = Sample(language).diagnosis()
    first = source.causes[0].finding
    filler = " and it goes on" * 9 if language == "en" else "，而且还没有说完" * 8
    words = str(first.summary) + filler
    support = tuple(
        replace(item, text=verbatim(f"{item.text}{filler}"), place=Place(FAR + "answers.log", 7))
        for item in first.support
    )
    fixes = tuple(replace(fix, text=verbatim(f"{fix.text}{filler}")) for fix in first.fixes * 2)
    step = verbatim(f"{first.next_step}{filler}")
    finding = replace(first, summary=verbatim(words), support=support, fixes=fixes, next_step=step)
    ruled_out = tuple(replace(e, why=verbatim(f"{e.why}{filler}")) for e in source.exonerated * 3)
    causes = (Ranked(finding, 0.91), *source.causes[1:])
    return replace(source, causes=causes, exonerated=ruled_out)
