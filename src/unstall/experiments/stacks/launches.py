"""What launch scripts of a rollout server and its trainer share, whichever software they are."""

from __future__ import annotations

import shlex

from unstall.experiments.scenario import Settings
from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.levels import ENGINES, exports, inside
from unstall.model.text import say

#: What the sizes of a stack with a trainer mean.
SIZE_TEXTS = {
    **{
        name: text
        for name, text in ENGINES.scenario.size_texts.items()
        if name not in ("prompts", "pause")
    },
    "batch": say("completions of each trainer rank a step"),
}


def head(environment: Environment, settings: Settings, more: dict[str, str]) -> str:
    """The variables of both programs, and the run's own folder as the working one."""
    return (
        exports(
            {
                "PATH": f"{environment.python.parent}:/usr/local/bin:/usr/bin:/bin",
                "PYTHONPATH": f"{inside('bridges')}:{inside('')}",
                "no_proxy": "*",
                "UNSTALL_SEED": str(settings.seed),
                **more,
            }
        )
        + 'export TMPDIR="${UNSTALL_STATE_FOLDER:-/tmp}"\n'
        + 'cd "$TMPDIR"\n'
    )


def serving(settings: Settings, every: int, bind: str) -> str:
    """Variables in front of a server: its images, one for so many requests, and its cores."""
    sizes = settings.sizes
    images = f"{sizes['kilopixels']:g},{sizes['spread']:g},{every}"
    before = "VLLM_ENABLE_V1_MULTIPROCESSING=0 " if "in-process" in settings.changes else ""
    return f"{before}UNSTALL_IMAGES={images} VLLM_CPU_OMP_THREADS_BIND={shlex.quote(bind)}"


def await_port(port: int, process: str) -> str:
    """Wait until a server listens; end where its process, named by a variable, has ended."""
    return (
        f"until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do\n"
        f"  kill -0 ${process} || exit 1\n"
        "  sleep 1\n"
        "done\n"
    )


def command(words: list[str]) -> str:
    """A command with a flag on each line."""
    found = " ".join(words[:2])
    for word in words[2:]:
        found += (" \\\n  " if word.startswith("--") else " ") + shlex.quote(word)
    return found
