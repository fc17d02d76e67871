"""What a framework's launch knowledge works with: a command being read, its flags, its settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from unstall.launch.calls import Call
from unstall.model.facts import Place
from unstall.model.plan import Cited, Parallel, Port, Program, Timeout, Value
from unstall.model.text import Text

NCCL_DEFAULT_MS = 600_000
"""PyTorch's default for NCCL groups since 2.2 (torch/distributed/constants.py,
``default_pg_nccl_timeout``: 10 minutes); 30 minutes before."""

OTHER_DEFAULT_MS = 1_800_000
"""PyTorch's default for other back ends (``default_pg_timeout``: 30 minutes)."""


class Launch(msgspec.Struct, kw_only=True):
    """A program while it is being read; frozen into a :class:`Program` in the end.

    Attributes:
        call: the command as the shell would pass it.
        words: what is left of it once the launchers in front were taken off.
        launchers: launchers taken off, outermost first.
        reads: variables that this program reads, with what they do there.
        ignores: variables that it does not read although one might think so, with the reason.
        server: it goes on until it is stopped.
        host: where it runs, if not on the script's machine: an ssh host, a container.
        container: flags of the container it runs in, ``None`` outside of one.
        distributed: it forms a process group over several ranks.
        device_place: line that says its devices.
        visible: number of devices it may use, where only the number is known.
        node_rank: which node of several this command starts.
        job: programs with one job are parts of one, started on several nodes.
        settings: further settings worth comparing: name to value (``ZeRO stage``).
        comment: the comment behind the command.
        searched: its script was found in a folder, not named by the user.
        echo: what ran it printed it, so that its script may be at hand, too.
    """

    call: Call
    words: tuple[Value, ...]
    label: str = ""
    role: str = "trainer"
    software: str = "python"
    engine: str | None = None
    launchers: list[str] = []
    flags: dict[str, Value] = {}
    environment: dict[str, Value] = {}
    not_exported: dict[str, Value] = {}
    devices: tuple[int, ...] | None = None
    device_place: Place | None = None
    visible: int | None = None
    nodes: int | None = None
    per_node: int | None = None
    processes: int | None = None
    node_rank: Value | None = None
    parallel: Parallel = Parallel()
    ports: list[Port] = []
    timeouts: list[Timeout] = []
    reads: dict[str, Text] = {}
    ignores: dict[str, Text] = {}
    settings: dict[str, Value] = {}
    versions: Mapping[str, str] = {}
    server: bool = False
    host: str | None = None
    container: dict[str, str] | None = None
    distributed: bool = True
    job: str | None = None
    comment: str = ""
    notes: list[Cited] = []
    script: str | None = None
    store_port: str | None = None
    searched: bool = False
    echo: bool = False

    def flag(self, *names: str) -> Value | None:
        """The first of the flags that was given."""
        return next((self.flags[n] for n in names if n in self.flags), None)

    def number(self, *names: str, default: int | None = None) -> int | None:
        """The first of the flags that was given, as an integer; ``None`` where it is unknown."""
        value = self.flag(*names)
        return default if value is None else number(value)

    def take_config(self) -> None:
        """Take the keys of the configuration file that the command names; flags win over them."""
        for name in [n for n in self.flags if n.startswith("config:")]:
            self.flags.setdefault(name[len("config:") :].replace("-", "_"), self.flags.pop(name))

    def variable(self, name: str) -> Value | None:
        """A variable's value as the program receives it."""
        return self.environment.get(name)

    def version(self, package: str) -> tuple[int, ...] | None:
        """A package's version as numbers, where the input gives it."""
        return release(self.versions.get(package, ""))

    @property
    def place(self) -> Place:
        """Where its command stands."""
        return self.call.place

    def freeze(self) -> Program:
        """The program as the plan holds it."""
        return Program(
            label=self.label,
            role=self.role,
            software=self.software,
            command=tuple(w.text for w in self.call.words),
            flags=self.flags,
            environment=self.environment,
            not_exported=self.not_exported,
            devices=self.devices,
            nodes=self.nodes,
            processes=self.processes,
            parallel=self.parallel,
            ports=tuple(self.ports),
            timeouts=tuple(self.timeouts),
            engine=self.engine,
            versions=dict(self.versions),
            place=self.call.place,
            condition=" and ".join(self.call.conditions) or None,
            background=self.call.background,
        )


def number(value: Value | None) -> int | None:
    """A value as an integer, ``None`` where it is none or unknown."""
    if value is None or not value.known:
        return None
    text = value.text.strip()
    try:
        return int(text)
    except ValueError:
        try:
            real = float(text)
        except ValueError:
            return None
        return int(real) if real.is_integer() and abs(real) < 1e15 else None


def seconds(value: Value, unit: int = 1000) -> int | None:
    """A value in seconds as milliseconds; ``unit`` is the milliseconds of one unit."""
    if not value.known:
        return None
    try:
        real = float(value.text)
    except ValueError:
        return None
    return int(real * unit) if abs(real) < 1e12 else None


def truth(value: Value | None) -> bool | None:
    """A value as true or false, ``None`` where it is neither."""
    if value is None or not value.known:
        return None
    text = value.text.strip().lower()
    if text in ("true", "1", "yes", "y", "on", ""):
        return True
    return False if text in ("false", "0", "no", "n", "off", "none") else None


def release(text: str) -> tuple[int, ...] | None:
    """``0.11.0rc1+cu128`` as ``(0, 11, 0)``."""
    found: list[int] = []
    for part in text.strip().lstrip("v").split("+")[0].split("."):
        digits = ""
        for letter in part:
            if not (letter.isascii() and letter.isdigit()):
                break
            digits += letter
        if not digits:
            break
        found.append(int(digits[:9]))
        if digits != part:
            break
    return tuple(found) or None


def canonical(name: str) -> str:
    """A flag's canonical spelling: no leading dashes, ``_`` for ``-``."""
    return name.lstrip("-").replace("-", "_")


def is_flag(word: Value) -> bool:
    """Whether a word is a flag rather than a value (``-1`` and ``-0.5`` are values)."""
    text = word.text
    return text.startswith("-") and len(text) > 1 and not (text[1].isdigit() or text[1] == ".")


def parse_flags(
    words: Sequence[Value],
    *,
    switches: Collection[str] = (),
    short: Mapping[str, str] | None = None,
    many: bool = False,
    stop: bool = False,
) -> tuple[dict[str, Value], list[Value]]:
    """Split a command's words into flags and operands.

    Args:
        words: the words behind the program's name.
        switches: canonical names of the flags that take no value.
        short: short spellings to canonical names.
        many: a flag takes all values that follow it, joined by blanks (argparse's ``nargs``).
        stop: the first operand ends the flags (a launcher's script); it and the rest are operands.

    Returns:
        the flags by canonical name, the last one winning as in argparse, and the operands.
    """
    flags: dict[str, Value] = {}
    operands: list[Value] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.text == "--":
            operands.extend(words[at:])
            break
        if not is_flag(word):
            if stop:
                operands.extend(words[at - 1 :])
                break
            operands.append(word)
            continue
        name, equals, text = word.text.partition("=")
        key = (short or {}).get(name, canonical(name))
        if equals:
            flags[key] = msgspec.structs.replace(word, text=text)
            continue
        if key in switches:
            flags[key] = msgspec.structs.replace(word, text="true", known=True, token=None)
            continue
        values: list[Value] = []
        while at < len(words) and not is_flag(words[at]) and (many or not values):
            values.append(words[at])
            at += 1
        flags[key] = (
            merged(values)
            if values
            else msgspec.structs.replace(word, text="true", known=True, token=None)
        )
    return flags, operands


def merged(values: Sequence[Value]) -> Value:
    """Several values as one, joined by blanks."""
    if len(values) == 1:
        return values[0]
    known = all(v.known for v in values)
    text = " ".join(v.text for v in values)
    token = None if known else " ".join(v.text if v.known else v.token or "?" for v in values)
    return Value(text, known=known, place=values[0].place, token=token)


def overrides(words: Iterable[Value]) -> tuple[dict[str, Value], list[Value]]:
    """Hydra's ``key=value`` words (also ``+key=``, ``++key=``) and what else there is."""
    found: dict[str, Value] = {}
    rest: list[Value] = []
    for word in words:
        key, equals, text = word.text.partition("=")
        name = key.lstrip("+")
        if (
            equals
            and name
            and not word.text.startswith("-")
            and all(p.replace("_", "a").replace("-", "a").isalnum() for p in name.split("."))
        ):
            token = word.token.partition("=")[2] if word.token else None
            found[name] = msgspec.structs.replace(word, text=text.strip("'\""), token=token)
        else:
            rest.append(word)
    return found, rest


def default(text: str | int) -> Value:
    """What the software takes where nothing was given."""
    return Value(str(text), default=True)


def ordinals(value: Value) -> tuple[int, ...] | None:
    """Device numbers of a list such as ``0,2,3`` or ``0-3``; ``None`` where they are no numbers."""
    if not value.known:
        return None
    found: list[int] = []
    for part in value.text.replace(";", ",").split(","):
        text = part.strip()
        first, dash, last = text.partition("-")
        if dash and first.isdigit() and last.isdigit() and 0 <= int(last) - int(first) < 64:
            found.extend(range(int(first), int(last) + 1))
        elif text.isdigit() and len(text) < 5:
            found.append(int(text))
        elif text:
            return None
    return tuple(found)


def picked(value: Value, origins: Mapping[str, str]) -> str:
    """How a port was picked, see :class:`Port`; ``origins`` gives each token's origin."""
    if value.known:
        return "fixed"
    token = value.token or ""
    kinds = {origins.get(t) for t in (token, *token.split("\x1f"))}
    if "free-port" in kinds:
        return "reserved-late"
    return "random" if "random" in kinds else "fixed"
