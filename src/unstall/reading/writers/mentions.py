"""Addresses of trackers: a pasted report often says by its links which project it was posted to.

Issue trackers turn ``#1`` in a pasted stack into a link to their own pull request 1, so that even a
report without any prose names its project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import Fact, Mention
from unstall.programs.speakers import TRAINING, by_mention
from unstall.reading.line import Line

#: Words of a text that is about training too: a server named in it need not be what failed.
TRAINS = ("GRPO", "RLHF", "rainer", "raining", "fine-tun", "训练", "微调")
_NAMES = ("vLLM", "VLLM", "SGLang")
_NAMED = re.compile(rf"(?<![\w/.-])({'|'.join(_NAMES)})(?![\w/-])")


class MentionReader:
    """One :class:`~unstall.model.facts.Mention` for each software that a source links to."""

    # The scanner takes links out of a line; those of a pasted C++ stack stand behind "frame #".
    marks: tuple[str, ...] = ("github.com/", "frame #", "vLLM", "SGLang", *TRAINS)

    def __init__(self) -> None:
        self._seen: set[str] = set()

    @property
    def wants_more(self) -> bool:
        """Never: an address stands on one line."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """The mention on this line, if it is the first of its software."""
        if "github.com/" not in line.raw and "github.com/" not in line.text:
            yield from self._by_name(line)
            return
        sign = by_mention(line.raw) or by_mention(line.text[:2000])
        if sign is None or sign.software in self._seen:
            return
        self._seen.add(sign.software)
        yield Mention(
            place=line.place,
            quote=line.raw,
            speaker=line.speaker,
            software=sign.software,
            role=sign.role,
        )

    def _by_name(self, line: Line) -> Iterable[Fact]:
        """A server that a person names, and a training that the text is about as well."""
        text = line.text[:600]
        named = _NAMED.search(text) if any(name in text for name in _NAMES) else None
        if named is not None:
            software, role = named[1].lower(), "inference"
        elif any(word in line.text for word in TRAINS):
            software, role = TRAINING, "trainer"
        else:
            return
        if software not in self._seen:
            self._seen.add(software)
            yield Mention(
                place=line.place,
                quote=line.raw,
                speaker=line.speaker,
                software=software,
                role=role,
            )

    def finish(self) -> Iterable[Fact]:
        """Nothing is held back."""
        return ()
