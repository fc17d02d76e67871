"""Secrets are hidden wherever they stand; what only looks alike stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unstall
from unstall.model.facts import EnvironmentValue, Place, PythonException, Speaker
from unstall.model.secrets import HIDDEN, redacted, without_secrets
from unstall.reports.json import to_json
from unstall.reports.markdown import to_markdown

KEY = "k3yAbCdEfGhIjKlMnOpQrStUvWx"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (f"HF_TOKEN=hf_{KEY} python x.py", "HF_TOKEN=*** python x.py"),
        (f"no access with hf_{KEY}.", "no access with ***."),
        ("password=hunter2", "password=***"),
        ("{'api_key': 'abcd1234'}", "{'api_key': '***'}"),
        (f'"access_token": "{KEY}"', '"access_token": "***"'),
        ("serve --api-key abcdefg --port 80", "serve --api-key *** --port 80"),
        ("serve --hub-password=abcdefg", "serve --hub-password=***"),
        ("http://me:pa55@proxy:8080/x", "http://me:***@proxy:8080/x"),
        (f"GET https://h/a?token={KEY}&page=2", "GET https://h/a?token=***&page=2"),
        (f"Authorization: Bearer {KEY}", "Authorization: Bearer ***"),
        ("wandb login " + "0a" * 20, "wandb login ***"),
        ("key AKIA" + "A1" * 8, "key ***"),
    ],
)
def test_a_secret_is_hidden(written: str, shown: str) -> None:
    """By its name, or by its shape where it has no name."""
    assert redacted(written) == shown
    assert redacted(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "eos_token='<|endoftext|>' pad_token_id=151643",
        "max_tokens=4096, token: 5, generation throughput: 120.5 tokens/s",
        "init_method=tcp://10.0.0.1:29500",
        "password authentication failed for user me",
        "rank 3 waited in ALLREDUCE, PG GUID 15(dp)",
        "remote=[::ffff:10.0.0.2]:29500 me@host",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Language models have tokens, and addresses have ports."""
    assert redacted(text) == text


def test_facts_lose_the_secrets_in_any_field() -> None:
    """Strings, frames and mappings; a fact without a secret is the very same."""
    place = Place("run.log", 3)
    fact = PythonException(
        place=place,
        quote=f"login(token='{KEY}')",
        type="E",
        message="http://me:pa55@h/",
        frames=(),
        speaker=Speaker(rank=1),
    )
    shown = without_secrets(fact)
    assert shown.quote == "login(token='***')"
    assert shown.message == "http://me:***@h/"
    assert shown.speaker is fact.speaker
    value = EnvironmentValue(place=place, quote="WANDB_API_KEY", name="WANDB_API_KEY", value="abc")
    assert without_secrets(value).value == HIDDEN
    harmless = EnvironmentValue(place=place, quote="PORT", name="PORT", value="80")
    assert without_secrets(harmless) is harmless


def test_no_report_shows_a_secret(tmp_path: Path) -> None:
    """In the exception's words, the quoted line, the script's environment and its arguments."""
    (tmp_path / "run.sh").write_text(
        f"export HF_TOKEN=hf_{KEY}\nexport http_proxy=http://me:pa55w0rd@proxy:1\n"
        f"torchrun --nproc_per_node 2 train.py --hub_token hf_{KEY} --url=http://me:pa55w0rd@h\n"
    )
    (tmp_path / "run.log").write_text(
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/x/train.py", line 5, in main\n'
        f"[rank1]:     login(token='hf_{KEY}')\n"
        f"[rank1]: ValueError: 401 for https://me:pa55w0rd@h/?token=hf_{KEY} (api_key={KEY})\n"
    )
    found = unstall.diagnose([tmp_path])
    for report in (to_json(found).decode(), to_markdown(found)):
        assert "ValueError" in report
        assert KEY not in report
        assert "pa55w0rd" not in report
    assert json.loads(to_json(found))["causes"][0]["id"] == "python-exception"


@given(st.text(alphabet="hf_tokensecrpaw=: '\"-/@.eyJAKI0123", max_size=200))
def test_hiding_twice_is_hiding_once(text: str) -> None:
    """What was hidden is not taken for a secret again."""
    once = redacted(text)
    assert redacted(once) == once
