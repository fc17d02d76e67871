"""One run of a stack: its launch script, followed, and its evidence."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec

from unstall.experiments.nurse import LabError
from unstall.experiments.outcome import Run
from unstall.experiments.runner import Tell, stretch
from unstall.experiments.scenario import Settings
from unstall.experiments.scripts.run import run_script
from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.levels import Level, inside
from unstall.experiments.until import Until
from unstall.model.text import say
from unstall.processes import evidence

MODEL = "tiny-model"
STATE = "UNSTALL_STATE_FOLDER"


def tiny_model(environment: Environment) -> Path:
    """The folder of the tiny model; made once.

    Raises:
        LabError: it could not be made.
    """
    folder = environment.place / MODEL
    if folder.exists():
        return folder
    draft = environment.place / f".{MODEL}"
    shutil.rmtree(draft, ignore_errors=True)
    done = subprocess.run(
        [str(environment.python), str(inside("tiny_model.py")), str(draft)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise LabError(
            say("The tiny model could not be made: {error}", error=done.stderr.strip()[-500:])
        )
    draft.rename(folder)
    return folder


def run_stack(
    level: Level,
    environment: Environment,
    settings: Settings,
    folder: Path,
    *,
    name: str,
    tell: Tell,
) -> Run:
    """Run a stack's launch script once.

    Args:
        level: what is run.
        environment: with which software.
        settings: changes, sizes, steps.
        folder: gets the launch script and ``evidence``: it, the log, the versions, and of a run
            that hung the stacks of all processes and the recorder's dumps of the engines.
        name: of the run.
        tell: hears of progress.
    """
    model = tiny_model(environment) if level.needs_model else environment.place
    place = folder / "evidence"
    place.mkdir(parents=True, exist_ok=True)
    script = place / "launch.sh"
    script.write_text(level.script(environment, settings, model), encoding="utf-8")
    (place / "versions.txt").write_text(
        "".join(f"{one}=={version}\n" for one, version in environment.versions.items()),
        encoding="utf-8",
    )
    state = Path(tempfile.mkdtemp(prefix="unstall-"))
    dumps: dict[str, int] = {}

    def gather() -> None:
        asked = evidence.ask_for_dumps(state)
        dumps.update(evidence.collect_dumps(state, asked, place, 30.0))

    scale = stretch()
    try:
        run = run_script(
            script,
            folder,
            name=name,
            until=Until(),
            stall=level.scenario.stall * scale,
            first=level.first,
            total=settings.steps,
            limit=level.scenario.limit,
            environment={STATE: str(state)},
            tell=tell,
            gather=gather,
            remove=(state,),
        )
    finally:
        shutil.rmtree(state, ignore_errors=True)
    run = msgspec.structs.replace(run, settings=settings, dumps=dumps, scale=scale)
    (folder / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1))
    return run
