"""Translations of the sentences in :func:`unstall.model.text.say`, one folder a language.

Every ``*.toml`` below ``languages/<language>/`` is a table ``"English template" = "translation"``.
The file's name says which part of the program its sentences come from. A test collects every
literal given to ``say`` and asks that each has a translation with the same named places.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import resources

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib

LANGUAGES = ("en", "zh")


@cache
def catalogue(language: str) -> dict[str, str]:
    """All translations into a language: English template to translated template."""
    merged: dict[str, str] = {}
    folder = resources.files(__package__).joinpath(language)
    if not folder.is_dir():
        return merged
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".toml"):
            merged.update(tomllib.loads(file.read_text(encoding="utf-8")))
    return merged


def translate(template: str, language: str) -> str:
    """The template in another language, or itself where that language lacks it."""
    return catalogue(language).get(template, template)
