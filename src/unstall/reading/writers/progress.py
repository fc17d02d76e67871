"""Progress bars: tqdm's in every shape, rich's, and the counters of MetricLogger and Megatron.

Sources: ``tqdm/std.py`` (4.x: ``format_meter``), Hugging Face ``datasets`` (units ``examples``),
Lightning's rich bar, ``MetricLogger.log_every`` of DETR and its descendants, Megatron's
``training_log``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import Fact, Progress
from unstall.reading.line import Line
from unstall.reading.writers.lines import Thinned, common, small_float, small_int

_TIME = r"(?:\d{1,4} ?d(?:ays?)?,? ?)?\d{1,5}:\d\d(?::\d\d)?"
_BAR = re.compile(
    r"(\d{1,3})%\|[^|\n]{0,300}\| ?"
    r"([\d.,]{1,20} ?[kKMGTP]?i?B?)/([\d.,]{1,20} ?[kKMGTP]?i?B?|\?)(?: [A-Za-z]{1,16})?"
    r" ?\[ ?(" + _TIME + r")<(" + _TIME + r"|\?)(?:, {0,4}([^\],]{1,40}))?",
    re.ASCII,
)
_COUNT = re.compile(
    r"(?:^|(?<=[\s:\]]))([\d,]{1,15}) ?([a-zA-Z]{1,16}) \[("
    + _TIME
    + r"), {0,4}([^\],]{1,40}/\w{1,12})",
    re.ASCII,
)
_CLOCK = re.compile(r" \[\d")
_RICH = re.compile(
    r"(?<!\d)(\d{1,9})/(\d{1,9})\s{1,8}(\d{1,4}:\d\d:\d\d) [•·] (\d{1,4}:\d\d:\d\d|-:--:--)"
    r"(?:\s{1,8}([\d.]{1,12}it/s))?",
    re.ASCII,
)
_LOGGER = re.compile(
    r"((?:[A-Za-z]\w{0,30}:? ?)?(?:\[[^\]]{1,30}\])?)\s{0,8}\[\s{0,8}(\d{1,9})/(\d{1,9})\]"
    r"\s{1,8}eta: (" + _TIME + r")",
    re.ASCII,
)
_ITERATION = re.compile(r"\biteration\s{1,12}(\d{1,9})/\s{0,12}(\d{1,9})\b", re.ASCII)
_RATE = re.compile(r"([\d.,]{1,16}) ?([kKMG]?)(?:i?B| ?[A-Za-z]{0,16} ?)/s", re.ASCII)
_SLOW = re.compile(r"([\d.,]{1,16}) ?(s|ms|min)/[A-Za-z]{1,16}", re.ASCII)
_SCALE = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_LABEL = 120
_BARS = 400
"""Bars of one line that are told of; where there are more, its first and its last ones."""


class ProgressBars:
    """States of progress bars; several on one line where a terminal's returns were lost."""

    marks: tuple[str, ...] = ("%|", "/s", "s/it", "it/s", " eta: ", "iteration ")

    def __init__(self) -> None:
        self._thin = Thinned()

    @property
    def wants_more(self) -> bool:
        """Never: a state stands on one line."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """The states that the line shows."""
        text = line.text
        bars = self._bars(line, text) if "%|" in text else []
        if not bars and (one := _single(line, text[:4096])) is not None:
            bars = [one]
        if len(bars) > _BARS:
            bars = bars[: _BARS // 4] + bars[-_BARS * 3 // 4 :]
        facts: list[Fact] = []
        for bar in bars:
            facts += self._thin.pass_on((line.speaker, bar.label, bar.total), bar)
        return facts

    def finish(self) -> Iterable[Fact]:
        """The last states of bars that had become too many."""
        return self._thin.rest()

    @staticmethod
    def _bars(line: Line, text: str) -> list[Progress]:
        bars: list[Progress] = []
        told = common(line)
        behind = 0
        for found in _BAR.finditer(text):
            bars.append(
                Progress(
                    **told,
                    label=_label(text[behind : found.start()]),
                    percent=small_float(found[1]),
                    done=_amount(found[2]),
                    total=_amount(found[3]),
                    elapsed=seconds(found[4]),
                    remaining=seconds(found[5]),
                    unit_rate=rate(found[6]),
                )
            )
            close = text.find("]", found.end(), found.end() + 400)
            behind = close + 1 if close >= 0 else found.end()
        return bars


def _single(line: Line, text: str) -> Progress | None:
    """A state in one of the forms without a bar."""
    if _CLOCK.search(text) is not None and (found := _COUNT.search(text)) is not None:
        return Progress(
            **common(line),
            label=_label(text[: found.start()]),
            done=small_int(found[1]),
            elapsed=seconds(found[3]),
            unit_rate=rate(found[4]),
        )
    if ("•" in text or "·" in text) and (found := _RICH.search(text)) is not None:
        return Progress(
            **common(line),
            label=_label(text[: found.start()].rstrip(" ━╸╺─-")),
            done=int(found[1]),
            total=int(found[2]),
            elapsed=seconds(found[3]),
            remaining=seconds(found[4]),
            unit_rate=rate(found[5]),
        )
    if " eta: " in text and (found := _LOGGER.search(text)) is not None:
        return Progress(
            **common(line),
            label=found[1].strip(),
            done=int(found[2]),
            total=int(found[3]),
            remaining=seconds(found[4]),
        )
    if "iteration " in text and (found := _ITERATION.search(text)) is not None:
        return Progress(**common(line), label="iteration", done=int(found[1]), total=int(found[2]))
    return None


def seconds(text: str | None) -> float | None:
    """Seconds in ``1:02``, ``9:33:11``, ``1 day, 2:03:04`` or ``2d 03:04:05``."""
    text = (text or "").strip()
    days = 0
    if "d" in text:
        before, _, text = text.partition("d")
        days = small_int(before) or 0
        text = text.lstrip("ays, ")
    parts = [small_int(part) for part in text.split(":")]
    if not 2 <= len(parts) <= 3 or any(part is None for part in parts):
        return None
    total = 0
    for part in parts:
        total = total * 60 + (part or 0)
    return float(days * 86_400 + total)


def rate(text: str | None) -> float | None:
    """Units a second in ``3.29it/s``, ``5.55s/it``, ``1.2k examples/s``; ``None`` for ``?it/s``."""
    text = (text or "").strip()
    if (found := _SLOW.match(text)) is not None:
        number = small_float(found[1])
        if not number:
            return None
        return 1 / (number * {"s": 1.0, "ms": 0.001, "min": 60.0}[found[2]])
    if (found := _RATE.match(text)) is not None:
        number = small_float(found[1])
        return number * _SCALE[found[2]] if number is not None else None
    return None


def _amount(text: str) -> int | None:
    text = text.strip().removesuffix("B").removesuffix("i").strip()
    scale = _SCALE.get(text[-1:], 1) if text[-1:].isalpha() else 1
    number = small_float(text.rstrip("kKMGTP "))
    return int(number * scale) if number is not None else None


def _label(text: str) -> str:
    """The words right before a bar, without what an earlier bar left."""
    text = text[-400:].strip()
    return text.removesuffix(":").strip()[-_LABEL:]
