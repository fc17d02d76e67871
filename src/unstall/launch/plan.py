"""Scripts and configuration files to a launch plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from unstall.launch import configs as configuration
from unstall.launch import judgements, kubernetes, mangled, slurm
from unstall.launch.calls import Call, Reading, Variable
from unstall.launch.evaluate import evaluate
from unstall.launch.texts import ConfigText, Script, ScriptText
from unstall.model.facts import Place
from unstall.model.plan import Cited, Plan, Value
from unstall.model.text import say
from unstall.programs import accelerate
from unstall.programs.base import Launch, number
from unstall.programs.deepspeed import launch as deepspeed
from unstall.programs.registry import recognise

MOST_SCRIPTS = 100
MOST_PROGRAMS = 64


class Source(msgspec.Struct):
    """One script and what was found in it."""

    script: ScriptText
    repaired: mangled.Repaired
    directives: dict[str, str]
    reading: Reading


def read_plan(
    scripts: Sequence[ScriptText],
    configs: Sequence[ConfigText] = (),
    versions: Mapping[str, str] | None = None,
    at_hand: Sequence[ScriptText] = (),
    searched: Collection[str] = (),
) -> Plan:
    """The launch plan of scripts that belong together. Nothing is run.

    Args:
        scripts: shell scripts, or regions of a longer text that are one.
        configs: configuration files beside them.
        at_hand: further scripts, which count only where one of ``scripts`` sources or calls them.
        searched: sources that nobody named together: they run together only where one of their
            programs needs the other's.
        versions: package to version, as far as the input gives them.

    Returns:
        the programs with what each was given, the settings side by side with a judgement of each,
        and what was noticed while reading. Never fails: what cannot be read is left out and noted.
    """
    given = {name.lower().replace("_", "-"): text for name, text in (versions or {}).items()}
    keys = configuration.read(configs)
    sources, origins = _evaluate(list(scripts)[:MOST_SCRIPTS], beside=list(at_hand)[:MOST_SCRIPTS])
    for contained in kubernetes.scripts(keys):
        more, more_origins = _evaluate(
            [contained.script], start=len(sources), given=contained.environment
        )
        for source in more:
            source.reading.calls = [contained.dress(call) for call in source.reading.calls]
        sources.extend(more)
        origins.update(more_origins)
    launches = _launches(sources, keys, origins, given)
    for launch in launches:
        launch.searched = launch.place.source in searched
    launches = _together(_once(launches))
    _label(launches)
    context = judgements.Context(
        launches=launches,
        origins=origins,
        sleeps=[
            (source.reading.calls[0].script if source.reading.calls else 0, order, amount, place)
            for source in sources
            for order, amount, place in source.reading.sleeps
        ],
        versions=given,
    )
    return Plan(
        programs=tuple(launch.freeze() for launch in launches),
        judgements=tuple(judgements.judge(context)),
        notes=(*_notes(sources, keys, launches), *(n for la in launches for n in la.notes)),
        versions=dict(versions or {}),
    )


def _evaluate(
    scripts: Sequence[ScriptText],
    start: int = 0,
    given: Mapping[str, Variable] | None = None,
    beside: Sequence[ScriptText] = (),
) -> tuple[list[Source], dict[str, str]]:
    """Follow every script that no other one sources or calls."""
    repaired: list[tuple[ScriptText, mangled.Repaired]] = []
    for script in scripts:
        fixed = mangled.repair(script.text)
        repaired.append((Script(script.place, fixed.text, script.echo), fixed))
    more = [Script(s.place, mangled.repair(s.text).text) for s in beside]
    at_hand = {
        s.place.source.rsplit("/", 1)[-1].rsplit("!", 1)[-1]: s
        for s in (*more, *(script for script, _ in repaired))
    }
    found: list[Source] = []
    origins: dict[str, str] = {}
    called: set[str] = set()
    for at, (script, fixed) in enumerate(repaired):
        options = slurm.directives(script.text)
        reading = evaluate(
            script,
            number=start + at,
            at_hand=at_hand,
            given={**slurm.environment(options), **(given or {})},
        )
        called |= reading.sourced
        origins.update({token: u.origin for token, u in reading.origins.items()})
        found.append(Source(script, fixed, options, reading))
    many = len({s.script.place.source for s in found}) > 1
    if many:
        found = [s for s in found if s.script.place.source not in called]
    return found, origins


def _launches(
    sources: Sequence[Source],
    keys: Sequence[configuration.Keys],
    origins: dict[str, str],
    versions: dict[str, str],
) -> list[Launch]:
    found: list[Launch] = []
    for source in sources:
        for call in source.reading.calls:
            if len(found) >= MOST_PROGRAMS:
                return found
            if not call.words:
                continue
            launch = recognise(
                _with_config(call, keys),
                origins,
                versions=versions,
                comment=_comment(source, call),
                directives=source.directives,
                config=_trainer_config(call, keys),
            )
            if launch is not None:
                _merge_configs(launch, keys, origins)
                launch.echo = source.script.echo
                tasks = slurm.tasks(source.directives)
                if tasks is not None:
                    launch.settings["tasks of the job"] = Value(str(tasks), default=True)
                found.append(launch)
    return found


def _comment(source: Source, call: Call) -> str:
    """The comment behind a command, on the command's last line."""
    last = max((w.place.line for w in call.words if w.place), default=call.place.line)
    at = last - source.script.place.line
    if call.place.source != source.script.place.source:
        return ""
    lines = source.script.text.split("\n")
    if not 0 <= at < len(lines):
        return ""
    line = lines[at][:4000]
    quote = ""
    for n, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and n and line[n - 1] in " \t":
            return line[n + 1 :].strip()
    return ""


def _with_config(call: Call, keys: Sequence[configuration.Keys]) -> Call:
    """Accelerate's ``--config_file``: its keys stand in as flags of lower rank."""
    texts = [w.text for w in call.words[:6]]
    if "launch" not in texts[:3] or not texts[0].endswith("accelerate"):
        return call
    for at, word in enumerate(call.words):
        flag, equals, value = word.text.partition("=")
        if flag not in ("--config_file", "--config-file"):
            continue
        name = value if equals else call.words[at + 1].text if at + 1 < len(call.words) else ""
        found = _named(name, keys)
        if found is None:
            return call
        given = {w.text.split("=", 1)[0].lstrip("-").replace("-", "_") for w in call.words}
        extra: list[Value] = []
        for key, setting in found.values.items():
            if key in _ACCELERATE_KEYS and key not in given:
                extra.extend((Value(f"--{key}", place=setting.place), setting))
        stage = found.values.get("deepspeed_config.zero_stage")
        if stage is not None and "zero_stage" not in given:
            extra.extend((Value("--zero_stage", place=stage.place), stage))
        position = texts.index("launch") + 1
        words = (*call.words[:position], *extra, *call.words[position:])
        return msgspec.structs.replace(call, words=words)
    return call


_ACCELERATE_KEYS = frozenset([*accelerate.PROCESSES, "rdzv_backend", "mixed_precision"])


def _trainer_config(call: Call, keys: Sequence[configuration.Keys]) -> dict[str, Value]:
    """Keys of a trainer's own file that the command names (``train.yaml``, ``--config x.yaml``)."""
    for word in call.words[1:]:
        name = word.text.partition("=")[2] or word.text
        if not name.endswith((".yaml", ".yml", ".json")):
            continue
        found = _named(name, keys)
        if found is not None and found.kind == "trainer":
            return dict(list(found.values.items())[:500])
    return {}


def _named(name: str, keys: Sequence[configuration.Keys]) -> configuration.Keys | None:
    base = name.rsplit("/", 1)[-1]
    return next((k for k in keys if k.name == base), None) if base else None


def _merge_configs(
    launch: Launch, keys: Sequence[configuration.Keys], origins: dict[str, str]
) -> None:
    """Files that the program's own flags and operands name."""
    del origins
    _hosts(launch, keys)
    for value in (launch.flag("deepspeed"), launch.flag("deepspeed_config")):
        if value is None:
            continue
        found = _named(value.text, keys)
        if found is None and value.text.endswith(".json"):
            same = [k for k in keys if k.kind == "deepspeed"]
            found = same[0] if len(same) == 1 else None
        if found is not None:
            stage = found.values.get("zero_optimization.stage")
            if stage is not None:
                launch.settings["ZeRO stage"] = stage
            for name in ("offload_optimizer", "offload_param"):
                device = found.values.get(f"zero_optimization.{name}.device")
                if device is not None and device.text not in ("none", "None"):
                    launch.settings[name.replace("_", " ")] = device


def _hosts(launch: Launch, keys: Sequence[configuration.Keys]) -> None:
    """The host file that a launcher names: nodes, and processes where no flag says them."""
    value = launch.flag("hostfile", "machinefile")
    found = _named(value.text, keys) if value is not None else None
    if found is None or not found.hosts or launch.launchers[:1] not in (["deepspeed"], ["mpirun"]):
        return
    slots = [count for _, count in found.hosts]
    launch.settings["fewest slots"] = Value(str(min(slots)), place=found.place)
    launch.settings["slots"] = Value(str(sum(slots)), place=found.place)
    if any(n in launch.flags for n in ("num_nodes", "include", "exclude")):
        return
    launch.nodes = len(slots)
    each = number(launch.flag("num_gpus"))
    if each is not None:
        slots = [each] * len(slots)
    if launch.processes is None or launch.launchers[0] == "deepspeed":
        launch.processes = sum(slots)
    if len(set(slots)) == 1:
        launch.per_node = slots[0]
    launch.settings["nodes"] = Value(str(len(slots)), place=found.place)
    if launch.launchers[0] == "deepspeed" and len(slots) > 1:
        own = next((k for k in keys if k.name == ".deepspeed_env"), None)
        deepspeed.travel(launch, configuration.assignments(own) if own is not None else {})


def _once(launches: list[Launch]) -> list[Launch]:
    """Leave out a command that is shown twice: as typed, and as a launcher printed it."""
    found: list[Launch] = []
    for launch in launches:
        at = next((n for n, other in enumerate(found) if _repeated(other, launch)), None)
        if at is None:
            found.append(launch)
        elif (found[at].echo, len(launch.environment)) > (launch.echo, len(found[at].environment)):
            found[at] = launch
    return found


def _repeated(one: Launch, other: Launch) -> bool:
    if one.call.script == other.call.script:
        return False
    # two scripts are two programs, two logs are perhaps two nodes; a script and a log are not
    if one.place.source != other.place.source and one.echo == other.echo:
        return False
    if (one.software, one.role) != (other.software, other.role):
        return False
    mine = {k: v for k, v in one.flags.items() if not v.default}
    theirs = {k: v for k, v in other.flags.items() if not v.default}
    shared = mine.keys() & theirs.keys()
    if len(shared) < 2 or len(shared) < 0.7 * min(len(mine), len(theirs)):
        return False
    return all(mine[k].same_as(theirs[k]) is not False for k in shared)


def _together(launches: list[Launch]) -> list[Launch]:
    """One program for the parts of it that a script starts on several nodes."""
    found: list[Launch] = []
    for launch in launches:
        twin = next(
            (
                other
                for other in found
                if launch.job is not None
                and other.job == launch.job
                and other.software == launch.software
                and _different_node(other, launch)
            ),
            None,
        )
        if twin is None:
            found.append(launch)
    return found


def _different_node(one: Launch, other: Launch) -> bool:
    first, second = one.node_rank, other.node_rank
    if first is None or second is None:
        return one.host != other.host
    return first.same_as(second) is not True


_NAMES = {
    "rollout": "rollout server",
    "inference": "inference server",
    "trainer": "trainer",
    "reward": "reward server",
}


def _label(launches: list[Launch]) -> None:
    """Labels that a user understands and that are unique."""
    for launch in launches:
        name = _NAMES.get(launch.role)
        if name is None:
            name = launch.label or launch.software
        elif launch.role == "inference" and not launch.server:
            name = "inference"
        launch.label = name
    counts: dict[str, int] = {}
    for launch in launches:
        counts[launch.label] = counts.get(launch.label, 0) + 1
    seen: dict[str, int] = {}
    for launch in launches:
        if counts[launch.label] > 1:
            seen[launch.label] = seen.get(launch.label, 0) + 1
            launch.label = f"{launch.label} {seen[launch.label]}"


def _notes(
    sources: Sequence[Source], keys: Sequence[configuration.Keys], launches: Sequence[Launch]
) -> list[Cited]:
    found: list[Cited] = []
    for source in sources:
        base, fixed = source.script.place, source.repaired

        def at(lines: Sequence[int], base: Place = base) -> tuple[Place, ...]:
            return tuple(Place(base.source, base.line + n) for n in lines[:40])

        if fixed.assignments:
            names = " ".join(
                source.script.text.split("\n")[n].split("=", 1)[0].strip()
                for n in fixed.assignments
            )
            found.append(
                Cited(
                    say(
                        "as pasted, the trailing backslashes are lost: read here as they were "
                        "meant; "
                        "read literally, the assignments before the command ({names}) would be "
                        "shell "
                        "variables that are not exported and would not reach the program",
                        names=_unique(names),
                    ),
                    at([*fixed.assignments, *fixed.joined]),
                )
            )
        elif fixed.joined:
            found.append(
                Cited(
                    say(
                        "as pasted, the trailing backslashes are lost: read here as they were "
                        "meant; "
                        "read literally, the command would get none of the flags on the lines "
                        "below it"
                    ),
                    at(fixed.joined),
                )
            )
        if fixed.prose:
            found.append(
                Cited(say("lines without a comment sign are taken for comments"), at(fixed.prose))
            )
        if fixed.ended:
            found.append(
                Cited(
                    say(
                        "a comment behind a backslash ends the command: what stands below it does "
                        "not reach the program"
                    ),
                    at(fixed.ended),
                )
            )
        if fixed.carriage_returns:
            found.append(
                Cited(
                    say(
                        "the line ends are Windows': bash would take the carriage return for a "
                        "part of "
                        "each line's last word"
                    ),
                    (base,),
                )
            )
        if source.reading.errors:
            found.append(
                Cited(
                    say("the shell's grammar does not fit here; the rest was read"),
                    tuple(source.reading.errors[:40]),
                )
            )
        if source.reading.exhausted:
            found.append(Cited(say("the script is too long to be followed to its end"), (base,)))
    found.extend(
        Cited(say("not read: {reason}", reason=k.error), (k.place,)) for k in keys if k.error
    )
    for launch in launches:
        daemon = launch.role == "node" or launch.call.background or launch.call.outer
        if launch.server and not daemon:
            after = [
                o
                for o in launches
                if o.call.script == launch.call.script
                and o.call.order > launch.call.order
                and not launch.call.path
            ]
            if after:
                found.append(
                    Cited(
                        say(
                            "{server} stays in the foreground, so {next} would start only after it "
                            "ends: taken as commands of separate terminals",
                            server=launch.label,
                            next=after[0].label,
                        ),
                        (launch.place, after[0].place),
                    )
                )
    return found


def _unique(names: str) -> str:
    return ", ".join(dict.fromkeys(names.split()))
