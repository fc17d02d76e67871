from __future__ import annotations

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.reports.pages import Page, flat
from tests.reports.sample import Sample
from tests.reports.strange import NASTY, diagnoses, words
from unstall.model.findings import Diagnosis
from unstall.reports.markdown import code, fence, inline, to_markdown
from unstall.reports.outline import outline
from unstall.reports.words import clean

ALLOWED = frozenset(
    """
    h2 p table thead tbody tr th td strong em code pre ol ul li br sub details summary
    """.split()  # noqa: SIM905
)
TABLE = ("table", "thead", "tbody", "tr", "th", "td")

# What trackers turn into mentions and links, wherever it stands outside code.
REFERENCE = re.compile(r"(?<![\w`])@\w|#\d|\bGH-\d|\w://|\bwww\.\w", re.IGNORECASE)


def page(markdown: str) -> Page:
    return Page(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown))


def linked(of: Page) -> list[str]:
    return [
        piece
        for piece, around in of.pieces
        if not {"code", "pre"} & set(around) and REFERENCE.search(piece)
    ]


def test_the_report_in_english() -> None:
    lines = to_markdown(Sample("en").diagnosis()).splitlines()
    assert lines[0] == (
        "## The answer server's two engines fell out of step: engine 1 never entered the "
        "all-reduce in which engine 0 waited."
    )
    assert "| **Cause** | engine-desync: almost certain (91%) |" in lines
    assert "| **Since** | Mar 7, 04:05:06.250 |" in lines
    assert (
        "1. Rank 0 entered operation 7009, rank 1 stopped after 7008. `runs/2031-03/answers.log:42`"
        in lines
    )
    assert (
        "1. Start two independent servers instead of one with data parallel 2.<br>"
        "`answer server: set data_parallel_size=1, remove VLLM_DP_SIZE`" in lines
    )
    assert "- device-overlap: the devices are disjoint `launch_both.sh:9`" in lines
    assert "- slow-rollout, not likely (6%): Answers took longer than the time-out." in lines
    assert (
        "| ❌ CONFLICT | `data_parallel_size` | `2` | `not set` | Two engines that must step "
        "together, without a coordinator. `launch_both.sh:12`<br>corrected: "
        "`--data-parallel-size 1` |" in lines
    )
    assert "engine 1: idle, 0 running | @ops see #12" in lines
    assert lines[-1] == "<sub>Diagnosis by unstall · Lines read: 1,204; sources: 3.</sub>"


def test_the_report_in_chinese() -> None:
    lines = to_markdown(Sample("zh").diagnosis(), "zh").splitlines()
    assert "| **原因** | engine-desync：几乎可以确定（91%） |" in lines
    assert "**已排除**" in lines
    assert "<summary>各程序配置对照</summary>" in lines
    assert "| 判定 | 配置项 | answer server | trainer | 理由 |" in lines


def test_details_are_folded_and_closed() -> None:
    shown = page(to_markdown(Sample("en").diagnosis()))
    assert shown.count("details") == 10
    assert shown.unbalanced == []
    assert shown.open == []
    assert linked(shown) == []


def test_nothing_failed_and_not_decided() -> None:
    healthy = to_markdown(Sample("en").healthy())
    assert healthy.startswith("## Nothing failed in this input.\n")
    assert "- process group not destroyed: the job had ended" in healthy
    undecided = to_markdown(Sample("en").undecided())
    assert "| **To decide** | The logs of all ranks from the same minutes. |" in undecided
    assert "**Candidates**" in undecided


def test_what_marks_become() -> None:
    assert inline("a|b") == "a&#124;b"
    assert inline("@ops #12") == "@<!-- -->ops \\#<!-- -->12"
    assert inline("GH-7") == "G<!-- -->H-7"
    assert inline("http://x") == "http:<!-- -->//x"
    assert inline("<b>") == "&lt;b&gt;"
    assert inline("- x") == "\\- x"
    assert inline("12. x") == "12\\. x"
    assert code("a|b`c") == "<code>a&#124;b&#96;c</code>"
    assert code("run_1.log:4") == "`run_1.log:4`"
    assert fence("x ``` y") == "````text\nx ``` y\n````"


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(NASTY) | words)
def test_words_come_out_as_they_went_in(raw: str) -> None:
    text = clean(raw)
    for shown in (
        page(f"- {inline(text)}"),
        page(f"| a | b |\n|---|---|\n| {inline(text)} | end |"),
        page(f"| a | b |\n|---|---|\n| {code(text)} | end |"),
        page(f"## {inline(text)}"),
    ):
        assert flat(text) in flat(shown.text)
        assert linked(shown) == []
        assert shown.tags <= {"ul", "li", "p", "h2", "code", *TABLE}
        assert "end" in shown.text or "table" not in shown.tags


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(diagnoses, st.sampled_from(["en", "zh"]))
def test_whatever_is_said_the_structure_stays(diagnosis: Diagnosis, language: str) -> None:
    markdown = to_markdown(diagnosis, language)
    markdown.encode("utf-8")
    shown = page(markdown)
    assert shown.tags <= ALLOWED
    assert all(attributes.keys() <= {"class", "start"} for _, attributes in shown.elements)
    assert linked(shown) == []
    assert shown.unbalanced == []
    assert shown.count("h2") == 1
    assert shown.count("details") == shown.count("summary") == markdown.count("\n<details>\n")
    assert shown.count("pre") == len(diagnosis.excerpts)
    view = outline(diagnosis, language)
    said = flat(shown.text)
    assert flat(view.headline) in said
    for row in view.settings:
        assert all(flat(words) in said for words in (row.name, row.why, *row.values))
    for cause in view.causes:
        assert all(flat(point.text) in said for point in cause.support + cause.against)
