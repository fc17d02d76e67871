"""Configuration files that stand beside a launch script: accelerate, DeepSpeed, trainers' YAML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from unstall.launch.texts import ConfigText
from unstall.model.facts import Place
from unstall.model.plan import Value

LARGEST = 1 << 20
MOST_KEYS = 2000


class Keys:
    """A configuration file's values by dotted key, each with its line.

    Attributes:
        place: the file's first line.
        values: dotted key to value.
        kind: ``accelerate``, ``deepspeed``, ``kubernetes``, ``compose``, ``dockerfile``, ``env``
            (lines ``NAME=value``) or ``trainer``.
        documents: what the parser made of it, one for each YAML document.
        lines: its lines.
        hosts: a host file's hosts with their slots (1 where none is given).
    """

    def __init__(self, config: ConfigText) -> None:
        self.place = config.place
        self.name = config.place.source.rsplit("!", 1)[-1].rsplit("/", 1)[-1]
        self.values: dict[str, Value] = {}
        self.documents: list[object] = []
        self.error: str | None = None
        self.hosts = _hosts(config.text) if config.kind == "hostfile" else ()
        text = config.text[:LARGEST]
        stripped = text.lstrip()
        try:
            if config.kind in ("python", "code", "toml", "ini", "hostfile", "dockerfile", "env"):
                self.documents = []
            elif stripped.startswith("{"):
                self.documents = [json.loads(text)]
            else:
                self.documents = _yaml(text)
        except (ValueError, RecursionError) as error:
            self.error = str(error).split("\n")[0][:200]
        lines = self.lines = text.split("\n")[:20000]
        for document in self.documents[:50]:
            self._flatten(document, "", lines, 0)
        self.kind = config.kind if config.kind in ("dockerfile", "env") else self._kind()

    def _flatten(self, node: object, prefix: str, lines: Sequence[str], depth: int) -> None:
        if depth > 12 or len(self.values) > MOST_KEYS:
            return
        if isinstance(node, dict):
            for key, inner in node.items():
                self._flatten(inner, f"{prefix}.{key}" if prefix else str(key), lines, depth + 1)
        elif isinstance(node, list):
            if all(isinstance(i, str | int | float) for i in node):
                self._put(prefix, " ".join(map(str, node)), lines)
            else:
                for at, inner in enumerate(node[:200]):
                    self._flatten(inner, f"{prefix}.{at}", lines, depth + 1)
        elif node is not None:
            text = str(node).lower() if isinstance(node, bool) else str(node)
            self._put(prefix, text, lines)

    def _put(self, key: str, text: str, lines: Sequence[str]) -> None:
        last = key.rsplit(".", 1)[-1]
        for at, line in enumerate(lines):
            head = line.strip().lstrip("- ").lstrip("\"'")
            if head.startswith(last) and head[len(last) :].lstrip("\"' ").startswith(":"):
                place = Place(self.place.source, self.place.line + at)
                break
        else:
            place = self.place
        self.values[key] = Value(text, place=place)

    def _kind(self) -> str:
        keys = self.values
        tops = {k.split(".", 1)[0] for k in keys}
        if "apiVersion" in tops or ("kind" in tops and "spec" in tops):
            return "kubernetes"
        if "services" in tops and any(k.startswith("services.") for k in keys):
            return "compose"
        if "compute_environment" in tops or (
            "distributed_type" in tops and "num_processes" in tops
        ):
            return "accelerate"
        if "zero_optimization" in tops or "train_micro_batch_size_per_gpu" in tops:
            return "deepspeed"
        return "trainer"


def _hosts(text: str) -> tuple[tuple[str, int], ...]:
    """``worker-1 slots=8`` or ``worker-1:8`` on each line (DeepSpeed's and MPI's host files)."""
    found: list[tuple[str, int]] = []
    for line in text.split("\n")[:10000]:
        words = line.split("#")[0].split()
        if not words:
            continue
        host, _, count = words[0].partition(":")
        for word in words[1:]:
            name, _, value = word.partition("=")
            if name in ("slots", "max_slots", "max-slots") and not count:
                count = value
        found.append((host, int(count) if count.isdigit() and len(count) < 5 else 1))
    return tuple(found)


def _yaml(text: str) -> list[object]:
    import yaml

    # Aliases are what makes a small file expand without bound; no such file needs them.
    if text.count("*") > 200 and text.count("&") > 50:
        raise ValueError("too many aliases")
    try:
        found = list(yaml.load_all(text, Loader=_loader()))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    return [d for d in found if d is not None]


def _loader() -> type:
    import yaml

    base: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return base


def read(configs: Iterable[ConfigText]) -> list[Keys]:
    """All of them, those that cannot be parsed included (with their ``error``)."""
    return [Keys(config) for config in list(configs)[:200]]


def assignments(file: Keys) -> dict[str, Value]:
    """``NAME=value`` lines of an ``env`` file, as compose and DeepSpeed read them."""
    found: dict[str, Value] = {}
    for at, line in enumerate(file.lines[:MOST_KEYS]):
        text = line.strip().removeprefix("export ")
        name, equals, value = text.partition("=")
        if not equals or text.startswith("#") or not name.strip().isidentifier():
            continue
        value = value.strip()
        if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
            value = value[1:-1]
        found[name.strip()] = Value(value, place=Place(file.place.source, file.place.line + at))
    return found
