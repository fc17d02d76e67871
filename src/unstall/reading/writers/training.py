"""Metrics of a training step, one line for each.

Sources: transformers' ``Trainer.log`` and what TRL, ms-swift, LLaMA-Factory and axolotl make of it
(a printed dict), verl's console tracker (``step:6 - a:1``), Megatron's and NeMo's bars (``iteration
6/ 100 | lm loss: …``), torchtitan's ``step:  6  loss: …``, DeepSpeed's ``step=6, skipped=0``,
torchtune's ``1|6|Loss: …``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import Fact, TrainingStep
from unstall.reading.line import Line
from unstall.reading.writers.lines import Thinned, common, small_float, small_int
from unstall.reading.writers.settings import settings_of

_VERL = re.compile(r"\bstep:(\d{1,12}) - (?=\S)", re.ASCII)
_TITAN = re.compile(r"\bstep:?\s{1,8}(\d{1,12})\s{1,8}(?=(?:avg_|global_)?loss:)", re.ASCII)
_TITAN_PAIR = re.compile(r"([A-Za-z_][\w/().]{0,60}):\s{0,8}(-?[\d.,]{1,24}(?:[eE][+-]?\d{1,4})?)")
_DEEPSPEED = re.compile(r"\b(?:global_)?step=(\d{1,12}), (?:skipped=|RunningAvg)", re.ASCII)
_BARS = re.compile(r"\b(?:iteration|global_step:?)\s{0,12}(\d{1,12})(?:/\s{0,12}\d{1,12})? {0,4}\|")
_TUNE = re.compile(r"(?<!\d)(\d{1,9})\|(\d{1,12})\|(?=Loss: )", re.ASCII)
_STEP = re.compile(r"\b(?:global_?)?step[ _=:#]{0,3}(\d{1,12})", re.IGNORECASE | re.ASCII)
_DICT = ("'loss'", '"loss"', "'train_loss'", "'eval_loss'", "'reward'", "'grad_norm'")
_MOST = 400


class TrainingSteps:
    """Turns the lines that print a step's metrics into numbers."""

    marks: tuple[str, ...] = (*_DICT, "step:", "step=", "step ", "iteration ", "|Loss: ")

    def __init__(self) -> None:
        self._thin = Thinned()

    @property
    def wants_more(self) -> bool:
        """Never: a step's metrics stand on one line."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """The step that the line tells of."""
        step = _step_of(line.text[:32_768])
        if step is None:
            return ()
        number, metrics = step
        if number is None and not metrics:
            return ()
        fact = TrainingStep(**common(line), step=number, metrics=metrics)
        return self._thin.pass_on(line.speaker, fact)

    def finish(self) -> Iterable[Fact]:
        """Each speaker's last step, where they had become too many."""
        return self._thin.rest()


def _step_of(text: str) -> tuple[int | None, dict[str, float]] | None:
    if "{" in text and any(mark in text for mark in _DICT):
        return _of_dict(text)
    if "step:" in text and (found := _VERL.search(text)) is not None:
        parts = (part.rpartition(":") for part in text[found.end() :].split(" - ", _MOST))
        return int(found[1]), _numbers((name, value) for name, _, value in parts)
    if "loss:" in text and (found := _TITAN.search(text)) is not None:
        pairs = _TITAN_PAIR.findall(text[found.end() : found.end() + 4096])
        return int(found[1]), _numbers(pairs)
    if "step=" in text and (found := _DEEPSPEED.search(text)) is not None:
        values = settings_of(text[found.start() :]).items()
        return int(found[1]), _numbers((k, v.strip("[]")) for k, v in values if "step" not in k)
    if "|Loss: " in text and (found := _TUNE.search(text)) is not None:
        loss = re.match(r"Loss: ([\d.eE+-]{1,24})", text[found.end() :])
        return int(found[2]), _numbers([("loss", loss[1])] if loss else [])
    barred = "|" in text and ("iteration" in text or "global_step" in text)
    if barred and (found := _BARS.search(text)) is not None:
        parts = (part.rpartition(":") for part in text[found.end() :].split("|", _MOST))
        return int(found[1]), _numbers((name, value) for name, _, value in parts)
    return None


def _of_dict(text: str) -> tuple[int | None, dict[str, float]] | None:
    start = text.find("{")
    end = text.rfind("}")
    values = settings_of(text[start : end + 1 if end > start else len(text)], separators=":")
    metrics = _numbers(values.items())
    if not metrics:
        return None
    step = small_int(values.get("global_step/max_steps", "").partition("/")[0])
    for name in ("global_step", "step", "current_steps"):
        if step is None:
            step = small_int(values.get(name))
    if step is None and (found := _STEP.search(text[:start])) is not None:
        step = int(found[1])
    return step, metrics


def _numbers(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, value in pairs:
        value = value.strip()
        if value.startswith("np.") and value.endswith(")"):
            value = value.partition("(")[2][:-1]
        if value.startswith("tensor("):
            value = value[7:].partition(",")[0].rstrip(")")
        number = small_float(value.removesuffix("%"))
        name = name.strip().strip("'\"")
        if number is not None and 0 < len(name) <= 120:
            numbers[name] = number
        if len(numbers) >= _MOST:
            break
    return numbers
