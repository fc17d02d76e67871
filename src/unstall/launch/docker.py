"""What ``docker run`` and its like give to the program inside.

Source: Docker 27 ``docker run`` reference: /dev/shm has 64 MB unless ``--shm-size`` or
``--ipc=host`` is given; the shell's variables do not enter, only ``-e`` and ``--env-file``;
``--gpus`` chooses devices. Singularity shares /dev/shm and the environment with the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unstall.model.plan import Value

if TYPE_CHECKING:
    from unstall.launch.calls import Outer
    from unstall.programs.base import Launch


def apply(launch: Launch, outer: Outer) -> None:
    """Container flags of the program, its variables and its devices."""
    if outer.name == "singularity":
        launch.host = f"container {outer.operands[0]}" if outer.operands else "container"
        return
    verb = next((v for o, v in outer.options if o == ""), "run")
    found: dict[str, str] = {"engine": "docker", "verb": verb}
    environment: dict[str, Value] = {}
    for flag, value in outer.options:
        if flag == "--shm-size":
            found["shm-size"] = value
        elif flag == "--ipc":
            found["ipc"] = value
        elif flag in ("--network", "--net"):
            found["network"] = value
        elif flag == "--gpus":
            found["gpus"] = value
            apply_gpus(launch, value, outer)
        elif flag in ("-v", "--volume", "--mount") and "/dev/shm" in value:  # noqa: S108 - a path of the user's
            found["ipc"] = "mounted"
        elif flag == "--ulimit":
            found["ulimit"] = f"{found.get('ulimit', '')} {value}".strip()
        elif flag == "--privileged":
            found["privileged"] = "true"
        elif flag in ("-e", "--env"):
            name, equals, text = value.partition("=")
            if equals:
                environment[name] = Value(text, place=outer.place)
            elif name in launch.environment:
                environment[name] = launch.environment[name]
    for name in list(launch.environment):
        if name not in environment:
            launch.not_exported[name] = launch.environment.pop(name)
    launch.environment.update(environment)
    visible = environment.get("CUDA_VISIBLE_DEVICES") or environment.get("NVIDIA_VISIBLE_DEVICES")
    chosen = "device=" in found.get("gpus", "")
    if visible is None and not chosen:
        launch.devices = None
        launch.visible = launch.visible if found.get("gpus", "").strip("'\"").isdigit() else None
    if visible is not None:
        from unstall.programs.base import ordinals

        launch.devices = ordinals(visible)
        launch.visible = len(launch.devices) if launch.devices is not None else None
        launch.device_place = outer.place
    launch.container = found


def apply_manifest(launch: Launch, outer: Outer) -> None:
    """A container of a manifest; its variables are in the environment already."""
    found: dict[str, str] = {"engine": outer.name, "verb": "run"}
    for flag, value in outer.options:
        if flag == "--gpus":
            apply_gpus(launch, value, outer)
        elif flag.startswith("--"):
            found[flag[2:]] = value
    launch.container = found
    if outer.name == "kubernetes":
        launch.host = f"pod {outer.operands[0]}" if outer.operands else "pod"


def apply_gpus(launch: Launch, value: str, outer: Outer) -> None:
    """``--gpus all``, ``--gpus 2`` or ``--gpus '"device=0,1"'``."""
    from unstall.programs.base import ordinals

    text = value.strip("'\"")
    if text.startswith("device="):
        launch.devices = ordinals(Value(text[len("device=") :].strip("'\"")))
        launch.visible = len(launch.devices) if launch.devices is not None else None
        launch.device_place = outer.place
    elif text.isdigit():
        launch.visible = int(text)
        launch.devices = None
