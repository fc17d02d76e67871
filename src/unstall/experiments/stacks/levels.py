"""What a stack runs: a scenario's software itself, wholly or the part that fails.

Which it is follows from the packages that were asked for. With vLLM alone its engines are driven
directly, call after call; with ms-swift the rollout server and the trainer are started from a
launch script. Either is a script that can be run by hand.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import msgspec

from unstall.experiments.nurse import LabError
from unstall.experiments.scenario import Apart, Change, Control, Scenario, Settings, Waits
from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.recipe import Recipe, written
from unstall.model.text import say


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a stack.

    Attributes:
        packages: that must be in the stack, no others of those that other levels need.
        scenario: what is declared of it: its faults, changes, sizes, fingerprint.
        script: the launch script for a run, of the environment, the settings, the model's folder.
        first: seconds without any output, before its first step, that count as a hang.
        needs_model: whether it runs the tiny model; without it the script is told another folder.
        own_environment: whether the environment that unstall itself runs in will do, where it has
            the versions that were asked for.
    """

    packages: tuple[str, ...]
    scenario: Scenario
    script: Callable[[Environment, Settings, Path], str]
    first: float = 600.0
    needs_model: bool = True
    own_environment: bool = False


def inside(name: str) -> Path:
    """A file that is run by a stack's Python."""
    return Path(str(resources.files("unstall.experiments.stacks") / "inside" / name))


def level_for(name: str, recipe: Recipe) -> Level:
    """How a stack runs a scenario, or the first scenario of a cause.

    Raises:
        LabError: it does not.
    """
    from unstall.experiments.stacks.grpo import GRPO
    from unstall.experiments.stacks.torchrun import TORCHRUN
    from unstall.experiments.stacks.trl import TRL

    levels = (ENGINES, GRPO, TRL, TORCHRUN)
    for level in levels:
        fits = name == level.scenario.name or name in level.scenario.causes
        if fits and set(level.packages) == set(recipe.asked):
            return level
    raise LabError(
        say(
            "“{name}” cannot be run with {stack}; with a stack: {known}",
            name=name,
            stack=written(recipe),
            known=", ".join(f"{one.scenario.name} ({' + '.join(one.packages)})" for one in levels),
        )
    )


# --- vLLM's engines ------------------------------------------------------------------------------

_SETTING = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TORCH_FR_BUFFER_SIZE": "2000",
    # vLLM's sampler is compiled at the first request on a CPU: a minute, and it looks like a hang
    "TORCH_COMPILE_DISABLE": "1",
}


def exports(more: dict[str, str]) -> str:
    """Lines that export variables."""
    return "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in {**_SETTING, **more}.items()
    )


def _engines(environment: Environment, settings: Settings, model: Path) -> str:
    sizes = settings.sizes
    flags = {
        "model": str(model),
        "steps": settings.steps,
        "engines": int(sizes["engines"]),
        "prompts": int(sizes["prompts"]),
        "generations": int(sizes["generations"]),
        "tokens": int(sizes["tokens"]),
        "kilopixels": f"{sizes['kilopixels']:g}",
        "spread": f"{sizes['spread']:g}",
        "pause": f"{sizes['pause']:g}",
        "seed": settings.seed,
    }
    rest = settings.control == "delay-before-first"
    if rest:
        flags |= {"pause": "1", "pause-before": 0, "kilopixels": "0"}
    if settings.control == "long-completions":
        flags |= {"tokens": 120, "least-tokens": 40}
    words = [str(environment.python), "-u", str(inside("engines.py"))]
    for name, value in flags.items():
        words += [f"--{name}", str(value)]
    if rest:
        words.append("--rest")
    for change in settings.changes:
        words += ["--change", change]
    command = " ".join(shlex.quote(word) for word in words)
    bind = "|".join(str(number % 2) for number in range(int(sizes["engines"])))
    return (
        "#!/bin/bash\n"
        "# vLLM's data-parallel engines on a CPU, each with a front end that submits requests\n"
        + exports(
            {
                "VLLM_CPU_OMP_THREADS_BIND": bind,
                "PYTHONPATH": str(inside("bridges")),
            }
        )
        + f"exec {command}\n"
    )


INDEPENDENT = Change(
    "independent-engines",
    say("engines that share no group: several servers of one engine each"),
)
IN_PROCESS = Change(
    "in-process",
    say(
        "each engine in its front end's process, stepping only when all is submitted "
        "(VLLM_ENABLE_V1_MULTIPROCESSING=0)"
    ),
)

ENGINES = Level(
    packages=("vllm",),
    scenario=Scenario(
        name="grpo-rollout-server",
        causes=("engine-desync",),
        title=say("vLLM's own data-parallel engines fall out of step between two waves"),
        about=say(
            "The engines of vLLM in offline data parallel, each with its own front end, as a "
            "rollout server starts them. The front ends submit their requests one by one and "
            "prepare an image before every new prompt, while their engines already step. "
            "Nothing waits on purpose unless the size “pause” says so."
        ),
        module="",
        programs=(),
        changes=(
            INDEPENDENT,
            Change("hold-wave-open", say("a wave does not end while a front end still submits")),
            Change(
                "preprocess-first",
                say("each front end prepares everything, then submits in one go"),
            ),
            IN_PROCESS,
        ),
        controls=(
            Control(
                "delay-before-first",
                say(
                    "one front end begins a second late, with no wave from the call before still "
                    "running; no image costs anything"
                ),
            ),
            Control(
                "long-completions",
                say("completions of 40 to 120 tokens: a wave outlasts the preparing"),
            ),
        ),
        fingerprint=(
            Waits("EngineCore", "num_tokens_across_dp"),
            Waits("EngineCore", "_process_input_queue"),
            Apart("15", ((1, 0), (0, 0)), "all_reduce", "rollout"),
        ),
        ranks=2,
        least=2,
        most=2,
        sizes={
            "engines": 2,
            "prompts": 6,
            "generations": 8,
            "tokens": 5,
            "kilopixels": 1000,
            "spread": 1.0,
            "pause": 0,
        },
        size_texts={
            "engines": say("data-parallel engines of the server"),
            "prompts": say("prompts of each front end in a call"),
            "generations": say("completions of each prompt"),
            "tokens": say("longest completion"),
            "kilopixels": say("median size of an image, in thousands of pixels"),
            "spread": say("spread of the image sizes: sigma of their logarithm"),
            "pause": say("seconds that one front end waits after its first request"),
        },
        steps=300,
        long_steps=3000,
        by=300,
        stall=25.0,
        timeout=1800.0,
        limit=7200.0,
    ),
    script=_engines,
    first=240.0,  # they start within a minute, and may hang in the call that warms up
)
