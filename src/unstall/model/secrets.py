"""Secrets in what a user gives: recognized by their names and shapes, and never shown.

Reports are pasted into public trackers. A launch script's token, a URL's password and a key that a
traceback quotes are of no use there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

HIDDEN = "***"
"""What stands in the place of a secret."""

_NAME = re.compile(
    r"(?:^|[_-])(?:token|secret|passwd|password|api[_-]?key|access[_-]?key|credentials?)"
    r"(?:[_-](?:id|key))?$",
    re.IGNORECASE,
)

# What stands after the name of a secret. A token's value must look like a key, for log lines speak
# of tokens (``eos_token``, ``token: 5``) that are none.
_WORDS = (
    r"(?:passw(?:or)?d|secret|(?:api|access|private)[_-]?key(?:[_-]id)?|credentials?)(?:[_-]key)?"
)
_VALUE = r"[^\s\"'&,;)}\]]{4,}"
_KEY = r"[\w.~+/=-]{16,}"
_NAMED = re.compile(
    rf"{_WORDS}[\"']?\s{{0,3}}[=:]\s{{0,3}}[\"']?(?P<value>{_VALUE})"
    rf"|--[\w-]{{0,40}}{_WORDS}\s{{1,3}}[\"']?(?P<flag>{_VALUE})"
    rf"|token[\"']?(?:\s{{0,3}}[=:]\s{{0,3}}|\s{{1,3}})[\"']?(?P<key>{_KEY})"
    rf"|\b(?:bearer|basic)\s{{1,3}}(?P<bearer>{_KEY})"
    r"|wandb login(?: --?\w{1,20}){0,3} (?P<wandb>[\w-]{32,})",
    re.IGNORECASE,
)
# Keys that tell themselves: Hugging Face, OpenAI and Anthropic, GitHub, GitLab, AWS, Google, Slack,
# NVIDIA, Weights & Biases, and JSON Web Tokens. Their documentation gives these prefixes.
_SHAPED = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}|gh[opsru]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{35}|xox[abeprs]-[\w-]{10,}"
    r"|nvapi-[\w-]{20,}|wandb_v\d_\w{20,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
)
_IN_URL = re.compile(r"://([^\s/:@\"']{0,64}):[^\s/@\"']{1,256}@")


def is_secret(name: str) -> bool:
    """Whether a flag's or variable's name says that its value should not be shown."""
    return _NAME.search(name) is not None


def redacted(text: str) -> str:
    """The text with :data:`HIDDEN` where a secret stood."""
    if "://" in text and "@" in text:
        text = _IN_URL.sub(rf"://\1:{HIDDEN}@", text)
    text = _NAMED.sub(_hide, text)
    return _SHAPED.sub(HIDDEN, text)


def _hide(found: re.Match[str]) -> str:
    group = found.lastgroup or "key"
    begin = found.start(group) - found.start()
    return found[0][:begin] + HIDDEN


def without_secrets(value: Any) -> Any:
    """A fact, or anything made of structures, with no secret in any of its strings.

    The very same object where there was none.
    """
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, msgspec.Struct):
        changes: dict[str, Any] = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            after = without_secrets(before)
            if after is not before and after != before:
                changes[name] = after
        if is_secret(str(getattr(value, "name", None))) and getattr(value, "value", None):
            changes["value"] = HIDDEN  # an environment variable's
        return msgspec.structs.replace(value, **changes) if changes else value
    if isinstance(value, tuple):
        items = tuple(map(without_secrets, value))
        return value if items == value else items
    if isinstance(value, Mapping):
        shown = {
            name: HIDDEN if is_secret(str(name)) and item else without_secrets(item)
            for name, item in value.items()
        }
        return value if shown == value else shown
    return value
