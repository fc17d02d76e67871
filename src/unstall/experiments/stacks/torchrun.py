"""A training script of torch alone, started by ``torchrun``: FSDP2 over a corpus dealt to ranks.

The script is ``inside/train.py``; it runs in any environment that has torch, the one that unstall
itself runs in included.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from unstall.experiments.scenario import Change, Control, Scenario, Settings, Waits
from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.levels import Level, inside
from unstall.model.text import say

BATCH = 8
EPOCHS = 2


def samples(settings: Settings) -> int:
    """Samples of the corpus: one more than divides, unless a control says otherwise.

    Each rank has as many batches an epoch as make the wanted steps; the one sample more is a
    batch more of rank 0.
    """
    batches = max(1, settings.steps // EPOCHS)
    whole = batches * BATCH * settings.ranks
    return whole if settings.control == "equal-shards" or not settings.fault else whole + 1


def _script(environment: Environment, settings: Settings, _place: Path) -> str:
    flags = {
        "samples": samples(settings),
        "batch-size": BATCH,
        "epochs": EPOCHS,
        "seed": settings.seed,
    }
    words = [f"--{name} {value}" for name, value in flags.items()]
    if "drop-last" in settings.changes:
        words.append("--drop-last")
    if "agree-on-the-end" in settings.changes:
        words.append("--agree")
    start = " \\\n  ".join(
        [
            f"torchrun --standalone --nproc-per-node {settings.ranks}",
            shlex.quote(str(inside("train.py"))),
            *words,
        ]
    )
    folders = {
        "PATH": shlex.quote(str(environment.python.parent)),
        "PYTHONPATH": shlex.quote(str(inside("bridges"))),
    }
    return (
        "#!/bin/bash\n"
        "# FSDP2 on a CPU, torch alone\n"
        f"export PATH={folders['PATH']}:$PATH\n"
        f"export PYTHONPATH={folders['PYTHONPATH']}${{PYTHONPATH:+:$PYTHONPATH}}\n"
        "export CUDA_VISIBLE_DEVICES=\n"
        "export OMP_NUM_THREADS=1\n"
        f"export {_recorder(environment)}=2000\n"
        "export UNSTALL_RANKS=trainer\n"
        'cd "${UNSTALL_STATE_FOLDER:-$(mktemp -d)}"\n'
        f"{start}\n"
    )


def _recorder(environment: Environment) -> str:
    """The variable that turns the Flight Recorder on: the first has been its name since 2.8."""
    version = re.match(r"(\d+)\.(\d+)", environment.versions.get("torch", ""))
    old = version is not None and (int(version[1]), int(version[2])) < (2, 8)
    return "TORCH_NCCL_TRACE_BUFFER_SIZE" if old else "TORCH_FR_BUFFER_SIZE"


TORCHRUN = Level(
    packages=("torch",),
    needs_model=False,
    own_environment=True,
    first=300.0,
    scenario=Scenario(
        name="uneven-fsdp",
        causes=("uneven-batches",),
        title=say("an FSDP2 script under torchrun whose ranks have different numbers of batches"),
        about=say(
            "An ordinary training script with torch alone, started by torchrun. The samples are "
            "dealt to the ranks one by one; there is one more than divides, so that rank 0 has a "
            "last batch of one sample. It gathers sharded parameters for it, while the others "
            "have left the epoch and reduce its loss."
        ),
        module="",
        programs=(),
        changes=(
            Change("drop-last", say("the samples that do not divide are left out (--drop-last)")),
            Change(
                "agree-on-the-end",
                say("before each batch the ranks agree whether everyone has one (--agree)"),
            ),
        ),
        controls=(Control("equal-shards", say("as many samples as divide: equal numbers")),),
        # no mark of the dumps: before 2.8 the recorder leaves groups of gloo out
        fingerprint=(Waits("train.py", "mean_loss"), Waits("train.py", "unshard")),
        ranks=2,
        least=2,
        most=8,
        steps=40,
        long_steps=2000,
        by=40,
        stall=8.0,
        timeout=1800.0,
        limit=1800.0,
    ),
    script=_script,
)
