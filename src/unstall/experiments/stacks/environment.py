"""Builds a stack's own environment: a venv, pinned, step by step, and it may be interrupted.

What was done is recorded after each step, so that a second call goes on where the first was
stopped. pip keeps what it has downloaded in its own cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from unstall.experiments.nurse import LabError
from unstall.experiments.stacks.recipe import (
    Recipe,
    Step,
    check_machine,
    normal,
    recipe_for,
    recipes,
    written,
)
from unstall.model.text import Text, say

#: Hears what is going on, a sentence at a time.
Tell = Callable[[Text], None]

DONE = "done.json"
VERSIONS = "versions.json"
LOG = "install.log"
#: Names the base's packages; Python looks there after the environment's own.
BELOW = "below.pth"
_LOADING = re.compile(r"^\s*Downloading (\S{1,200}?)(?: \(([\d.]+ [kMG]?B)\))?\s*$")


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """A stack that is installed.

    Attributes:
        place: its folder; a tiny model and other things that only it needs may be kept there.
        python: its interpreter.
        versions: of every distribution in it.
    """

    place: Path
    python: Path
    versions: dict[str, str]


def home() -> Path:
    """Where environments are kept: ``$UNSTALL_STACKS``, else below the user's cache folder."""
    given = os.environ.get("UNSTALL_STACKS")
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "unstall" / "stacks"


def place_of(recipe: Recipe, root: Path | None = None) -> Path:
    """The folder of a stack's environment; another set of versions has another folder."""
    return (root or home()) / f"{recipe.name}-{_digest(recipe.versions)[:8]}"


def build(recipe: Recipe, tell: Tell, *, root: Path | None = None) -> Environment:
    """The stack's environment, built as far as it is not built yet.

    Args:
        recipe: what to install.
        tell: hears of size and time before anything starts, then of each step.
        root: folder of all environments.

    Raises:
        LabError: the machine, the Python or the disk does not do, or pip failed.
    """
    check_machine(recipe)
    for other in (recipe, *recipes()):
        # whoever has more at the same versions does as well
        if recipe.versions.items() <= other.versions.items():
            place = place_of(other, root)
            if _whole(other, place):
                return _installed(place)
    below = build(recipe_for(recipe.base, recipes()), tell, root=root) if recipe.base else None
    place = place_of(recipe, root)
    base = _base_python(recipe)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            say(
                "The folder {folder} cannot be written: {error}",
                folder=str(place),
                error=error.strerror or str(error),
            )
        ) from error
    with _lock(place, tell) as lock:
        missing = _missing(recipe, place)
        _announce(recipe, place, missing, tell)
        _make_venv(place, base, tell, below, lock)
        for step in missing:
            _take(step, recipe, place, tell, lock)
        _write_down(place, tell)
    return _installed(place)


def _installed(place: Path) -> Environment:
    found = json.loads((place / VERSIONS).read_text(encoding="utf-8"))
    return Environment(
        place=place,
        python=place / "venv" / "bin" / "python",
        versions=dict(sorted((normal(name), version) for name, version in found.items())),
    )


# --- what is left to do ------------------------------------------------------------------------


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _key(step: Step, recipe: Recipe) -> str:
    """A step's content with the versions it gives."""
    return _digest([msgspec.to_builtins(step), [_pin(name, recipe) for name in step.install]])


def _pin(name: str, recipe: Recipe) -> str:
    bare = normal(name.partition("[")[0])
    return f"{name}=={recipe.versions[bare]}"


def _whole(recipe: Recipe, place: Path) -> bool:
    """Whether an environment, and the one it is laid over, are there with all their steps."""
    if _missing(recipe, place):
        return False
    if not recipe.base:
        return True
    with contextlib.suppress(OSError, LabError):
        return Path((_packages(place) / BELOW).read_text(encoding="utf-8").strip()).is_dir()
    return False


def _packages(place: Path) -> Path:
    """An environment's folder of packages."""
    found = sorted((place / "venv" / "lib").glob("python*/site-packages"))
    if not found:
        raise LabError(say("{folder} is no virtual environment.", folder=str(place / "venv")))
    return found[0]


def _missing(recipe: Recipe, place: Path) -> list[Step]:
    """Steps still to be taken; none once the environment is whole."""
    done = _done(place)
    left = [step for step in recipe.steps if done.get(step.name) != _key(step, recipe)]
    if not left and not (place / VERSIONS).exists():
        return list(recipe.steps[-1:])
    return left


def _done(place: Path) -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((place / DONE).read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def _announce(recipe: Recipe, place: Path, missing: list[Step], tell: Tell) -> None:
    if not missing:
        return
    if len(missing) < len(recipe.steps):
        tell(
            say(
                "going on with the installation of {stack}: {done} of {all} steps are done",
                stack=written(recipe),
                done=len(recipe.steps) - len(missing),
                all=len(recipe.steps),
            )
        )
        return
    free = shutil.disk_usage(place).free
    if free < recipe.disk_mb * 1.1e6:
        raise LabError(
            say(
                "{stack} needs {disk} in {folder}; {free} are free. Another folder: "
                "UNSTALL_STACKS=FOLDER",
                stack=written(recipe),
                disk=_size(recipe.disk_mb * 1e6),
                folder=str(place),
                free=_size(free),
            )
        )
    tell(
        say(
            "installing {stack} once, into {folder}: about {download} to download, {disk} on "
            "disk, {minutes} minutes or more; it may be interrupted and goes on at the next call",
            stack=written(recipe),
            folder=str(place),
            download=_size(recipe.download_mb * 1e6),
            disk=_size(recipe.disk_mb * 1e6),
            minutes=recipe.minutes,
        )
    )


def _size(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{max(1, round(size / 1e6))} MB"


# --- the steps ---------------------------------------------------------------------------------


def _base_python(recipe: Recipe) -> str:
    """An interpreter of a version that the stack runs with."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if not recipe.python or here in recipe.python:
        return str(getattr(sys, "_base_executable", sys.executable))
    for version in recipe.python:
        found = shutil.which(f"python{version}")
        if found and _answers(found, version):
            return found
    raise LabError(
        say(
            "{stack} runs with Python {versions}: neither this Python ({here}) nor one on the "
            "path is of these versions.",
            stack=written(recipe),
            versions=", ".join(recipe.python),
            here=here,
        )
    )


def _answers(python: str, version: str) -> bool:
    """Whether an interpreter is what its name says; version managers leave names behind."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout.strip() == version
    return False


def _make_venv(place: Path, base: str, tell: Tell, below: Environment | None, lock: int) -> None:
    """A virtual environment; over another it has nothing of its own, not even pip."""
    venv = place / "venv"
    if below is None and (venv / "bin" / "pip").exists():
        return
    if below is None or not list((venv / "lib").glob(f"python*/site-packages/{BELOW}")):
        tell(say("making a virtual environment with {python}", python=base))
        shutil.rmtree(venv, ignore_errors=True)
        bare = ["--without-pip"] if below is not None else []
        _run([base, "-m", "venv", *bare, str(venv)], place, lambda _line: None, lock)
    if below is not None:
        (_packages(place) / BELOW).write_text(f"{_packages(below.place)}\n", encoding="utf-8")


def _take(step: Step, recipe: Recipe, place: Path, tell: Tell, lock: int) -> None:
    number = recipe.steps.index(step) + 1
    tell(
        say(
            "step {number} of {all}: {name}",
            number=number,
            all=len(recipe.steps),
            name=step.name,
        )
    )
    if step.stand_in is not None:
        _stand_in(place, *step.stand_in.split("=="))
    if step.install:
        _install(step, recipe, place, tell, lock)
    done = _done(place)
    done[step.name] = _key(step, recipe)
    draft = place / f".{DONE}"
    draft.write_text(json.dumps(done, indent=1), encoding="utf-8")
    draft.replace(place / DONE)


def _install(step: Step, recipe: Recipe, place: Path, tell: Tell, lock: int) -> None:
    constraints = place / "constraints.txt"
    constraints.write_text(
        "".join(f"{name}=={version}\n" for name, version in sorted(recipe.versions.items())),
        encoding="utf-8",
    )
    command = [
        str(place / "venv" / "bin" / "python"), "-m", "pip", "install",
        "--progress-bar", "off", "--no-input", "--disable-pip-version-check",
    ]  # fmt: skip
    if step.dependencies:
        command += ["--constraint", str(constraints)]
    else:
        command += ["--no-deps"]
    begun = time.monotonic()

    def hear(line: str) -> None:
        found = _LOADING.match(line)
        if found is not None and found[2] and not found[2].endswith("kB"):
            tell(
                say(
                    "  downloading {file} ({size}), {seconds} s",
                    file=found[1].rpartition("/")[2],
                    size=found[2],
                    seconds=int(time.monotonic() - begun),
                )
            )
        elif line.startswith("Installing collected packages"):
            tell(say("  unpacking, {seconds} s", seconds=int(time.monotonic() - begun)))

    _run([*command, *(_pin(name, recipe) for name in step.install)], place, hear, lock)


def _stand_in(place: Path, name: str, version: str) -> None:
    """Metadata of a distribution that is not there under that name."""
    folder = _packages(place) / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
    )
    (folder / "INSTALLER").write_text("unstall\n", encoding="utf-8")
    (folder / "RECORD").write_text("", encoding="utf-8")


def _run(command: list[str], place: Path, hear: Callable[[str], None], lock: int) -> None:
    """Run one command of the installation.

    It gets the descriptor of the folder's lock: if this process is killed, pip goes on for a
    while, and the folder stays locked until it has ended.
    """
    last: list[str] = []
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    with (place / LOG).open("a", encoding="utf-8") as log:
        log.write("+ " + " ".join(command) + "\n")
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            pass_fds=(lock,),
        ) as process:
            try:
                for line in process.stdout or ():
                    log.write(line)
                    log.flush()
                    last = [*last[-30:], line.strip()]
                    hear(line.rstrip("\n"))
            except BaseException:
                process.terminate()
                raise
    if process.returncode:
        errors = [line for line in last if line.startswith("ERROR")] or last[-3:]
        raise LabError(
            say(
                "The installation stopped: {error} (all of it: {log}). The next call goes on "
                "from here.",
                error=" ".join(errors)[:600],
                log=str(place / LOG),
            )
        )


def _write_down(place: Path, tell: Tell) -> None:
    """Every distribution that is now there, with its version."""
    done = subprocess.run(
        [str(place / "venv" / "bin" / "python"), "-m", "pip", "list", "--format", "json",
         "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    try:
        found = {normal(one["name"]): one["version"] for one in json.loads(done.stdout)}
    except ValueError as error:
        raise LabError(
            say("pip does not list what is installed: {error}", error=done.stderr[-300:])
        ) from error
    draft = place / f".{VERSIONS}"
    draft.write_text(json.dumps(dict(sorted(found.items())), indent=1), encoding="utf-8")
    draft.replace(place / VERSIONS)
    tell(
        say(
            "installed: {count} packages; their versions are in {file}",
            count=len(found),
            file=str(place / VERSIONS),
        )
    )


@contextlib.contextmanager
def _lock(place: Path, tell: Tell) -> Iterator[int]:
    """One builder at a time in a folder; the descriptor that holds the lock."""
    with (place / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(say("another process installs into {folder}: waiting for it", folder=str(place)))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()
