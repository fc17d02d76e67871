"""The rendezvous of several nodes: address, port, name, node number, and what is taken for them.

Sources: PyTorch 2.13 ``torch/distributed/run.py``, axolotl 0.18 ``cli/utils/train.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from unstall.launch.judgements.context import LOCAL, Context, places, show, together
from unstall.model.plan import Judgement, Value
from unstall.model.text import say
from unstall.programs.base import Launch, number

#: Meeting points that reach only their own machine; no address at all is not one of them.
_ONLY_HERE = ("127.0.0.1", "localhost", "::1", "0.0.0.0")  # noqa: S104 - an address to recognise


def judge(context: Context) -> Iterator[Judgement]:
    """Rows only where something is wrong."""
    for launch in context.launches:
        yield from _node_rank(launch)
        yield from _address(launch)
        yield from _port(launch)
        yield from _random_meeting(launch)
        yield from _ray_port(context, launch)
    yield from _apart(context)


def _several(launch: Launch) -> bool:
    """Whether it runs on several nodes, as far as is known."""
    if launch.nodes is not None:
        return launch.nodes > 1
    value = launch.settings.get("nodes")
    return value is not None and not value.known


def _node_rank(launch: Launch) -> Iterator[Judgement]:
    value = launch.node_rank
    backend = launch.flag("rdzv_backend")
    if value is not None and backend is not None and backend.known and backend.text != "static":
        return  # torch/distributed/run.py: only the static back end is told the node's number
    if value is None:
        if _several(launch) and any(n in launch.launchers for n in ("torchrun", "accelerate")):
            static = launch.flag("rdzv_endpoint", "rdzv_backend") is None
            if static and "srun" not in launch.launchers:
                yield Judgement(
                    "node rank",
                    {launch.label: "not set"},
                    "conflict",
                    say(
                        "{program} runs on several nodes, but no node number is given: every node "
                        "takes itself for node 0",
                        program=launch.label,
                    ),
                    places(launch.settings.get("nodes"), launch.place),
                    "--node_rank $NODE_RANK",
                    ("rendezvous-environment",),
                )
        return
    text = value.text
    per_node = launch.per_node
    if _too_early(launch, text):
        yield Judgement(
            "node rank",
            {launch.label: show(value)},
            "conflict",
            say(
                "the batch script expands {text} itself, once, before srun starts the tasks: every "
                "node "
                "gets the same number",
                text=text,
            ),
            places(value, launch.place),
            "srun bash -c '… --node_rank $SLURM_NODEID …'",
            ("rendezvous-environment",),
        )
        return
    mistaken = text in (
        "$RANK",
        "${RANK}",
        "$SLURM_PROCID",
        "${SLURM_PROCID}",
        "$OMPI_COMM_WORLD_RANK",
    )
    if mistaken and (per_node is None or per_node > 1):
        tasks = number(launch.settings.get("tasks per node"))
        one_task = "srun" in launch.launchers and tasks == 1
        if not one_task:
            yield Judgement(
                "node rank",
                {launch.label: show(value)},
                "suspicious",
                say(
                    "{text} is the number of a process, not of a node: where a node has several "
                    "processes, node numbers beyond the number of nodes come out. Some clusters "
                    "set "
                    "RANK to the node's number; NODE_RANK says which it is",
                    text=text,
                ),
                places(value, launch.place),
                "--node_rank $NODE_RANK",
                ("rendezvous-environment",),
            )
    elif (
        value.known
        and _several(launch)
        and text.isdigit()
        and launch.nodes is not None
        and (int(text) >= launch.nodes)
    ):
        yield Judgement(
            "node rank",
            {launch.label: show(value)},
            "conflict",
            say(
                "node number {number} of {nodes} nodes: they are counted from 0",
                number=text,
                nodes=launch.nodes,
            ),
            places(value, launch.settings.get("nodes")),
            None,
            ("rendezvous-environment",),
        )


def _too_early(launch: Launch, text: str) -> bool:
    """Whether a task's number is expanded outside of the task."""
    marks = ("SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID")
    if not any(m in text for m in marks) or not _several(launch):
        return False
    names = [o.name for o in launch.call.outer]
    if "srun" not in names or "shell" in names[names.index("srun") :]:
        return False
    return launch.flag("rdzv_backend") is None


def _address(launch: Launch) -> Iterator[Judgement]:
    if not _several(launch):
        return
    meeting = [port for port in launch.ports if port.purpose == "rendezvous"]
    hosts = [port.host for port in meeting if port.host is not None]
    if not meeting and (given := launch.environment.get("MASTER_ADDR")) is not None:
        hosts = [given]  # no launcher between: init_process_group itself reads the variable
    for host in hosts:
        first = launch.node_rank is not None and launch.node_rank.text == "0"
        if host.known and host.text in _ONLY_HERE and first:
            continue  # node 0 listens on every address; the others are given a real one
        if host.known and host.text in _ONLY_HERE:
            # a cluster that sets the number of nodes may set PET_MASTER_ADDR, too
            nodes = launch.settings.get("nodes")
            outside = host.default and nodes is not None and not nodes.known
            yield Judgement(
                "rendezvous address",
                {launch.label: show(host)},
                "suspicious" if outside else "conflict",
                say(
                    "{program} runs on several nodes, but the address is this machine's own: each "
                    "node "
                    "waits for itself",
                    program=launch.label,
                ),
                places(host, launch.settings.get("nodes"), launch.place),
                "MASTER_ADDR=<address of node 0 that the others reach>",
                ("rendezvous-environment",),
            )
        elif not host.known and _own_name(host):
            yield Judgement(
                "rendezvous address",
                {launch.label: show(host)},
                "suspicious",
                say(
                    "`hostname -i` gives what the node's own /etc/hosts says of its name, on "
                    "Debian and Ubuntu often 127.0.1.1: then each node waits for itself"
                ),
                places(host, launch.place),
                "use `hostname -I | awk '{print $1}'`, or the node's name as the others resolve it",
                ("rendezvous-environment",),
            )
        elif not host.known and falls_back(host):
            yield Judgement(
                "rendezvous address",
                {launch.label: show(host)},
                "suspicious",
                say(
                    "where the look-up fails, the address falls back to this machine's own and "
                    "each "
                    "node waits for itself instead of failing at once"
                ),
                places(host, launch.place),
                None,
                ("rendezvous-environment",),
            )


def _apart(context: Context) -> Iterator[Judgement]:
    """Nodes of one job that are told different meeting points."""
    for one, other in context.pairs():
        if not (_several(one) and one.nodes == other.nodes and one.software == other.software):
            continue
        numbers = one.node_rank, other.node_rank
        if None in numbers or not all(n.known for n in numbers if n is not None):
            continue
        if numbers[0] == numbers[1] or one.script != other.script or not _same_run(one, other):
            continue
        first, second = (
            next((p for p in la.ports if p.purpose == "rendezvous" and p.listens), None)
            for la in (one, other)
        )
        if first is None or second is None or first.value.same_as(second.value) is not False:
            continue
        yield Judgement(
            "rendezvous port",
            {one.label: show(first.value), other.label: show(second.value)},
            "conflict",
            say(
                "{one} and {other} are nodes {first} and {second} of one job, but meet at "
                "different ports: each waits for the other until the rendezvous' time-out",
                one=one.label,
                other=other.label,
                first=numbers[0].text if numbers[0] is not None else "?",
                second=numbers[1].text if numbers[1] is not None else "?",
            ),
            places(first.value, second.value, one.place, other.place),
            None,
            ("rendezvous-environment",),
        )


def _same_run(one: Launch, other: Launch) -> bool:
    """Whether two commands are the same but for what tells nodes apart."""
    mine, theirs = ([w.text for w in la.words] for la in (one, other))
    return len(mine) == len(theirs) and mine[:3] == theirs[:3]


def _port(launch: Launch) -> Iterator[Judgement]:
    """A port that each node would choose for itself."""
    if not _several(launch) or "standalone" in launch.flags:
        return
    for port in launch.ports:
        if port.purpose != "rendezvous" or not port.listens or port.value.text != "0":
            continue
        if launch.software == "sglang" or launch.engine == "vllm":
            continue
        # a cluster that sets the address or the number of nodes may set the port, too
        by_hand = port.host is not None and port.host.known and not port.host.default
        if port.value.default and launch.nodes is None:
            continue
        yield Judgement(
            "rendezvous port",
            {launch.label: "not set" if port.value.default else show(port.value)},
            "conflict" if by_hand or not port.value.default else "suspicious",
            say(
                "{program} runs on several nodes, and each of them takes a free port of its own: "
                "they never meet",
                program=launch.label,
            ),
            places(port.value, launch.settings.get("nodes"), launch.place),
            "MASTER_PORT=29500",
            ("rendezvous-environment",),
        )


def _random_meeting(launch: Launch) -> Iterator[Judgement]:
    """A rendezvous whose name every node draws for itself."""
    name = launch.settings.get("rdzv_id")
    if launch.software != "axolotl" or name is None or launch.nodes is None or launch.nodes < 2:
        return
    yield Judgement(
        "rdzv_id",
        {launch.label: "not set"},
        "conflict",
        say(
            "without --rdzv_id axolotl draws one on each node, and nodes with different ones never "
            "meet at the endpoint"
        ),
        places(launch.flag("rdzv_endpoint"), launch.place),
        "--rdzv_id JOB",
        ("rendezvous-environment",),
    )


def _ray_port(context: Context, launch: Launch) -> Iterator[Judgement]:
    """A port of Ray that is asked and that no head of the plan listens on."""
    for asked in launch.ports:
        if asked.listens or asked.purpose not in ("ray", "dashboard") or not asked.value.known:
            continue
        if launch.software != "ray" and not (asked.host and asked.host.text in LOCAL):
            continue  # a submission to another machine's Ray
        heads = [
            (la, p)
            for la in context.launches
            for p in la.ports
            if la.software == "ray" and p.listens and p.purpose == asked.purpose
            if la is not launch and together(la, launch)
        ]
        if not heads or any(p.value.same_as(asked.value) is not False for _, p in heads):
            continue
        head, port = heads[0]
        yield Judgement(
            f"{asked.purpose} port",
            {launch.label: show(asked.value), head.label: show(port.value)},
            "conflict",
            say(
                "{program} connects to port {port}, but the server listens on {listening}",
                program=launch.label,
                port=asked.value.text,
                listening=show(port.value),
            ),
            places(asked.value, port.value, launch.place, head.place),
            None,
            ("rendezvous-environment",),
        )


def _own_name(value: Value) -> bool:
    """Whether an address is what a machine's own files say of its name."""
    return re.search(r"hostname +(?:--ip-address|-i)\b", value.text) is not None


def falls_back(value: Value) -> bool:
    """Whether an address's expression ends in a local one when it fails."""
    text = value.text
    return any(mark in text for mark in ("localhost", "127.0.0.1")) and any(
        mark in text for mark in ("||", ":-", "|")
    )
