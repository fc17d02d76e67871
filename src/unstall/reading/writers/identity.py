"""Lines by which software shows itself, its version, its settings, and who is which rank.

Sources: vLLM 0.3 to 0.14 (``v1/engine/core.py``, ``distributed/parallel_state.py``,
``entrypoints/openai/api_server.py``), SGLang's ``server_args``, ms-swift 3 and 4
(``swift/llm/base.py``), DeepSpeed's launcher and ``log_dist``, Megatron-LM's ``arguments.py``,
Lightning's ``Initializing distributed``, uvicorn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from unstall.model.facts import Fact, GroupCreated, Identity, Speaker
from unstall.reading.line import Line
from unstall.reading.writers.lines import Common, Pattern, Sentences, common
from unstall.reading.writers.settings import call_body, settings_of

_ROLES = re.compile(r"\b([A-Z]{2,8}) rank (\d{1,6})", re.ASCII)
_SWIFT_ROLES = {
    "RolloutArguments": "rollout",
    "DeployArguments": "inference",
    "InferArguments": "inference",
    "RLHFArguments": "trainer",
    "SftArguments": "trainer",
    "TrainArguments": "trainer",
    "PretrainArguments": "trainer",
    "MegatronTrainArguments": "trainer",
    "MegatronRLHFArguments": "trainer",
}


def _engine(line: Line, found: re.Match[str]) -> Fact | None:
    return Identity(
        **common(line),
        software="vllm",
        role="inference",
        version=found[1],
        settings=settings_of(line.text[found.end() :], separators="="),
    )


def _api_server(line: Line, found: re.Match[str]) -> Fact | None:
    return Identity(**common(line), software="vllm", role="inference", version=found[1])


def _arguments(line: Line, found: re.Match[str]) -> Fact | None:
    return Identity(
        **common(line),
        software="vllm",
        role="inference",
        settings=settings_of(call_body(line.text, found.start())),
    )


def _assigned(line: Line, found: re.Match[str]) -> Fact | None:
    speaker = line.speaker
    if speaker.rank is None:
        speaker = msgspec.structs.replace(speaker, rank=int(found[1]))
    roles = {name: int(number) for name, number in _ROLES.findall(found[3])}
    return GroupCreated(**common(line, speaker), size=int(found[2]), name="world", roles=roles)


def _lightning(line: Line, found: re.Match[str]) -> Fact | None:
    speaker = msgspec.structs.replace(line.speaker, rank=int(found[1]))
    return GroupCreated(**common(line, speaker), size=int(found[2]), name="world")


def _server_args(line: Line, found: re.Match[str]) -> Fact | None:
    return Identity(
        **common(line),
        software="sglang",
        role="inference",
        settings=settings_of(call_body(line.text, found.start())),
    )


def _swift_version(line: Line, found: re.Match[str]) -> Fact | None:
    return Identity(**common(line), software="ms-swift", version=found[1])


def _swift_arguments(line: Line, found: re.Match[str]) -> Fact | None:
    return Identity(
        **common(line),
        software="ms-swift",
        role=_SWIFT_ROLES.get(found[1]),
        settings=settings_of(call_body(line.text, found.start())),
    )


def _swift_command(line: Line, found: re.Match[str]) -> Fact | None:
    role = "rollout" if found[1] == "rollout" else None
    role = role or ("inference" if found[1] in ("deploy", "infer") else "trainer")
    return Identity(
        **common(line), software="ms-swift", role=role, settings={"command": found[0][:300]}
    )


def _deepspeed(line: Line, found: re.Match[str]) -> Fact | None:
    return Identity(**common(line), software="deepspeed", role="trainer", version=found[1])


def _deepspeed_cmd(line: Line, found: re.Match[str]) -> Fact | None:
    return Identity(
        **common(line), software="deepspeed", role="trainer", settings={"command": found[1]}
    )


def _world(line: Line, found: re.Match[str]) -> Fact | None:
    return Identity(
        **common(line),
        software="deepspeed",
        role="trainer",
        settings={"world_size": found[1]},
    )


def _megatron(line: Line, found: re.Match[str]) -> Fact | None:
    values = settings_of(line.text[found.start() :].removeprefix("using "), separators=":")
    settings = {name.replace(" ", "_").replace("-", "_"): v for name, v in values.items()}
    return Identity(**common(line), software="megatron", role="trainer", settings=settings)


def _uvicorn(line: Line, found: re.Match[str]) -> Fact | None:
    return Identity(
        **common(line), software="uvicorn", settings={"host": found[1], "port": found[2]}
    )


def _trl_serve(line: Line, _: re.Match[str]) -> Fact | None:
    return Identity(**common(line), software="trl")


def _weight_exchange(line: Line, _: re.Match[str]) -> Fact | None:
    # TRL 0.16+ trl/scripts/vllm_serve.py and ms-swift 3.x swift/llm/infer/rollout.py: a server that
    # is given a trainer's weights. Either serves vLLM
    return Identity(**common(line), software="vllm", role="rollout")


class Identities(Sentences):
    """Software that names itself on one line."""

    patterns = (
        Pattern(
            "LLM engine ",
            re.compile(
                r"Initializing an? (?:V\d )?LLM engine (?:\(v([\w.+-]{1,60})\) )?with config: ?"
            ),
            _engine,
        ),
        Pattern(
            "vLLM API server version|vLLM version ",
            re.compile(r"vLLM (?:API server )?version ([\w.+-]{1,60})"),
            _api_server,
        ),
        Pattern(
            "args: Namespace(|non-default args: ",
            re.compile(r"(?<![\w_])(?:non-default )?args: (?=Namespace\(|\{)"),
            _arguments,
        ),
        Pattern(
            "is assigned as ",
            re.compile(
                r"rank (\d{1,6}) in world size (\d{1,6}) is assigned as (.{1,300})", re.ASCII
            ),
            _assigned,
        ),
        Pattern(
            "GLOBAL_RANK: ",
            re.compile(r"GLOBAL_RANK: (\d{1,6}), MEMBER: \d{1,6}/(\d{1,6})", re.ASCII),
            _lightning,
        ),
        Pattern("server_args=", re.compile(r"server_args=(?:ServerArgs)?\("), _server_args),
        Pattern(
            "swift.__version__: ",
            re.compile(r"swift\.__version__: ([\w.+-]{1,60})"),
            _swift_version,
        ),
        Pattern(
            "args: ",
            re.compile(r"args: (\w{1,40}Arguments)\("),
            _swift_arguments,
        ),
        Pattern(
            "run sh: ",
            re.compile(r"run sh: .{0,600}?swift/cli/(\w{1,30})\.py.{0,2000}"),
            _swift_command,
        ),
        Pattern(
            "DeepSpeed info: version=",
            re.compile(r"DeepSpeed info: version=([\w.+-]{1,60})"),
            _deepspeed,
        ),
        Pattern(
            "] cmd = ",
            re.compile(r"\[(?:runner|launch)\.py:.{0,40}\] cmd = (.{1,2000})"),
            _deepspeed_cmd,
        ),
        Pattern("dist_world_size=", re.compile(r"dist_world_size=(\d{1,9})", re.ASCII), _world),
        Pattern(
            "using world size: ",
            re.compile(r"using world size: \d{1,9}, ", re.ASCII),
            _megatron,
        ),
        Pattern(
            "Uvicorn running on ",
            re.compile(r"Uvicorn running on https?://([\w.:\[\]-]{1,200}?):(\d{1,5})\b", re.ASCII),
            _uvicorn,
        ),
        Pattern(
            "POST /init_communicator/ HTTP",
            re.compile(r'"POST /init_communicator/ HTTP/[\d.]{1,5}" 2'),
            _weight_exchange,
        ),
        Pattern("trl.scripts.vllm_serve", re.compile(r"trl\.scripts\.vllm_serve"), _trl_serve),
    )


_LOGGERS = (
    ("[INFO:swift]", "ms-swift", None),
    ("[NeMo ", "nemo", "trainer"),
    ("llamafactory.", "llamafactory", "trainer"),
    ("llmtuner.", "llamafactory", "trainer"),
    ("[axolotl.", "axolotl", "trainer"),
    ("axolotl.cli", "axolotl", "trainer"),
    ("INFO:torchtune", "torchtune", "trainer"),
    ("torchtune.utils", "torchtune", "trainer"),
    ("[titan]", "torchtitan", "trainer"),
    ("trl.extras.vllm_client", "trl", "trainer"),
    ("speechbrain.", "speechbrain", "trainer"),
    ("megatron.core", "megatron", "trainer"),
    ("openrlhf.", "openrlhf", None),
    ("verl.", "verl", None),
    ("[launch.py:", "deepspeed", None),
)


class LoggerNames:
    """Software that shows itself by its logger's name: told once for each speaker."""

    marks: tuple[str, ...] = tuple(mark for mark, _, _ in _LOGGERS)

    def __init__(self) -> None:
        self._told: set[tuple[Speaker, str]] = set()

    @property
    def wants_more(self) -> bool:
        """Never: a logger's name stands on each of its lines."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """The software, where it is new."""
        text = line.text[:200]
        for mark, software, role in _LOGGERS:
            if mark in text:
                key = (line.speaker, software)
                if key in self._told or len(self._told) >= 1024 or 'File "' in text:
                    return ()
                self._told.add(key)
                return (Identity(**common(line), software=software, role=role),)
        return ()

    def finish(self) -> Iterable[Fact]:
        """Nothing is held back."""
        return ()


_ROW = re.compile(r"^\s{0,8}([a-z]\w{1,60}) \.{2,60} (.{0,300})$", re.ASCII)
_ARGS_MOST = 1_500


class _Table(msgspec.Struct):
    first: Common
    rows: dict[str, str] = {}
    misses: int = 0


class MegatronArguments:
    """Megatron-LM's table ``  tensor_model_parallel_size ........... 4``."""

    marks: tuple[str, ...] = ("- arguments -",)

    def __init__(self) -> None:
        self._open: dict[Speaker, _Table] = {}

    @property
    def wants_more(self) -> bool:
        """Whether a table is open."""
        return bool(self._open)

    def feed(self, line: Line) -> Iterable[Fact]:
        """The table, when its end has come."""
        text = line.text[:600]
        who = line.speaker
        if "- arguments -" in text and "end of" not in text:
            if len(self._open) < 64:
                self._open[who] = _Table(first=common(line))
            return ()
        table = self._open.get(who)
        if table is None:
            return ()
        if "end of arguments" in text:
            return self._close(who)
        if (row := _ROW.match(text)) is not None and len(table.rows) < _ARGS_MOST:
            table.rows[row[1]] = row[2].strip()
            return ()
        table.misses += 1
        return self._close(who) if table.misses > 200 else ()

    def finish(self) -> Iterable[Fact]:
        """Tables that the source's end cut."""
        return [fact for who in list(self._open) for fact in self._close(who)]

    def _close(self, who: Speaker) -> list[Fact]:
        table = self._open.pop(who)
        if not table.rows:
            return []
        return [Identity(**table.first, software="megatron", role="trainer", settings=table.rows)]
