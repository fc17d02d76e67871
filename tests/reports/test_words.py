from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.model.facts import Moment
from unstall.reports import words


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1], "0, 1"),
        ([5, 4, 3, 2, 1, 0, 7], "0-5, 7"),
        ([0, 2, 2, 4], "0, 2, 4"),
        (range(0, 40, 2), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, …"),
    ],
)
def test_runs_of_numbers(numbers: list[int], shown: str) -> None:
    assert words.runs(numbers) == shown


def test_ranks_are_one_or_many() -> None:
    assert words.ranks([7]).render() == "rank 7"
    assert words.ranks([0, 1, 2]).render() == "ranks 0-2"
    assert words.ranks(range(0, 40, 2)).render().endswith("22, … (20 in all)")
    assert words.ranks([0, 1, 2]).render("zh") == "rank 0-2"


@pytest.mark.parametrize(
    ("milliseconds", "english", "chinese"),
    [
        (0.25, "0.25 ms", "0.25 毫秒"),
        (465, "0.465 s", "0.465 秒"),
        (1500, "1.5 s", "1.5 秒"),
        (600_000, "10 min", "10 分钟"),
        (600_013, "10 min", "10 分钟"),
        (95_000, "1 min 35 s", "1 分钟 35 秒"),
        (34_391_000, "9 h 33 min", "9 小时 33 分钟"),
        (18_000_000_000, "208 d 8 h", "208 天 8 小时"),
        (-1, "unknown", "未知"),
    ],
)
def test_durations(milliseconds: float, english: str, chinese: str) -> None:
    assert words.duration(milliseconds).render() == english
    assert words.duration(milliseconds).render("zh") == chinese


def test_moments_show_no_year_that_is_not_known() -> None:
    stamp = datetime(1904, 12, 6, 21, 2, 1, 852_000)
    unknown = Moment(stamp, year_known=False)
    assert words.moment(unknown).render() == "Dec 6, 21:02:01.852"
    assert words.moment(unknown).render("zh") == "12 月 6 日 21:02:01.852"
    known = Moment(stamp.replace(year=2031, microsecond=0), zone=-210)
    assert words.moment(known).render() == "2031-12-06 21:02:01 UTC-03:30"


@pytest.mark.parametrize(
    ("confidence", "word", "share"),
    [
        (0.99, "almost certain", "99%"),
        (1.0, "almost certain", "99%"),
        (0.9, "almost certain", "90%"),
        (0.8, "very likely", "80%"),
        (0.5, "likely", "50%"),
        (0.25, "possible", "25%"),
        (0.001, "not likely", "1%"),
        (0.0, "not likely", "0%"),
        (float("nan"), "not likely", "0%"),
    ],
)
def test_confidence_in_words(confidence: float, word: str, share: str) -> None:
    assert words.certainty(confidence).render() == word
    assert words.percent(confidence) == share


def test_strength_of_evidence() -> None:
    shown = [words.strength(weight).render() for weight in (0.7, 1.5, 3, 5)]
    assert shown == ["weak", "fair", "strong", "decisive"]


@pytest.mark.parametrize(
    ("dirty", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        ("a\nb\tc", "a b c"),
        ("bell\x07", "bell\ufffd"),
        ("\x9b31mred", "red"),
        ("over\u202eride", "override"),
        ("name\udcff", "name\\udcff"),
        ("\x1b]unterminated keeps its words", "unterminated keeps its words"),
        ("界", "界"),
    ],
)
def test_cleaning(dirty: str, harmless: str) -> None:
    assert words.clean(dirty) == harmless


@given(st.text(st.characters(exclude_categories=[])))
def test_cleaned_text_is_one_printable_encodable_line(text: str) -> None:
    shown = words.clean(text)
    shown.encode("utf-8")
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in shown)
    assert len(shown.splitlines()) <= 1


def test_long_text_is_cut() -> None:
    assert len(words.clean("x" * 10**6)) == words.LONGEST


@pytest.mark.parametrize("name", ["HF_TOKEN", "hub_token", "WANDB_API_KEY", "AWS_ACCESS_KEY_ID"])
def test_secret_names(name: str) -> None:
    assert words.shown_value(name, "s3cret") == "***"
    assert words.shown_value(name, "not set") == "not set"


@pytest.mark.parametrize("name", ["IMAGE_MAX_TOKEN_NUM", "max_tokens", "MASTER_PORT", "monkey"])
def test_names_that_only_look_secret(name: str) -> None:
    assert words.shown_value(name, "512") == "512"


def test_secrets_in_commands() -> None:
    command = ("run", "--hub_token", "hf_x", "--api-key=k", "HF_TOKEN=t", "--max_tokens", "9")
    shown = ("run", "--hub_token", "***", "--api-key=***", "HF_TOKEN=***", "--max_tokens", "9")
    assert words.shown_command(command) == shown


def test_enumerations_use_the_languages_comma() -> None:
    assert words.sequence(["a", 2, "c"]).render() == "a, 2, c"
    assert words.sequence(["a", 2, "c"]).render("zh") == "a，2，c"
    assert words.sequence([]).render() == ""
