"""Sentences for users, kept apart from the language they are shown in."""

from __future__ import annotations

from typing import Union

import msgspec

TextValue = Union[str, int, float, "Text"]


class Text(msgspec.Struct, frozen=True):
    """A sentence with named places for its values.

    Attributes:
        template: the English sentence, in :meth:`str.format` syntax with named fields only. It is
            also the key under which ``unstall/languages/<language>/*.toml`` hold translations.
        values: what stands in the places. Text from a user's input may stand here; it is never
            parsed as a template.
    """

    template: str
    values: dict[str, TextValue] = {}

    def render(self, language: str = "en") -> str:
        """The sentence in a language (``en`` or ``zh``); English where no translation is known."""
        from unstall.languages import translate

        template = self.template if language == "en" else translate(self.template, language)
        if not self.values:
            return template.replace("{{", "{").replace("}}", "}")
        shown = {
            name: value.render(language) if isinstance(value, Text) else value
            for name, value in self.values.items()
        }
        return template.format(**shown)

    def __str__(self) -> str:
        return self.render()


def say(template: str, /, **values: TextValue) -> Text:
    """A sentence for users; ``template`` must be a literal, so that its translation is checked."""
    return Text(template, values)


def verbatim(words: str) -> Text:
    """Words that are the same in every language: a command, a quotation, a number."""
    return Text("{words}", {"words": words})
