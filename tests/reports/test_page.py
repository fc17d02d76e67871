"""Labels and what stands beside them: whole where it is to be copied."""

import io

from rich.console import Console

from unstall.model.text import say
from unstall.reports.page import Page


def whole(text, width=40, language="en"):
    page = io.StringIO()
    Page(Console(file=page, width=width, highlight=False), language).whole(say("evidence"), text)
    return page.getvalue().splitlines()


def test_a_path_longer_than_the_line_stays_whole():
    path = "/home/u/[a] b/unstall-two-group-order-20261130-193519/evidence"
    assert whole(path) == [f"evidence       {path}"]


def test_chinese_labels_take_two_columns_a_character():
    (line,) = whole("x", language="zh")
    label = line.removesuffix("x")
    assert label.strip() == "证据"
    assert len(label) == 13
