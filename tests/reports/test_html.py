from __future__ import annotations

import base64
import hashlib
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reports.pages import Page, flat
from tests.reports.sample import Sample
from tests.reports.strange import diagnoses
from unstall.model.findings import Diagnosis
from unstall.reports.html import to_html
from unstall.reports.outline import outline

ALLOWED = frozenset(
    """
    html head meta title style body header main footer section div h1 h2 h3 p dl dt dd ol ul li
    b br code cite span table thead tbody tr th td figure figcaption pre details summary
    """.split()  # noqa: SIM905
)


def test_the_page_says_the_verdict() -> None:
    source = to_html(Sample("en").diagnosis())
    assert source.startswith("<!DOCTYPE html>\n")
    page = Page(source)
    said = " ".join(page.text.split())
    assert "engine 1 never entered the all-reduce in which engine 0 waited." in said
    assert "engine-desync: almost certain (91%)" in said
    assert "CONFLICT data_parallel_size 2 not set Two engines that must step together" in said
    assert "answer server: set data_parallel_size=1, remove VLLM_DP_SIZE" in said
    assert "engine 1: idle, 0 running | @ops see #12" in said
    assert "messenger runs/2031-03/answers.log:42" in said
    assert ("html", {"lang": "en"}) in page.elements
    assert page.unbalanced == []


def test_the_page_in_chinese() -> None:
    page = Page(to_html(Sample("zh").diagnosis(), "zh"))
    assert ("html", {"lang": "zh-CN"}) in page.elements
    assert "各程序配置对照" in page.text
    assert "几乎可以确定（91%）" in page.text


def test_nothing_failed_and_not_decided() -> None:
    assert "These lines look alarming but are not:" in to_html(Sample("en").healthy())
    assert "No line of it looks like a failure." in to_html(Diagnosis(verdict="benign"))
    assert "The logs of all ranks from the same minutes." in to_html(Sample("en").undecided())


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    source = to_html(Sample("en").diagnosis())
    page = Page(source)
    assert page.tags <= ALLOWED
    policy = next(
        attributes["content"] or ""
        for tag, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    style = re.findall(r"<style>(.*?)</style>", source, re.DOTALL)
    assert len(style) == 1
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert "url(" not in style[0]
    assert "@import" not in style[0]
    assert "prefers-color-scheme: dark" in style[0]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(diagnoses, st.sampled_from(["en", "zh"]))
def test_whatever_is_said_stays_text(diagnosis: Diagnosis, language: str) -> None:
    source = to_html(diagnosis, language)
    source.encode("utf-8")
    page = Page(source)
    assert page.tags <= ALLOWED
    assert page.unbalanced == []
    assert page.comments == []
    names = {name for _, attributes in page.elements for name in attributes}
    assert names <= {"lang", "charset", "http-equiv", "content", "name", "class", "scope", "open"}
    assert page.count("figure") == len(diagnosis.excerpts)
    view = outline(diagnosis, language)
    said = flat(page.text)
    assert flat(view.headline) in said
    for excerpt in view.excerpts:
        assert flat(excerpt.text) in said
    for row in view.settings:
        assert all(flat(words) in said for words in (row.name, row.why, *row.values))
