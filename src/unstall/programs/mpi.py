"""mpirun, mpiexec and srun: what they give to each process.

Sources: Open MPI 5 ``mpirun(1)`` (``-np``, ``-H host:slots``, ``--npernode``, ``-x``), Slurm 24.05
``srun(1)`` (``--ntasks``, ``--ntasks-per-node``, ``--gpus-per-task``, ``--export``), see also
:func:`srun_tasks`.
"""

from __future__ import annotations

from collections.abc import Mapping

from unstall.launch.calls import Outer
from unstall.model.plan import Value
from unstall.model.text import say
from unstall.programs.base import Launch


def apply_mpirun(launch: Launch, outer: Outer) -> None:
    """Mpirun's processes, hosts and exported variables."""
    launch.launchers.append("mpirun")
    processes: int | None = None
    per_node: int | None = None
    hosts: list[tuple[str, int]] = []
    exported: dict[str, str | None] = {}
    for flag, value in outer.options:
        name = flag.lstrip("-")
        if name in ("np", "n", "c"):
            processes = int(value) if value.isdigit() else None
        elif name in ("npernode", "ppn", "perhost") and value.isdigit():
            per_node = int(value)
        elif name == "map-by" and value.startswith("ppr:"):
            count = value.split(":")[1]
            per_node = int(count) if count.isdigit() and ":node" in value else per_node
        elif name in ("H", "host", "hosts"):
            for part in value.split(","):
                host, _, slots = part.partition(":")
                if host:
                    hosts.append((host, int(slots) if slots.isdigit() else 1))
        elif name == "x":
            key, equals, text = value.partition("=")
            exported[key] = text if equals else None
        launch.flags[name.replace("-", "_")] = Value(value or "true", place=outer.place)
    if hosts:
        launch.nodes = len(hosts)
        if processes is None:
            processes = sum(slots for _, slots in hosts)
        if all(slots == hosts[0][1] for _, slots in hosts):
            per_node = per_node or hosts[0][1]
    launch.processes = processes
    launch.per_node = per_node
    if processes is not None and per_node and launch.nodes is None:
        launch.nodes = -(-processes // per_node)
    if launch.nodes is not None and launch.nodes > 1:
        # Over several hosts only what -x names travels (the local host inherits all).
        for name in list(launch.environment):
            if name not in exported and name != "PATH":
                launch.not_exported[name] = launch.environment.pop(name)
                launch.ignores[name] = say(
                    "mpirun passes a variable to other hosts only with -x {name}", name=name
                )
    for key, given in exported.items():
        if given is not None:
            launch.environment[key] = Value(given, place=outer.place)
    if processes is not None:
        launch.settings["processes"] = Value(str(processes), place=outer.place)
    launch.reads["MASTER_ADDR"] = say("the program's own init_process_group reads it")
    launch.reads["MASTER_PORT"] = say("the program's own init_process_group reads it")


def apply_srun(launch: Launch, outer: Outer, job: dict[str, str]) -> None:
    """Srun's tasks and nodes; ``job`` holds the batch script's directives."""
    launch.launchers.append("srun")
    names = {"N": "nodes", "n": "ntasks", "G": "gpus", "c": "cpus-per-task", "w": "nodelist"}
    own: dict[str, str] = {}
    for flag, value in outer.options:
        name = flag.lstrip("-")
        own[names.get(name, name)] = value
    options = {**job, **own}
    for name, value in options.items():
        launch.flags.setdefault(name.replace("-", "_"), Value(value or "true", place=outer.place))

    nodes, tasks, each = srun_tasks(job, own)
    launch.nodes = nodes
    launch.processes = tasks
    launch.per_node = each
    launch.settings["tasks"] = Value(str(tasks) if tasks is not None else "?", place=outer.place)
    if each is not None:
        launch.settings["tasks per node"] = Value(str(each), place=outer.place)
    gpus = gpus_per_node(options)
    if gpus is not None and launch.devices is None:
        launch.visible = gpus
    for part in options.get("export", "").split(","):
        key, equals, content = part.partition("=")
        if equals and key:
            launch.environment[key] = Value(content, place=outer.place)
    export = options.get("export", "ALL").split(",")
    if "ALL" not in export and options.get("export"):
        for name in list(launch.environment):
            if name not in export and not any(e.startswith(name + "=") for e in export):
                launch.not_exported[name] = launch.environment.pop(name)
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        launch.reads[name] = say("the program's own init_process_group reads it")


def job_sizes(options: Mapping[str, str]) -> tuple[int | None, int | None, int | None]:
    """Nodes, tasks and tasks of each node that a batch script's own options tell."""
    nodes, tasks, each = (_whole(options, n) for n in ("nodes", "ntasks", "ntasks-per-node"))
    if nodes is None and tasks is not None and each:
        nodes = -(-tasks // each)
    if tasks is None and nodes is not None and each:
        tasks = nodes * each
    return nodes, tasks, each


def srun_tasks(
    job: Mapping[str, str], own: Mapping[str, str]
) -> tuple[int | None, int | None, int | None]:
    """Nodes, tasks and tasks of each node of a step.

    Inside of a job srun takes the batch script's options from SLURM_NTASKS, SLURM_NTASKS_PER_NODE
    and SLURM_JOB_NUM_NODES. A number of tasks wins over a number for each node, also one that
    comes from there: ``srun --ntasks-per-node=1`` in a job of 16 tasks starts 16, with a warning,
    unless it names the nodes as well. Source: Slurm 24.05.8 ``src/srun/opt.c`` (``env_vars``,
    ``_opt_verify``), ``src/common/env.c`` (``env_array_for_batch_job``).

    Args:
        job: the batch script's options.
        own: srun's own.
    """
    job_nodes, job_tasks, job_each = job_sizes(job)
    nodes, tasks, each = (_whole(own, n) for n in ("nodes", "ntasks", "ntasks-per-node"))
    if any(n in own and v is None for n, v in (("nodes", nodes), ("ntasks", tasks))):
        return nodes, tasks, each  # an expression
    per_node = each if each is not None else job_each
    if tasks is None and nodes is not None and per_node:
        tasks = nodes * per_node
    elif tasks is None:
        tasks = job_tasks
    nodes = nodes if nodes is not None else job_nodes
    if nodes is None and tasks is not None and per_node:
        nodes = -(-tasks // per_node)
    if tasks is None and nodes is not None:
        tasks = nodes * (per_node or 1)
    if tasks is not None and nodes is not None:
        nodes = max(min(nodes, tasks), 1)
        return nodes, tasks, -(-tasks // nodes)
    return nodes, tasks, per_node


def _whole(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name, "").split("-")[0]
    return int(text) if text.isdigit() and len(text) < 7 else None


def gpus_per_node(options: dict[str, str]) -> int | None:
    """GPUs of each node as Slurm's options give them."""
    for name in ("gpus-per-node", "gres", "gpus-per-task"):
        text = options.get(name, "")
        for part in text.split(","):
            if name == "gres" and not part.startswith("gpu"):
                continue
            last = part.rsplit(":", 1)[-1]
            if last.isdigit():
                if name == "gpus-per-task":
                    each = options.get("ntasks-per-node", "1")
                    return int(last) * int(each) if each.isdigit() else None
                return int(last)
    return None
