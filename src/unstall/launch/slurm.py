"""Slurm batch scripts: ``#SBATCH`` directives and what Slurm sets for the script.

Source: Slurm 24.05.8 ``sbatch(1)``, "OUTPUT ENVIRONMENT VARIABLES"; ``src/common/env.c``
(``env_array_for_batch_job``: SLURM_NTASKS follows from ``--ntasks-per-node`` as well, and is not
set where neither it nor ``--ntasks`` is given).
"""

from __future__ import annotations

from unstall.launch.calls import Variable
from unstall.launch.strings import Unknown

_SHORT = {
    "N": "nodes",
    "n": "ntasks",
    "G": "gpus",
    "c": "cpus-per-task",
    "w": "nodelist",
    "J": "job-name",
    "t": "time",
    "p": "partition",
    "o": "output",
    "e": "error",
    "A": "account",
}


def directives(text: str) -> dict[str, str]:
    """Options of the ``#SBATCH`` lines; they end at the first command."""
    found: dict[str, str] = {}
    for line in text.split("\n")[:500]:
        stripped = line.strip()
        if not stripped.startswith("#"):
            if stripped and found:
                break
            continue
        if not stripped.startswith("#SBATCH"):
            continue
        words = stripped[len("#SBATCH") :].split("#")[0].split()
        at = 0
        while at < len(words):
            word = words[at]
            at += 1
            if not word.startswith("-"):
                continue
            name, equals, value = word.partition("=")
            if word.startswith("--"):
                key = name[2:]
            else:
                key = _SHORT.get(word[1:2], word[1:2])
                value = word[2:]
                equals = "=" if value else ""
            if not equals and at < len(words) and not words[at].startswith("-"):
                value = words[at]
                at += 1
            found[key] = value
    return found


def tasks(options: dict[str, str]) -> int | None:
    """SLURM_NTASKS of the batch script, where the options tell it."""
    from unstall.programs.mpi import job_sizes

    return job_sizes(options)[1]


def environment(options: dict[str, str]) -> dict[str, Variable]:
    """Variables that Slurm sets in the batch script, known where the options tell them."""
    if not options:
        return {}

    from unstall.programs.mpi import gpus_per_node, job_sizes

    def whole(name: str) -> int | None:
        text = options.get(name, "").split("-")[0]
        return int(text) if text.isdigit() else None

    nodes, tasks, each = job_sizes(options)
    known: dict[str, int | None] = {
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NTASKS": tasks,
        "SLURM_NTASKS_PER_NODE": each,
        "SLURM_CPUS_PER_TASK": whole("cpus-per-task"),
        # with a type (`a100:4`) the variable holds it, too: no number
        "SLURM_GPUS_PER_NODE": whole("gpus-per-node"),
        "SLURM_GPUS": whole("gpus"),
        "SLURM_GPUS_ON_NODE": gpus_per_node(options),
    }
    found = {
        name: Variable((str(number),), False, True, None)
        for name, number in known.items()
        if number is not None
    }
    # set by Slurm at run time, in the batch step too
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_SUBMIT_DIR"):
        unknown = Unknown(f"${name}", f"env:{name}", "environment")
        found[name] = Variable((unknown,), False, True, None)
    # not SLURM_NODEID, SLURM_PROCID, SLURM_LOCALID: they differ in the tasks of srun
    return found
