"""Ranks and agents that are started, against how many of them a launcher waits for.

Sources: PyTorch 2.13 ``torch/distributed/run.py`` (one agent on each of ``--nnodes`` nodes; it
starts ``--nproc_per_node`` ranks), DeepSpeed 0.19.5 ``launcher/runner.py`` (``--no_ssh``),
Lightning 2.6.5 ``fabric/plugins/environments/slurm.py`` and ``torchelastic.py``
(``validate_settings``), Accelerate 1.10 ``commands/launch.py``; for pods see
:mod:`unstall.launch.operators`, for srun's tasks :func:`unstall.programs.mpi.srun_tasks`.
"""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places, show
from unstall.model.plan import Judgement, Value
from unstall.model.text import Text, say
from unstall.programs.base import Launch, number

_AGENTS = ("torchrun", "accelerate")
_SLURM_NUMBERS = ("SLURM_PROCID", "SLURM_NODEID")


def judge(context: Context) -> Iterator[Judgement]:
    """Rows only where the numbers differ."""
    for launch in context.launches:
        yield from _pods(launch)
        yield from _tasks(launch)
        if launch.software == "lightning":
            yield from _lightning(launch)


def _agent(launch: Launch) -> str | None:
    return next((name for name in launch.launchers if name in _AGENTS), None)


def _row(
    launch: Launch,
    name: str,
    value: str,
    why: Text,
    correction: str | None = None,
    *more: Value | None,
    judgement: str = "conflict",
) -> Judgement:
    return Judgement(
        name,
        {launch.label: value},
        judgement,
        why,
        places(*more, launch.place),
        correction,
        ("rendezvous-environment",),
    )


def _pods(launch: Launch) -> Iterator[Judgement]:
    """More nodes than a manifest has pods."""
    text = (launch.container or {}).get("pods", "")
    pods = int(text) if text.isdigit() else None
    nodes = launch.settings.get("nodes")
    if pods is None or nodes is None or launch.nodes is None or launch.nodes <= pods:
        return
    if ":" in nodes.text:
        return  # elastic: the least number of nodes is enough
    yield _row(
        launch,
        "nodes",
        show(nodes),
        say(
            "{program} waits for {nodes} nodes, but the manifest starts {pods}: they wait for the "
            "others until the rendezvous' time-out",
            program=launch.label,
            nodes=launch.nodes,
            pods=pods,
        ),
        None,
        nodes,
    )


def _tasks(launch: Launch) -> Iterator[Judgement]:
    """Srun's tasks against the agents that a launcher waits for."""
    agent = _agent(launch)
    tasks = number(launch.settings.get("tasks"))
    if "srun" not in launch.launchers or tasks is None:
        return
    if "deepspeed" in launch.launchers and tasks > 1 and "no_ssh" not in launch.flags:
        yield _row(
            launch,
            "tasks",
            str(tasks),
            say(
                "srun starts the deepspeed launcher {tasks} times, and each of them starts all "
                "ranks of the job: it reaches other nodes by ssh and is started once",
                tasks=tasks,
            ),
            "deepspeed --hostfile …",
            launch.settings["tasks"],
            judgement="suspicious",
        )
    if agent is None:
        return
    if launch.nodes is None:
        return
    each = number(launch.settings.get("tasks per node"))
    flag = {"torchrun": "--nnodes", "accelerate": "--num_machines"}[agent]
    given = launch.flag("nnodes", "num_machines")
    told = launch.settings["tasks"]
    if given is None and "standalone" not in launch.flags:
        if tasks > 1:
            yield _row(
                launch,
                "tasks",
                str(tasks),
                say(
                    "srun starts {launcher} {tasks} times, and without {flag} each of them is a "
                    "job of its own: nobody exchanges gradients with the others",
                    launcher=agent,
                    tasks=tasks,
                    flag=flag,
                ),
                f"{flag} {tasks}" if each == 1 else None,
                told,
                judgement="suspicious",
            )
        return
    least = launch.nodes
    if given is not None and ":" in given.text:
        first = given.text.partition(":")[0]
        least = int(first) if first.isdigit() and len(first) < 7 else 1
    if tasks > launch.nodes:
        yield _row(
            launch,
            "tasks",
            str(tasks),
            say(
                "srun starts {launcher} {tasks} times, but {launcher} waits for {nodes} nodes and "
                "starts the ranks of its node itself: it wants one task for each node",
                launcher=agent,
                tasks=tasks,
                nodes=launch.nodes,
            ),
            f"srun --nodes={launch.nodes} --ntasks-per-node=1 …",
            told,
            given,
        )
    elif tasks < least and _alone(launch):
        yield _row(
            launch,
            "tasks",
            str(tasks),
            say(
                "srun starts {launcher} {tasks} times, but {launcher} waits for {nodes} nodes: "
                "they wait for the others until the rendezvous' time-out",
                launcher=agent,
                tasks=tasks,
                nodes=least,
            ),
            f"{flag} {tasks}",
            told,
            given,
        )


def _alone(launch: Launch) -> bool:
    """Whether no other start of the script can be one of the nodes that are missing."""
    rank = launch.node_rank
    by_slurm = rank is None or any(name in rank.text for name in _SLURM_NUMBERS)
    return by_slurm and not (launch.call.background or launch.call.conditions)


def _lightning(launch: Launch) -> Iterator[Judgement]:
    devices = launch.settings.get("processes per node")
    nodes = launch.settings.get("nodes")
    count, machines = number(devices), number(nodes) if nodes is not None else 1
    if "srun" in launch.launchers and _agent(launch) is None:
        yield from _under_srun(launch, devices, count, nodes, machines)
    elif not launch.launchers:
        yield from _without_srun(launch)
    elif _agent(launch) == "torchrun" and count is not None and machines is not None:
        world = launch.processes
        if world is not None and count > 0 and count * machines != world:
            yield _row(
                launch,
                "devices",
                show(devices),
                say(
                    "Lightning's devices × num_nodes = {asked}, but torchrun starts {world} ranks: "
                    "since 2.1 Lightning refuses that, before the ranks disagree on their number",
                    asked=count * machines,
                    world=world,
                ),
                None,
                devices,
                nodes,
            )


def _under_srun(
    launch: Launch,
    devices: Value | None,
    count: int | None,
    nodes: Value | None,
    machines: int | None,
) -> Iterator[Judgement]:
    if (launch.flag("job_name") or Value("")).text in ("bash", "interactive"):
        return
    each = number(launch.settings.get("tasks per node"))
    tasks = number(launch.settings.get("tasks"))
    told = {"ntasks", "ntasks_per_node"} & launch.flags.keys()
    if told == {"ntasks"} and tasks is not None and tasks > 1 and each is not None:
        yield _row(
            launch,
            "tasks",
            str(tasks),
            say(
                "Lightning refuses --ntasks without --ntasks-per-node: it cannot know how the "
                "{tasks} tasks are spread over the nodes",
                tasks=tasks,
            ),
            f"--ntasks-per-node={each}",
            launch.settings.get("tasks"),
        )
        return
    if count is not None and count > 0 and each is not None and count != each:
        yield _row(
            launch,
            "devices",
            show(devices),
            say(
                "Lightning is told {count} devices on a node, but Slurm starts {each} tasks there, "
                "and each task is one rank: Lightning refuses it where --ntasks-per-node is given, "
                "else it waits for ranks that nobody starts",
                count=count,
                each=each,
            ),
            f"--ntasks-per-node={count}",
            devices,
            launch.settings.get("tasks"),
        )
    if machines is not None and launch.nodes is not None and machines != launch.nodes:
        yield _row(
            launch,
            "nodes",
            show(nodes) if nodes is not None else "1 (default)",
            say(
                "Lightning is told {machines} nodes, but Slurm's job has {nodes}: Lightning "
                "refuses it",
                machines=machines,
                nodes=launch.nodes,
            ),
            f"num_nodes={launch.nodes}",
            nodes,
            launch.settings.get("tasks"),
        )


def _without_srun(launch: Launch) -> Iterator[Judgement]:
    """A batch script of several tasks that starts one process without srun."""
    tasks = number(launch.settings.get("tasks of the job"))
    if tasks is None or tasks < 2 or launch.host is not None:
        return
    yield _row(
        launch,
        "tasks",
        str(tasks),
        say(
            "Slurm tells Lightning {tasks} tasks, so that it starts no processes itself, and "
            "without srun only one of them runs: it waits for the others until the time-out",
            tasks=tasks,
        ),
        "srun " + " ".join(word.text for word in launch.call.words[:2]) + " …",
    )
