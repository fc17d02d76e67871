"""Every sentence for users is a literal, has its translation, and no translation is left over."""

from __future__ import annotations

import ast
import string
import sys
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest

import unstall
from unstall.languages import LANGUAGES, catalogue
from unstall.model.text import say
from unstall.programs.known_bugs import known_bugs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(unstall.__file__).parent


class Said(NamedTuple):
    """One call of ``say``: where, its template (None: not a literal) and the places it fills."""

    where: str
    template: str | None
    filled: frozenset[str]
    all_known: bool


def find_said(source: str, name: str) -> list[Said]:
    """Calls of ``say`` under whatever name a module imported it; other methods may be called so."""
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "unstall.model.text"
        for alias in node.names
        if alias.name == "say"
    }
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Attribute):
            known = called.attr == "say" and getattr(called.value, "id", "") == "text"
        else:
            known = isinstance(called, ast.Name) and called.id in names
        if not known:
            continue
        first = node.args[0] if node.args else None
        literal = isinstance(first, ast.Constant) and isinstance(first.value, str)
        found.append(
            Said(
                f"{name}:{node.lineno}",
                str(first.value) if literal and isinstance(first, ast.Constant) else None,
                frozenset(keyword.arg for keyword in node.keywords if keyword.arg),
                all(keyword.arg for keyword in node.keywords) and len(node.args) == 1,
            )
        )
    return found


@lru_cache(maxsize=1)
def all_said() -> tuple[Said, ...]:
    said: list[Said] = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name != "model/text.py":
            said += find_said(path.read_text(encoding="utf-8"), name)
    return tuple(said)


def sentences_of_data() -> frozenset[str]:
    """Sentences for users that stand in data files: those of the known defects."""
    return frozenset(words for bug in known_bugs() for words in (bug.what, bug.advice))


def places(template: str) -> frozenset[str]:
    """Named places of a template; a ValueError for one that is not well formed."""
    return frozenset(
        field for _, field, _, _ in string.Formatter().parse(template) if field is not None
    )


def translations(language: str) -> list[tuple[str, str, str]]:
    """File, template and translation, one by one."""
    return [
        (path.name, template, translated)
        for path in sorted((ROOT / "languages" / language).glob("*.toml"))
        for template, translated in tomllib.loads(path.read_text(encoding="utf-8")).items()
    ]


def test_the_search_sees_literals_joined_literals_and_what_is_none() -> None:
    source = (
        "from unstall.model.text import say, say as tell\n"
        'say("a {x}", x=1)\ntext.say("b"\n  " c")\nsay(f"d {e}")\ntell(name, **more)\n'
        'hear("f")\ndrafts.say(fact)\n'
    )
    found = sorted(find_said(source, "m.py"))
    assert [item.template for item in found] == ["a {x}", "b c", None, None]
    assert [item.where for item in found] == ["m.py:2", "m.py:3", "m.py:5", "m.py:6"]
    assert found[0].filled == {"x"}
    assert not found[3].all_known


def test_there_are_sentences() -> None:
    assert len(all_said()) > 100


def test_every_sentence_is_a_literal() -> None:
    assert [item.where for item in all_said() if item.template is None] == []


def test_every_place_is_named_and_filled() -> None:
    wrong = [
        (item.where, item.template)
        for item in all_said()
        if item.template is not None and item.all_known and places(item.template) != item.filled
    ]
    assert wrong == []


@pytest.mark.parametrize("language", [name for name in LANGUAGES if name != "en"])
class TestTranslations:
    def test_none_is_missing(self, language: str) -> None:
        known = catalogue(language)
        missing = {
            item.template: item.where
            for item in all_said()
            if item.template is not None and item.template not in known
        }
        assert missing == {}

    def test_no_sentence_of_the_data_is_missing(self, language: str) -> None:
        assert sorted(sentences_of_data() - set(catalogue(language))) == []

    def test_none_is_unused(self, language: str) -> None:
        used = {item.template for item in all_said()} | sentences_of_data()
        assert [row[:2] for row in translations(language) if row[1] not in used] == []

    def test_they_have_the_same_places(self, language: str) -> None:
        wrong = [row for row in translations(language) if places(row[1]) != places(row[2])]
        assert wrong == []

    def test_they_are_not_empty(self, language: str) -> None:
        assert [row for row in translations(language) if not row[2].strip()] == []

    def test_one_template_has_one_translation(self, language: str) -> None:
        seen: dict[str, tuple[str, str]] = {}
        differing = [
            (template, (name, translated), seen[template])
            for name, template, translated in translations(language)
            if seen.setdefault(template, (name, translated))[1] != translated
        ]
        assert differing == []


def test_a_sentence_is_shown_translated() -> None:
    assert say("rank {ranks}", ranks="3").render("en") == "rank 3"
    assert say("{n} min", n=10).render("zh") == "10 分钟"
