"""Ray: ``ray start`` and ``ray job submit``.

Sources, read in Ray 2.49.2: ``scripts/scripts.py`` (``--head``; ``--port`` 6379, refused without
``--head``; ``--dashboard-port`` 8265 of ``--dashboard-host`` 127.0.0.1; ``--num-gpus``; without
``--block`` the command returns and the node goes on), ``dashboard/modules/job/cli.py`` (the
command's own options end at its first operand, usually behind ``--``; ``--runtime-env-json`` and
the file of ``--runtime-env`` carry ``env_vars``; RAY_API_SERVER_ADDRESS, else RAY_ADDRESS, else the
local cluster), ``dashboard/modules/job/job_supervisor.py`` (the command runs on the cluster with
the environment of the node that Ray was started on, and ``env_vars``; not with the submitter's).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from unstall.model.plan import Port, Value
from unstall.model.text import say
from unstall.programs.base import Launch, default, number, parse_flags, picked, truth

NAME = "ray"
_SWITCHES = frozenset(
    [
        "head",
        "block",
        "no_wait",
        "verbose",
        "no_redirect_output",
        "disable_usage_stats",
        "no_monitor",
        "ray_debugger_external",
        "enable_object_reconstruction",
        "enable_resource_isolation",
    ]
)
_SHORT = {"-v": "verbose"}
SUBMISSION = "ray job"


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is ``ray start`` or ``ray job submit``."""
    texts = [w.text for w in words[:3]]
    return texts[0].rsplit("/", 1)[-1] == "ray" and (
        texts[1:2] == ["start"] or texts[1:3] == ["job", "submit"]
    )


def is_submission(words: Sequence[Value]) -> bool:
    """Whether it hands a command to a cluster."""
    return words[1].text == "job"


def peel(launch: Launch, origins: dict[str, str]) -> None:
    """Take ``ray job submit`` off; the shell's variables stay behind."""
    flags, rest = parse_flags(launch.words[3:], switches=_SWITCHES, short=_SHORT, stop=True)
    launch.launchers.append(SUBMISSION)
    launch.flags.update(flags)
    _asks(launch, origins)
    for name in list(launch.environment):
        if name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_JOB_HEADERS"):
            launch.reads[name] = say("`ray job submit` reads it")
            continue
        launch.not_exported[name] = launch.environment.pop(name)
        launch.ignores[name] = say(
            "`ray job submit` runs the command on the cluster: env_vars of the runtime "
            "environment reach it, and what Ray itself was started with, not {name} of this shell",
            name=name,
        )
    given = flags.get("runtime_env_json")
    if given is not None:
        try:
            found = json.loads(given.text[:65536])
        except ValueError:
            found = None
        variables = found.get("env_vars") if isinstance(found, dict) else None
        if isinstance(variables, dict):
            for name, text in list(variables.items())[:200]:
                launch.environment[str(name)] = Value(str(text), place=given.place)
                launch.not_exported.pop(str(name), None)
                launch.ignores.pop(str(name), None)
    if "runtime_env" in flags:
        _runtime_file(launch)
    launch.devices = None
    launch.visible = None
    launch.words = tuple(rest)


def _runtime_file(launch: Launch) -> None:
    """``env_vars`` of the file of ``--runtime-env``, where it is at hand."""
    start = "config:env_vars."
    for flag in [f for f in launch.flags if f.startswith(start)]:
        name = flag[len(start) :]
        launch.environment[name] = launch.flags.pop(flag)
        launch.not_exported.pop(name, None)
        launch.ignores.pop(name, None)


def _asks(launch: Launch, origins: dict[str, str]) -> None:
    """The dashboard that takes the submission, where its port can be told."""
    address = (
        launch.flag("address")
        or launch.variable("RAY_API_SERVER_ADDRESS")
        or launch.variable("RAY_ADDRESS")
    )
    if address is None or not address.known or "://" not in address.text:
        return
    host, _, port = address.text.partition("://")[2].rstrip("/").rpartition(":")
    if host and port.isdigit():
        value = Value(port, place=address.place)
        launch.ports.append(
            Port(
                "dashboard",
                value,
                listens=False,
                host=Value(host, place=address.place),
                picked=picked(value, origins),
            )
        )


def read(launch: Launch, origins: dict[str, str]) -> None:
    """``ray start``."""
    flags, _ = parse_flags(launch.words[2:], switches=_SWITCHES, short=_SHORT)
    launch.flags.update(flags)
    launch.software = NAME
    launch.role = "node"
    launch.server = True
    launch.distributed = False
    gpus = launch.flag("num_gpus")
    if gpus is not None:
        launch.settings["devices offered"] = gpus
        if launch.visible is None:
            launch.visible = number(gpus)
    if launch.flag("head") is not None:
        launch.label = "ray head"
        own = launch.flag("port") or default(6379)
        how = "free" if own.text == "0" else picked(own, origins)
        launch.ports.append(Port("ray", own, picked=how))
        if truth(launch.flag("include_dashboard")) is not False:
            value = launch.flag("dashboard_port") or default(8265)
            launch.ports.append(Port("dashboard", value, picked=picked(value, origins)))
    else:
        launch.label = "ray node"
        address = launch.flag("address")
        if address is not None:
            host, _, port = address.text.rpartition(":")
            launch.ports.append(
                Port(
                    "ray",
                    Value(port, place=address.place, known=port.isdigit(), token=address.token),
                    listens=False,
                    host=Value(host, place=address.place, known=address.known, token=address.token),
                )
            )
    launch.reads["CUDA_VISIBLE_DEVICES"] = say("Ray offers only these devices")
