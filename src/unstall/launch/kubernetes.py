"""Kubernetes manifests and compose files: their containers as scripts.

Sources: Kubernetes 1.31 API reference (containers, ``env``, ``emptyDir`` with medium Memory; a
pod's /dev/shm has 64 MB unless such a volume is mounted there), compose specification
(``command``, ``environment``, ``shm_size``, ``ipc``, ``network_mode``). What operators add to
their pods is in :mod:`unstall.launch.operators`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import msgspec

from unstall.launch import dockerfile, operators
from unstall.launch.calls import Call, Outer, Variable
from unstall.launch.configs import Keys, assignments
from unstall.launch.strings import Unknown
from unstall.launch.texts import Script
from unstall.model.facts import Place

MOST_CONTAINERS = 64
_KEYS = {
    "PET_NPROC_PER_NODE": ("nprocPerNode", "numProcPerNode", "nProcPerNode"),
    "PET_NNODES": ("numNodes", "replicas"),
    "WORLD_SIZE": ("nprocPerNode", "replicas"),
    "LWS_GROUP_SIZE": ("size",),
}
"""Keys of a manifest from which an operator makes a variable."""
_SHM = "/dev/shm"  # noqa: S108 - a path in the user's manifest


class Contained(msgspec.Struct):
    """A container's command as a script, with what surrounds it.

    Attributes:
        script: the command.
        environment: what the manifest gives it.
        outer: the container, as a wrapper of every call.
        own: variables among them that an operator sets.
    """

    script: Script
    environment: dict[str, Variable]
    outer: Outer
    own: frozenset[str] = frozenset()

    def dress(self, call: Call) -> Call:
        """A call with the container around it; what an operator sets counts as a default."""
        environment = {
            name: msgspec.structs.replace(value, default=True) if name in self.own else value
            for name, value in call.environment.items()
        }
        return msgspec.structs.replace(
            call, outer=(self.outer, *call.outer), environment=environment
        )


def scripts(keys: Sequence[Keys]) -> list[Contained]:
    """The commands of all containers of all files."""
    found: list[Contained] = []
    for file in keys:
        if file.kind == "kubernetes":
            for document in file.documents:
                found.extend(_manifest(file, document))
        elif file.kind == "compose":
            for document in file.documents:
                found.extend(_compose(file, document, keys))
        elif file.kind == "dockerfile":
            image = dockerfile.read("\n".join(file.lines), file.place)
            if image is not None:
                outer = Outer("image", (), (), image.place)
                found.append(Contained(image.script, image.environment, outer))
    return found[:MOST_CONTAINERS]


def _manifest(file: Keys, document: object) -> Iterator[Contained]:
    if not isinstance(document, dict):
        return
    for found in operators.pods(document, file.place):
        yield from _pod(file, found)


def _pod(file: Keys, found: operators.Pods) -> Iterator[Contained]:
    pod = found.spec
    given = {
        name: msgspec.structs.replace(variable, place=_line_of(file, *_KEYS.get(name, ())))
        for name, variable in found.given.items()
    }
    memory: dict[str, str] = {}
    volumes = pod.get("volumes")
    for volume in volumes[:MOST_CONTAINERS] if isinstance(volumes, list) else []:
        empty = volume.get("emptyDir") if isinstance(volume, dict) else None
        if isinstance(empty, dict) and empty.get("medium") == "Memory":
            memory[str(volume.get("name"))] = str(empty.get("sizeLimit", ""))
    for container in operators.containers(pod):
        label = str(container.get("name", ""))
        options: list[tuple[str, str]] = [("", found.kind.lower() or "pod")]
        if found.count is not None:
            options.append(("--pods", str(found.count)))
        mounts = container.get("volumeMounts")
        for mount in mounts[:MOST_CONTAINERS] if isinstance(mounts, list) else []:
            if isinstance(mount, dict) and mount.get("mountPath") == _SHM:
                size = memory.get(str(mount.get("name")), "")
                options.append(("--shm-size", size) if size else ("--ipc", "mounted"))
        if pod.get("hostIPC"):
            options.append(("--ipc", "host"))
        if pod.get("hostNetwork"):
            options.append(("--network", "host"))
        gpus = _limit(container)
        if gpus is not None:
            options.append(("--gpus", str(gpus)))
        environment = dict(given)
        listed = container.get("env")
        for entry in listed[:500] if isinstance(listed, list) else []:
            if isinstance(entry, dict) and "name" in entry:
                name = str(entry["name"])
                if not (found.wins and name in given):
                    environment[name] = _entry(file, name, entry.get("value"))
        yield from _contained(
            file,
            container.get("command"),
            container.get("args"),
            environment,
            Outer("kubernetes", tuple(options), (label,), _line_of(file, label)),
            frozenset(given),
        )


def _limit(container: dict[str, object]) -> int | None:
    resources = container.get("resources")
    for part in ("limits", "requests"):
        values = resources.get(part) if isinstance(resources, dict) else None
        if isinstance(values, dict):
            for name, amount in values.items():
                if str(name).endswith(("/gpu", "/npu")) or "/mig-" in str(name):
                    return operators.whole(amount, None) or None
    return None


def _entry(file: Keys, name: str, value: object) -> Variable:
    place = _line_of(file, name)
    if value is None:
        return Variable((Unknown(f"${name}", f"env:{name}", "environment"),), False, True, place)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return Variable((text,), False, True, place)


def _contained(
    file: Keys,
    command: object,
    arguments: object,
    environment: dict[str, Variable],
    outer: Outer,
    own: frozenset[str] = frozenset(),
) -> Iterator[Contained]:
    words = [*_listed(command), *_listed(arguments)]
    if not words:
        return
    shells = ("bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash")
    at = next((n for n, w in enumerate(words[:5]) if w.startswith("-") and w.endswith("c")), None)
    if words[0] in shells and at is not None and len(words) > at + 1:
        text = "\n".join(words[at + 1 : at + 2])
    else:
        text = " ".join(shlex.quote(w) if not w.startswith("$(") else w for w in words)
    # Kubernetes' own $(NAME) is a variable, not a command
    for name in environment:
        text = text.replace(f"$({name})", f"${{{name}}}")
    yield Contained(Script(_start(file, text), text), environment, outer, own)


def _listed(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [str(v) for v in value[:2000]]
    return []


def _start(file: Keys, text: str) -> Place:
    first = next((line.strip() for line in text.split("\n") if line.strip()), "")
    leading = len(text) - len(text.lstrip("\n"))
    head = first.split()[0] if first else ""
    for at, line in enumerate(file.lines):
        if first and first in line:
            return Place(file.place.source, file.place.line + max(at - leading, 0))
    for at, line in enumerate(file.lines):
        if head and head in line and not line.lstrip().startswith(("image:", "name:", "#")):
            return Place(file.place.source, file.place.line + at)
    return file.place


def _line_of(file: Keys, *names: str) -> Place:
    """The first line that gives one of the keys, or names a thing so; else the file's first."""
    for name in filter(None, names):
        for at, line in enumerate(file.lines):
            text = line.strip().lstrip("- ").strip("\"'")
            if text.startswith((f"name: {name}", f"{name}:", f"{name}=")):
                return Place(file.place.source, file.place.line + at)
    return file.place


def _compose(file: Keys, document: object, keys: Sequence[Keys]) -> Iterator[Contained]:
    services = document.get("services") if isinstance(document, dict) else None
    for name, service in services.items() if isinstance(services, dict) else ():
        if not isinstance(service, dict):
            continue
        options: list[tuple[str, str]] = [("", "compose")]
        for key, flag in (
            ("shm_size", "--shm-size"),
            ("ipc", "--ipc"),
            ("network_mode", "--network"),
        ):
            if key in service:
                options.append((flag, str(service[key])))
        environment = _environment_files(service.get("env_file"), keys)
        given = service.get("environment")
        if isinstance(given, dict):
            for key, value in given.items():
                environment[str(key)] = _entry(file, str(key), value)
        elif isinstance(given, list):
            for item in given[:500]:
                key, equals, value = str(item).partition("=")
                environment[key] = _entry(file, key, value if equals else None)
        entry = service.get("entrypoint")
        command = service.get("command")
        words = [*_text_words(entry), *_text_words(command)]
        gpus = _compose_gpus(service)
        if gpus is not None:
            options.append(("--gpus", gpus))
        if not words or words[0].startswith("-"):
            words = [*_image_entry(str(service.get("image", ""))), *words]
        outer = Outer("compose", tuple(options), (str(name),), _line_of(file, str(name)))
        yield from _contained(file, words, None, environment, outer)


def _environment_files(value: object, keys: Sequence[Keys]) -> dict[str, Variable]:
    """Variables of a service's ``env_file``, as far as the files are at hand; the last one wins."""
    found: dict[str, Variable] = {}
    items = value if isinstance(value, list) else [value]
    for item in items[:MOST_CONTAINERS]:
        path = item.get("path") if isinstance(item, dict) else item
        base = str(path).rsplit("/", 1)[-1]
        file = next((k for k in keys if k.kind == "env" and k.name == base), None)
        if path and file is not None:
            for name, given in assignments(file).items():
                found[name] = Variable((given.text,), False, True, given.place)
    return found


def _text_words(value: object) -> list[str]:
    """A command in compose is a list, or a text that is split like a shell's."""
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError:
            return value.split()
    return _listed(value)


def _image_entry(image: str) -> list[str]:
    """The entry point of an image that everybody uses with flags alone."""
    name = image.rsplit("/", 1)[-1].split(":")[0]
    if name == "vllm-openai":
        return ["vllm", "serve"]
    return []


def _compose_gpus(service: dict[str, object]) -> str | None:
    node: object = service
    for key in ("deploy", "resources", "reservations", "devices"):
        node = node.get(key) if isinstance(node, dict) else None
    for device in node[:16] if isinstance(node, list) else []:
        if isinstance(device, dict):
            if isinstance(device.get("device_ids"), list):
                return "device=" + ",".join(map(str, device["device_ids"][:64]))
            if "count" in device:
                return str(device["count"])
    gpus = service.get("gpus")
    return str(gpus) if isinstance(gpus, str | int) else None
