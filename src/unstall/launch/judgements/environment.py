"""Every variable that the script gave to a program: who reads it there, and whether it arrives."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places, table
from unstall.model.plan import Judgement, Value
from unstall.model.text import Text, say
from unstall.programs import variables
from unstall.programs.base import Launch
from unstall.programs.ray.launch import SUBMISSION
from unstall.programs.timeouts import ENGINES
from unstall.programs.vllm.names import may_read

_RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "NODE_RANK", "NNODES")
_TELLING_LENGTH = 5
"""A text of so many characters inside a word is there by intent."""

_ELSEWHERE = ("CUDA_VISIBLE_DEVICES", "NPROC_PER_NODE")
_QUIET = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "PWD", "WANDB_", "HF_", "TOKENIZERS_")
_TELLING = ("PORT", "ADDR", "HOST", "TIMEOUT", "RANK", "WORLD", "NODES", "NNODES", "GPUS")


def judge(context: Context) -> Iterator[Judgement]:
    """A row for each variable that is read by something, or whose name says that it should be."""
    names: dict[str, None] = {}
    for launch in context.launches:
        names.update(dict.fromkeys(n for n in launch.environment if _given(launch, n)))
        names.update(dict.fromkeys(launch.not_exported))
    for name in names:
        if name.startswith(_QUIET) or name in variables.PROXIES or name in variables.NO_PROXY:
            continue
        row = _row(context, name)
        if row is not None:
            yield row


def _given(launch: Launch, name: str) -> bool:
    return not launch.environment[name].default


def _row(context: Context, name: str) -> Judgement | None:
    reader = variables.reader_of(name)
    telling = any(part in _TELLING for part in name.split("_"))
    having = [la for la in context.launches if name in la.environment]
    if reader is None and not telling and not any(_is_port(la, name) for la in having):
        return None
    lost = [la for la in context.launches if name in la.not_exported and name not in la.environment]
    if name in _ELSEWHERE and not lost and not any(name in la.ignores for la in having):
        return None
    if name == "CUDA_VISIBLE_DEVICES":
        return None
    values = table(context.launches, name)
    if not having:
        return _not_arriving(context, name, lost, values)
    where = places(*(la.environment[name] for la in having))
    if reader is None or (
        name.startswith("VLLM_") and not may_read(name, context.versions.get("vllm"))
    ):
        return _own(context, name, having, values)
    reading = [la for la in having if name not in la.ignores]
    deaf = [la for la in having if name in la.ignores and not _handed_on(la, name)]
    if not reading and not deaf:
        why: Text = say("the script hands it on in the command itself")
        return Judgement(name, values, "ok", why, where)
    reasons: list[Text] = []
    for launch in deaf:
        reasons.append(say("{program}: {why}", program=launch.label, why=launch.ignores[name]))
    for launch in reading:
        what = launch.reads.get(name, reader[1])
        reasons.append(say("{program}: {why}", program=launch.label, why=what))
    own = {la.environment[name].place for la in deaf} - {
        la.environment[name].place for la in reading
    }
    if deaf and (not reading or own):
        judgement = "no effect"
    else:
        judgement = "ok"
        if deaf:
            reasons = reasons[len(deaf) :] + reasons[: len(deaf)]
    concerns: tuple[str, ...] = ()
    if name in ("MASTER_PORT",) and deaf:
        concerns = ("port-collision",)
    if len(set(values.values())) == 1 and not deaf and len(having) > 1:
        why = say("the same in every program: {what}", what=reader[1])
    else:
        why = joined(reasons)
    return Judgement(name, values, judgement, why, where, _correction(name, deaf), concerns)


def _is_port(launch: Launch, name: str) -> bool:
    """Whether the variable's value is one of the program's ports."""
    value = launch.environment[name]
    return any(_same(value, port.value) and not port.value.default for port in launch.ports)


def _correction(name: str, deaf: list[Launch]) -> str | None:
    flags = {
        "torchrun": {
            "MASTER_PORT": "--master_port",
            "MASTER_ADDR": "--master_addr",
            "NODE_RANK": "--node_rank",
            "NNODES": "--nnodes",
            "NPROC_PER_NODE": "--nproc_per_node",
        },
        "accelerate": {
            "MASTER_PORT": "--main_process_port",
            "MASTER_ADDR": "--main_process_ip",
            "NODE_RANK": "--machine_rank",
            "NPROC_PER_NODE": "--num_processes",
        },
        "deepspeed": {"MASTER_PORT": "--master_port", "MASTER_ADDR": "--master_addr"},
    }
    for launch in deaf:
        for launcher in launch.launchers:
            flag = flags.get(launcher, {}).get(name)
            if flag is not None:
                return f"{flag} {launch.environment[name].text}"
    return None


def _not_arriving(
    context: Context, name: str, lost: list[Launch], values: dict[str, str]
) -> Judgement | None:
    """Set and not exported: harmless where the script itself uses it in a command."""
    own = {la.not_exported[name] for la in lost}
    if any(used_in(la, value) for la in context.launches for value in own):
        return None  # the script's own: one of the commands is given it
    # what an engine would not read anyway, the script sets for something else
    unused = [
        la
        for la in lost
        if not (name in _RENDEZVOUS and la.server and la.engine in ENGINES and name in la.ignores)
        and not _of_the_script(la, name)
    ]
    deaf = [la for la in unused if name in la.ignores]
    unused = [la for la in unused if name not in la.ignores or la in deaf]
    if not unused or variables.reader_of(name) is None:
        return None
    if all(_through_ray(context, la, name) for la in unused):
        return None
    launch = unused[0]
    value = launch.not_exported[name]
    if name in launch.ignores:
        why = launch.ignores[name]
        correction = None
    else:
        why = say(
            "{name} is set but not exported, so {program} does not receive it",
            name=name,
            program=launch.label,
        )
        correction = f"export {name}={value.text}"
    return Judgement(
        name,
        values,
        "no effect",
        why,
        places(*(la.not_exported[name] for la in unused)),
        correction,
        ("rendezvous-environment",) if name in ("MASTER_ADDR", "MASTER_PORT") else (),
    )


def _of_the_script(launch: Launch, name: str) -> bool:
    """Whether a rendezvous variable that was never exported is for the script's own use.

    A Ray node reads none; RANK and WORLD_SIZE of one process are nobody's to set by hand where a
    launcher sets them.
    """
    if name not in _RENDEZVOUS or name not in launch.call.not_exported:
        return False
    return launch.role == "node" or (name in ("RANK", "WORLD_SIZE") and name in launch.ignores)


def _through_ray(context: Context, launch: Launch, name: str) -> bool:
    """Whether a submission finds a variable in the Ray that the same script started with it.

    Source: Ray 2.49.2 ``dashboard/modules/job/job_supervisor.py`` (the command gets the environment
    of the node's Ray), ``_private/services.py`` (workers inherit the raylet's).
    """
    if SUBMISSION not in launch.launchers:
        return False
    mine = launch.not_exported[name]
    return any(
        la.software == "ray"
        and "head" in la.flags
        and la.call.script == launch.call.script
        and la.call.order < launch.call.order
        and name in la.environment
        and la.environment[name].same_as(mine) is True
        for la in context.launches
    )


def _handed_on(launch: Launch, name: str) -> bool:
    """Whether the command itself holds a variable's value, in a flag where the value is short."""
    value = launch.environment[name]
    if value.known and len(value.text) < _TELLING_LENGTH:
        wanted = name.lower().replace("_", "")
        return any(
            _same(given, value) and wanted in flag.replace("_", "")
            for flag, given in launch.flags.items()
        )
    return used_in(launch, value)


def used_in(launch: Launch, value: Value) -> bool:
    """Whether a value stands in one of the program's words."""
    if not value.known:
        return any(value.token and w.token and value.token in w.token for w in launch.call.words)
    if not value.text:
        return True
    words = [w.text for w in launch.call.words]
    for outer in launch.call.outer:
        words.extend(text for _, text in outer.options)
    parts = value.text.split()
    if len(parts) > 1 and set(parts) <= {*words, *(p for w in words for p in w.split())}:
        return True  # it holds several words of the command
    if len(value.text) >= _TELLING_LENGTH and any(value.text in w for w in words):
        return True
    return any(
        w == value.text or w.endswith((f"={value.text}", f":{value.text}")) or f"{value.text}:" in w
        for w in words
    )


def _own(
    context: Context, name: str, having: list[Launch], values: dict[str, str]
) -> Judgement | None:
    """A variable of the script's own: it counts only where the script passes it on."""
    value = having[0].environment[name]
    passed: list[str] = []
    for launch in having:
        for flag, given in launch.flags.items():
            if _same(given, launch.environment[name]):
                passed.append(f"--{flag}")
    through = [
        other
        for launch in having
        for other, given in launch.environment.items()
        if other != name and _same(given, launch.environment[name]) and not given.known
    ]
    picked = context.origins.get(value.token or "") == "free-port"
    where = places(value)
    if passed:
        flags = ", ".join(dict.fromkeys(passed))
        if picked:
            return Judgement(
                name,
                values,
                "suspicious",
                say(
                    "the port is bound, closed and used later through {flags}: until then another "
                    "process may take it. Whoever uses it gets the same value, so nothing "
                    "disagrees",
                    flags=flags,
                ),
                places(value, *(g for la in having for g in la.flags.values() if _same(g, value))),
                None,
                ("port-collision",),
            )
        return Judgement(
            name, values, "ok", say("reaches the programs through {flags}", flags=flags), where
        )
    if through:
        target = through[0]
        deaf = [la for la in having if target in la.ignores]
        if deaf and all(
            target in la.ignores
            for la in having
            if target in la.environment and _same(la.environment[target], value)
        ):
            return Judgement(
                name,
                values,
                "no effect",
                say(
                    "nothing but the script reads {name}; it is passed on as {target} only, which "
                    "{program} does not read",
                    name=name,
                    target=target,
                    program=deaf[0].label,
                ),
                places(value, *(la.environment[target] for la in deaf)),
                None,
                ("port-collision",) if "PORT" in name else (),
            )
        return Judgement(name, values, "ok", say("passed on as {target}", target=target), where)
    if variables.reader_of(name) is None:
        return None  # the program's own code may read it
    return Judgement(
        name,
        values,
        "no effect",
        say("no program of this plan is known to read {name}", name=name),
        where,
    )


def _same(one: Value, other: Value) -> bool:
    return one.same_as(other) is True and not one.default


def joined(reasons: list[Text]) -> Text:
    """Several reasons as one sentence."""
    if not reasons:
        return say("set")
    found = reasons[0]
    for reason in reasons[1:]:
        found = say("{first}; {second}", first=found, second=reason)
    return found
