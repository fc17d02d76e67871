"""Processes of this package's own: which command starts one of its modules."""

from __future__ import annotations

import os
import sys

#: ``os`` and ``sys`` are loaded before the folder in which the user is comes onto the path.
_START = (
    "import os, sys; sys.path[:] = sys.argv.pop(1).split(os.pathsep); "
    "import importlib; importlib.import_module(sys.argv.pop(1)).main()"
)


def running(module: str, *words: str) -> list[str]:
    """The command that calls ``main()`` of a module, with ``words`` in ``sys.argv``.

    Not ``-m``: that looks for modules in the folder in which the user is first, which may hold a
    ``random.py`` or ``torch.py`` of any kind. The path is this process's own.
    """
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return [sys.executable, "-c", _START, path, module, *words]
