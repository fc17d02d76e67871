from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reports.sample import Sample
from tests.reports.strange import diagnoses
from unstall.model.facts import Place
from unstall.model.findings import Diagnosis, Evidence, Finding, Ranked
from unstall.model.text import verbatim
from unstall.reports.json import to_json

Check = Callable[[Any], bool]


def text(value: Any) -> bool:
    return isinstance(value, str)


def number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def share(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 <= value <= 1


def or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def map_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def has(**keys: Check) -> Check:
    return lambda value: (
        isinstance(value, dict)
        and all(key in value and check(value[key]) for key, check in keys.items())
    )


def one_of(*names: str) -> Check:
    return lambda value: value in names


EVIDENCE = has(text=text, source=text, line=or_null(number))
CHANGE = has(program=text, set=map_of(text), unset=list_of(text))
GROUP = has(
    id=or_null(number),
    guid=or_null(text),
    name=or_null(text),
    meaning=or_null(text),
    ranks=or_null(list_of(number)),
)
DIAGNOSIS = has(
    schema_version=lambda value: value == 1,
    verdict=one_of("failure", "benign", "inconclusive"),
    causes=list_of(
        has(
            id=text,
            confidence=share,
            summary=text,
            evidence=list_of(EVIDENCE),
            against=list_of(EVIDENCE),
            fixes=list_of(has(text=text, change=or_null(CHANGE))),
            next_step=text,
        )
    ),
    origin=or_null(
        has(
            program=text,
            role=text,
            software=or_null(text),
            ranks=list_of(number),
            process_group=or_null(GROUP),
        )
    ),
    process_group=or_null(GROUP),
    collective=or_null(
        has(
            op=text,
            seq=or_null(number),
            numel_in=or_null(number),
            numel_out=or_null(number),
            timeout_ms=or_null(number),
        )
    ),
    waiting_ranks=list_of(number),
    started_at=or_null(text),
    programs=list_of(
        has(
            label=text,
            role=text,
            software=text,
            command=list_of(text),
            environment=map_of(text),
            devices=or_null(list_of(number)),
            processes=or_null(number),
            ports=list_of(has(purpose=text, port=or_null(number), value=text)),
        )
    ),
    settings=list_of(
        has(
            name=text,
            values=map_of(text),
            judgement=one_of("ok", "conflict", "suspicious", "no effect"),
            why=text,
        )
    ),
    exonerated=list_of(has(id=text, why=text)),
    excerpts=list_of(has(source=text, line=number, text=text, role=text)),
)


def test_the_contract_of_the_sample() -> None:
    data = json.loads(to_json(Sample("en").diagnosis()))
    assert DIAGNOSIS(data)
    first = data["causes"][0]
    assert (first["id"], first["confidence"]) == ("engine-desync", 0.91)
    assert [cause["id"] for cause in data["causes"]] == [
        "engine-desync",
        "slow-rollout",
        "port-collision",
    ]
    assert first["evidence"][0]["source"] == "runs/2031-03/answers.log"
    assert first["evidence"][0]["line"] == 41
    assert first["fixes"][0]["change"] == {
        "program": "answer server",
        "set": {"data_parallel_size": "1"},
        "unset": ["VLLM_DP_SIZE"],
    }
    assert first["fixes"][2]["change"] is None
    group = {
        "id": 4,
        "guid": "12",
        "name": None,
        "meaning": "data-parallel group",
        "ranks": [0, 1],
    }
    assert data["origin"] == {
        "program": "answer server",
        "role": "rollout",
        "software": "vllm",
        "ranks": [1],
        "process_group": group,
    }
    assert data["process_group"] == group
    assert data["collective"] == {
        "op": "ALLREDUCE",
        "seq": 7009,
        "numel_in": 2,
        "numel_out": 2,
        "timeout_ms": 600_000,
    }
    assert data["waiting_ranks"] == [0]
    assert data["started_at"] == "--03-07T04:05:06.250"
    assert data["programs"][0]["command"][:2] == ["answerd", "serve"]
    assert data["programs"][0]["devices"] == [4, 5]
    assert data["programs"][0]["ports"][0]["port"] == 8911
    assert len(data["settings"]) == 11
    assert data["settings"][4]["judgement"] == "conflict"
    assert data["exonerated"][1]["id"] == "device-overlap"
    assert data["excerpts"][1] == {
        "source": "runs/2031-03/answers.log",
        "line": 40,
        "text": "engine 1: idle, 0 running | @ops see #12",
        "role": "origin",
    }


def test_knowledge_has_a_source_and_no_line() -> None:
    known = json.loads(to_json(Sample("en").diagnosis()))["causes"][0]["evidence"][3]
    assert known["source"] == known["knowledge"] == "vLLM 0.9 forward_context.py"
    assert known["line"] is None


def test_a_line_comes_before_the_knowledge_that_explains_it() -> None:
    both = Evidence(verbatim("x"), Place("a.log", 3), 1.0, "torch 2.7")
    neither = Evidence(verbatim("y"))
    finding = Finding(cause="unknown", summary=verbatim("s"), support=(both, neither))
    data = json.loads(to_json(Diagnosis(verdict="failure", causes=(Ranked(finding, 1.7),))))
    first, second = data["causes"][0]["evidence"]
    assert (first["source"], first["line"], first["knowledge"]) == ("a.log", 3, "torch 2.7")
    assert (second["source"], second["line"], second["knowledge"]) == ("", None, None)
    assert data["causes"][0]["confidence"] == 1.0


def test_nothing_failed() -> None:
    data = json.loads(to_json(Sample("en").healthy()))
    assert DIAGNOSIS(data)
    assert (data["verdict"], data["causes"], data["origin"]) == ("benign", [], None)
    assert data["benign"][0]["id"] == "process group not destroyed"


def test_sentences_are_in_the_language_and_keys_are_not() -> None:
    english, chinese = (json.loads(to_json(Sample(x).diagnosis(), x)) for x in ("en", "zh"))
    assert english.keys() == chinese.keys()
    assert chinese["origin"]["process_group"]["meaning"] == "数据并行组"
    assert chinese["causes"][0]["id"] == "engine-desync"
    assert chinese["settings"][4]["judgement"] == "conflict"


def test_secrets_do_not_leave() -> None:
    raw = to_json(Sample("en").diagnosis())
    assert b"0123456789abcdef" not in raw
    assert b"hf_abc" not in raw


def test_a_terminal_that_shows_it_obeys_nothing() -> None:
    finding = Finding(
        cause="c", summary=verbatim("\x1b[2J\x9b2J\x7f\u202e\u2028\ud800"), support=()
    )
    raw = to_json(Diagnosis(verdict="failure", causes=(Ranked(finding, 0.5),)))
    shown = raw.decode("utf-8")
    assert not set("\x1b\x9b\x7f\u202e\u2028") & set(shown)
    assert json.loads(raw)["causes"][0]["summary"] == "\x1b[2J\x9b2J\x7f\u202e\u2028\\ud800"


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(diagnoses, st.sampled_from(["en", "zh"]))
def test_whatever_is_said_keeps_the_contract(diagnosis: Diagnosis, language: str) -> None:
    raw = to_json(diagnosis, language)
    data = json.loads(raw.decode("utf-8"))
    assert DIAGNOSIS(data)
    assert not any(byte < 0x20 and byte != 0x0A for byte in raw)
    for cause, ranked in zip(data["causes"], diagnosis.causes, strict=True):
        assert len(cause["evidence"]) == len(ranked.finding.support)
        if math.isfinite(ranked.confidence) and 0 <= ranked.confidence <= 1:
            assert abs(cause["confidence"] - ranked.confidence) <= 0.00005
