"""Kubernetes, PyTorchJob and compose files to scripts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unstall.launch.configs import Keys
from unstall.launch.evaluate import Call
from unstall.launch.texts import Script


class Contained(msgspec.Struct):
    """A container's command as a script, with what surrounds it."""

    text: Script
    environment: dict[str, str] = {}

    def dress(self, call: Call) -> Call:
        """A call with the container around it."""
        return call


def scripts(keys: Sequence[Keys]) -> list[Contained]:
    """The commands of all containers."""
    del keys
    return []
