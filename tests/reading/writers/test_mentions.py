"""A report's links name its project, once for each source."""

import io

from unstall.model.facts import Mention, Place
from unstall.reading.line import Line
from unstall.reading.scanner import scan
from unstall.reading.sources import Source
from unstall.reading.writers.mentions import MentionReader


def _line(text: str, number: int = 1) -> Line:
    return Line(Place("issue.txt", number), text, text)


def test_rewritten_frame_number_names_the_tracker_it_was_posted_to() -> None:
    """``#4`` was turned into a link to the tracker's own pull request 4."""
    text = "frame  [#4](https://github.com/sgl-project/sglang/pull/4) : c10d::x() + 0x1"
    assert [(f.software, f.role) for f in MentionReader().feed(_line(text))] == [
        ("sglang", "inference")
    ]


def test_one_fact_for_each_software() -> None:
    """Ten links to one tracker say no more than one."""
    reader = MentionReader()
    text = "see https://github.com/microsoft/DeepSpeed/issues/12"
    facts = [fact for n in range(1, 11) for fact in reader.feed(_line(text, n))]
    assert [fact.place.line for fact in facts] == [1]
    assert isinstance(facts[0], Mention)


def test_other_addresses_say_nothing() -> None:
    """A link to an unknown project is no mention."""
    assert list(MentionReader().feed(_line("https://github.com/someone/something"))) == []


def test_a_link_that_the_scanner_takes_out_of_the_text_still_names_its_tracker() -> None:
    """The scanner's own lines: the address stands in the line as written, not in its text."""
    written = " frame [#2](https://github.com/vllm-project/vllm/pull/2) : c10d::watchdog() + 0x7"
    (line,) = scan(Source("issue.txt", io.BytesIO(written.encode())))
    assert "github.com" not in line.text
    (fact,) = MentionReader().feed(line)
    assert isinstance(fact, Mention)
    assert (fact.software, fact.role, fact.place.line) == ("vllm", "inference", 1)


def test_a_server_that_is_named_and_words_of_training() -> None:
    """A server's name in prose counts; a path of that name does not; training is told beside it."""
    reader = MentionReader()
    lines = ("/opt/envs/vLLM/lib/python", "[Bug]: vLLM dies at start", "vLLM again", "GRPO 训练")
    told = [
        (f.software, f.role)
        for n, line in enumerate(lines)
        for f in reader.feed(_line(line, n + 1))
    ]
    assert told == [("vllm", "inference"), ("training", "trainer")]
