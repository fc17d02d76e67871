"""Where the evidence of runs is kept."""

from __future__ import annotations

import time
from pathlib import Path

from unstall.experiments.nurse import LabError
from unstall.model.text import say


def new_folder(output: Path | None, name: str) -> Path:
    """A folder for the evidence of all runs of one call.

    Args:
        output: as the user gave it; by default ``unstall-<name>-<date>-<time>`` here.
        name: of the scenario or script.

    Raises:
        LabError: it exists and holds something, or cannot be made.
    """
    try:
        if output is None:
            return _of_its_own(f"unstall-{name}-{time.strftime('%Y%m%d-%H%M%S')}")
        if output.exists() and any(output.iterdir()):
            raise LabError(
                say(
                    "The folder {folder} is not empty: name another with --output.",
                    folder=str(output),
                )
            )
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            say(
                "The folder {folder} cannot be written: {error}",
                folder=str(output or Path.cwd()),
                error=error.strerror or str(error),
            )
        ) from error
    return _spelled(output)


def _of_its_own(name: str) -> Path:
    """A folder that was not there: two calls in one second must not share one."""
    number = 1
    while True:
        wanted = Path(name if number == 1 else f"{name}-{number}")
        try:
            wanted.mkdir()
        except FileExistsError:
            number += 1
        else:
            return _spelled(wanted)


def _spelled(folder: Path) -> Path:
    """The whole path.

    Raises:
        LabError: it holds bytes that are no text: reports name it.
    """
    whole = folder.resolve()
    try:
        str(whole).encode()
    except UnicodeEncodeError as error:
        raise LabError(
            say(
                "The path {folder} is not UTF-8: name another folder with --output.",
                folder=repr(str(whole)),
            )
        ) from error
    return whole
