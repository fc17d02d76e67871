"""What a rollout server and its trainer make of the same prompt.

The server answers a prompt that it prepared itself, and the trainer computes the log probabilities
of that answer behind a prompt that it prepared again. Where the two prepare it differently, they
speak of different token sequences.

Sources: ms-swift 3.10.3 ``llm/template`` and its documentation of model arguments (``MAX_PIXELS``
and its like are read by each process that encodes a sample), ``llm/argument/base_args`` (flags of
model and template, the same for ``swift rollout`` and ``swift rlhf``); TRL 0.24
``scripts/vllm_serve.py`` (``model``, ``revision``, ``dtype``).
"""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places, show
from unstall.model.plan import Judgement, Value
from unstall.model.text import Text, say
from unstall.programs.base import Launch

VARIABLES = (
    "MAX_PIXELS",
    "MIN_PIXELS",
    "IMAGE_MAX_TOKEN_NUM",
    "IMAGE_MIN_TOKEN_NUM",
    "VIDEO_MAX_PIXELS",
    "VIDEO_MIN_PIXELS",
    "VIDEO_TOTAL_PIXELS",
    "VIDEO_MAX_TOKEN_NUM",
    "VIDEO_MIN_TOKEN_NUM",
    "SIZE_FACTOR",
    "FPS",
    "NFRAMES",
    "FPS_MAX_FRAMES",
    "FPS_MIN_FRAMES",
    "SPATIAL_MERGE_SIZE",
)
"""A process that is given none takes the model's default, so one-sided counts as different."""

FLAGS: tuple[tuple[str, ...], ...] = (
    ("max_length",),
    ("max_pixels",),
    ("truncation_strategy",),
    ("template", "chat_template"),
    ("system",),
    ("agent_template",),
    ("response_prefix",),
    ("enable_thinking",),
    ("tokenizer", "tokenizer_name_or_path"),
)
"""Flags that the trainer may send along or decide alone: only two different values count."""

_MODEL = ("model", "model_name_or_path", "model_path")
_REVISION = ("model_revision", "revision")
_DTYPE = ("torch_dtype", "dtype", "vllm_dtype")
_TYPES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32"}


def judge(context: Context) -> Iterator[Judgement]:
    """Rows for each trainer and each rollout server that it asks."""
    done: set[tuple[str, str, str]] = set()
    for one, other in context.pairs():
        if {one.role, other.role} != {"rollout", "trainer"}:
            continue
        server, client = (one, other) if one.role == "rollout" else (other, one)
        if not any(not p.listens for p in client.ports):
            continue
        for row in (
            *_variables(server, client),
            *_flags(server, client),
            *_weights(server, client),
        ):
            key = (row.name, server.label, client.label)
            if key not in done:
                done.add(key)
                yield row


def _row(
    name: str,
    server: Launch,
    client: Launch,
    values: tuple[Value | None, Value | None],
    judgement: str,
    why: Text,
    correction: str | None = None,
) -> Judgement:
    shown = {server.label: show(values[0]), client.label: show(values[1])}
    return Judgement(name, shown, judgement, why, places(*values), correction)


def _variables(server: Launch, client: Launch) -> Iterator[Judgement]:
    for name in VARIABLES:
        first, second = server.environment.get(name), client.environment.get(name)
        if first is None and second is None:
            continue
        same = first is not None and second is not None and first.same_as(second)
        values = (first, second)
        if same:
            yield _row(name, server, client, values, "ok", _alike())
        elif same is False:
            fixed = second if second is not None else first
            yield _row(
                name,
                server,
                client,
                values,
                "suspicious",
                _different(server, client)
                if first is not None and second is not None
                else say(
                    "{why}; where it is not set, the model's default holds",
                    why=_different(server, client),
                ),
                f"{name}={fixed.text}" if fixed is not None and fixed.known else None,
            )


def _flags(server: Launch, client: Launch) -> Iterator[Judgement]:
    for names in FLAGS:
        first, second = server.flag(*names), client.flag(*names)
        if first is None or second is None:
            continue
        same = first.same_as(second)
        if same is not None:
            name = next(n for n in names if n in client.flags)
            yield _row(
                name,
                server,
                client,
                (first, second),
                "ok" if same else "suspicious",
                _alike() if same else _different(server, client),
                None if same else f"--{name} {second.text}",
            )


def _weights(server: Launch, client: Launch) -> Iterator[Judgement]:
    for label, names, plain, why in (
        (
            "model",
            _MODEL,
            _base,
            say(
                "the trainer hands its weights to a server that holds another model: where names "
                "or shapes differ, the first exchange fails or waits for ever"
            ),
        ),
        (
            "model revision",
            _REVISION,
            str,
            say("the server holds another revision of the model than the trainer"),
        ),
        (
            "dtype",
            _DTYPE,
            _type,
            say(
                "server and trainer compute in different number types: the log probabilities that "
                "are compared differ even for one model"
            ),
        ),
    ):
        first, second = server.flag(*names), client.flag(*names)
        if first is None or second is None or not (first.known and second.known):
            continue
        if "auto" in (first.text, second.text):
            continue
        same = plain(first.text) == plain(second.text)
        if same:
            why = say("the same in the server and in the trainer")
        judgement = "ok" if same else "suspicious"
        yield _row(label, server, client, (first, second), judgement, why)


def _base(path: str) -> str:
    """A model's name without its folder or owner."""
    return path.rstrip("/").rsplit("/", 1)[-1].lower()


def _type(name: str) -> str:
    plain = name.lower().rsplit(".", 1)[-1]
    return _TYPES.get(plain, plain)


def _alike() -> Text:
    return say("the same in the server and in the trainer: both prepare a prompt alike")


def _different(server: Launch, client: Launch) -> Text:
    return say(
        "{server} and {trainer} prepare one prompt differently: the server answers one token "
        "sequence and the trainer computes the log probabilities of another",
        server=server.label,
        trainer=client.label,
    )
