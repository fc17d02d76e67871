"""Diagnoses with arbitrary words in every field, for properties that must hold whatever is said."""

from __future__ import annotations

from datetime import datetime

from hypothesis import strategies as st

from unstall.model.facts import Fact, Moment, Place, Unreadable
from unstall.model.findings import (
    Change,
    Collective,
    Diagnosis,
    Evidence,
    Excerpt,
    Exonerated,
    Finding,
    Fix,
    Origin,
    ProcessGroup,
    Ranked,
)
from unstall.model.plan import (
    Cited,
    Judgement,
    Parallel,
    Plan,
    Port,
    Program,
    Timeout,
    Value,
)
from unstall.model.text import say, verbatim

NASTY = (
    "",
    " ",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b2J",
    "[bold red]loud[/bold red]",
    "[/]",
    ":smile:",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</details></summary>",
    "<!-- open",
    "-->",
    "{{ 7 * 7 }} {% raw %}",
    "{words} {0} {}",
    "@octocat and @org/team",
    "see #12, GH-34 and octo/repo#5",
    "https://example.org/a/b/issues/1 www.example.org",
    "# heading",
    "- item",
    "1. item",
    "---",
    "> quote",
    "| a | b |\n|---|---|",
    "\\|",
    "`",
    "``` ```` ```",
    "~~~",
    "`|`\\",
    "    indented",
    "[text](javascript:alert(1))",
    "![image](x)",
    "$`\\x`$ $$y$$",
    "**bold** _em_ ~~no~~",
    "&lt;b&gt; &#35;1",
    "line\nbreak\r\nand\u2028more",
    "\u202eoverride\u2066",
    "进程组没有到来，" * 12,
    "x" * 300,
    "词",
    "e\u0301\u0301",
    "❤️👨‍👩‍👧🇨🇳",
    "\udcff\udc80",
    "\x00\x07\x08\x7f",
)

words = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_categories=[]), max_size=40),
    st.lists(st.sampled_from(NASTY), min_size=2, max_size=3).map("".join),
)
numbers = st.integers(-1, 10**20)
ranks = st.lists(st.integers(0, 5000), max_size=6).map(tuple)
texts = st.one_of(words.map(verbatim), words.map(lambda w: say("rank {ranks}", ranks=w)))
places = st.builds(Place, words, st.integers(1, 10**9))
moments = st.builds(
    Moment,
    st.datetimes(datetime(1904, 1, 1), datetime(2200, 1, 1)),
    st.booleans(),
    st.none() | st.integers(-900, 900),
)
floats = st.floats(allow_nan=True, allow_infinity=True)


def few(of: st.SearchStrategy[object], most: int = 3) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(of, max_size=most).map(tuple)


def pairs(values: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(words, values, max_size=3)


evidence = st.builds(Evidence, texts, st.none() | places, floats, st.none() | words)
groups = st.builds(
    ProcessGroup,
    st.none() | numbers,
    st.none() | words,
    st.none() | words,
    st.none() | texts,
    st.none() | ranks,
)
origins = st.builds(Origin, words, words, st.none() | words, ranks, st.none() | groups)
collectives = st.builds(Collective, words, *[st.none() | numbers] * 4)
changes = st.builds(Change, words, pairs(words), few(words))
fixes = st.builds(Fix, texts, st.none() | changes)
ruled_out = st.builds(Exonerated, words, texts, few(places))
excerpts = st.builds(Excerpt, places, words, st.sampled_from(["origin", "noise"]) | words)
findings = st.builds(
    Finding,
    cause=st.sampled_from(["unknown", "engine-desync"]) | words,
    summary=texts,
    support=few(evidence, 8),
    against=few(evidence),
    fixes=few(fixes),
    next_step=st.none() | texts,
    origin=st.none() | origins,
    collective=st.none() | collectives,
    waiting_ranks=ranks,
    started_at=st.none() | moments,
    timeline=few(evidence),
)
values = st.builds(Value, words)
programs = st.builds(
    Program,
    label=words,
    role=words,
    software=words,
    command=few(words),
    flags=pairs(values),
    environment=pairs(values),
    not_exported=pairs(values),
    devices=st.none() | ranks,
    nodes=st.none() | numbers,
    processes=st.none() | numbers,
    parallel=st.builds(
        Parallel, st.none() | numbers, extra=st.dictionaries(words, numbers, max_size=2)
    ),
    ports=few(
        st.builds(
            Port,
            words,
            values,
            st.booleans(),
            st.none() | values,
            st.sampled_from(["fixed", "reserved-late"]),
        )
    ),
    timeouts=few(st.builds(Timeout, words, st.none() | numbers, words, values)),
    engine=st.none() | words,
    versions=pairs(words),
    place=st.none() | places,
    condition=st.none() | words,
)
judgements = st.builds(
    Judgement,
    words,
    pairs(words),
    st.sampled_from(["ok", "conflict", "suspicious", "no effect"]),
    texts,
    few(places),
    st.none() | words,
    few(words),
)
unread = st.one_of(
    st.builds(Unreadable, place=places, quote=words, reason=words),
    st.builds(Fact, place=places, quote=words),
)
diagnoses = st.builds(
    Diagnosis,
    verdict=st.sampled_from(["failure", "benign", "inconclusive"]),
    causes=few(st.builds(Ranked, findings, floats)),
    programs=few(programs, 2),
    plan=st.builds(
        Plan,
        notes=few(st.builds(Cited, texts, few(places))),
        versions=pairs(words),
    ),
    settings=few(judgements),
    exonerated=few(ruled_out),
    excerpts=few(excerpts),
    benign=few(ruled_out),
    unread=few(unread),
    counts=st.fixed_dictionaries({}, optional={"lines": numbers, "sources": numbers}),
    attempts=st.integers(1, 4),
)
