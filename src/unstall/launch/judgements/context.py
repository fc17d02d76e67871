"""What a judgement looks at, and the questions that several of them ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from unstall.model.facts import Place
from unstall.model.plan import Port, Value
from unstall.programs.base import Launch

LOCAL = ("127.0.0.1", "localhost", "0.0.0.0", "::", "::1", "", "[::]")  # noqa: S104 - names of this host


class Context(msgspec.Struct):
    """A plan before it is judged.

    Attributes:
        launches: its programs.
        origins: token of an unknown value to where the value comes from.
        sleeps: script, position, amount as written and place of each ``sleep``.
        versions: package to version.
    """

    launches: list[Launch]
    origins: dict[str, str] = {}
    sleeps: list[tuple[int, int, str, Place]] = []
    versions: dict[str, str] = {}

    def of_role(self, *roles: str) -> list[Launch]:
        """The programs with one of the roles."""
        return [la for la in self.launches if la.role in roles]

    def pairs(self) -> Iterable[tuple[Launch, Launch]]:
        """Each two programs that run at one time."""
        for at, one in enumerate(self.launches):
            for other in self.launches[at + 1 :]:
                if together(one, other):
                    yield one, other

    def servers_of(self, client: Launch) -> list[Launch]:
        """Servers that a program may connect to."""
        return [
            la
            for la in self.launches
            if la is not client
            and la.server
            and la.role in ("rollout", "inference")
            and together(la, client)
        ]

    def communicates(self, one: Launch, other: Launch) -> bool:
        """Whether a trainer and a server form one NCCL communicator for the weights."""
        for client, server in ((one, other), (other, one)):
            if server.role != "rollout" or not server.server:
                continue
            if any(p.purpose == "weight-exchange" and not p.listens for p in client.ports):
                return True
        return False


def together(one: Launch, other: Launch) -> bool:
    """Whether two programs run at one time, as far as the scripts tell."""
    first, second = one.call, other.call
    for mark, branch in first.path:
        if any(m == mark and b != branch for m, b in second.path):
            return False
    if first.script != second.script:
        same = first.place.source == second.place.source
        apart = same and not (contained(one) or contained(other))
        apart = apart or (not same and one.searched and other.searched)
        return not apart or _coupled(one, other) or _coupled(other, one)
    if first.order > second.order:
        first, second, one = second, first, other
    if first.ended is not None and first.ended <= second.order:
        return False
    return first.background or one.server


def contained(launch: Launch) -> bool:
    """Whether a manifest starts it together with the manifest's other containers."""
    return any(o.name in ("kubernetes", "compose") for o in launch.call.outer)


def _coupled(client: Launch, server: Launch) -> bool:
    """Whether one needs the other: parts of one text are else read as alternatives."""
    if {client.role, server.role} == {"rollout", "trainer"}:
        return True
    if "node" in (client.role, server.role) and client.role != server.role:
        return True
    return server.server and any(
        not mine.listens and theirs.listens and mine.value.same_as(theirs.value) is True
        for mine in client.ports
        for theirs in server.ports
    )


def same_host(one: Launch, other: Launch) -> bool:
    """Whether two programs run on one machine, as far as the scripts tell."""
    return one.host == other.host and not (_elsewhere(one, other) or _elsewhere(other, one))


def _elsewhere(client: Launch, server: Launch) -> bool:
    """Whether a trainer looks for its rollout server on another machine."""
    if client.role != "trainer" or server.role != "rollout":
        return False
    asked = [p for p in client.ports if p.purpose == "http" and not p.listens]
    bound = [p.host for p in server.ports if p.purpose == "http" and p.listens]
    return bool(asked) and all(
        p.host is not None
        and not (p.host.known and p.host.text in LOCAL)
        and not any(h is not None and p.host.same_as(h) is True for h in bound)
        for p in asked
    )


def share_network(one: Launch, other: Launch) -> bool:
    """Whether two programs share a network address (a container has its own by default)."""
    for launch in (one, other):
        if launch.container is not None and launch.container.get("network") != "host":
            return False
    return same_host(one, other)


def used_devices(launch: Launch) -> tuple[int, ...] | None:
    """Device numbers that a program really uses; ``None`` where that is unknown."""
    if launch.role == "node" or not _counts_devices(launch):
        return None
    need = launch.per_node
    base = base_gpu(launch)
    if launch.devices is not None:
        found = launch.devices[base:]
        return found[:need] if need is not None and need < len(found) else found
    if "CUDA_VISIBLE_DEVICES" in launch.environment or launch.container or launch.visible:
        return None
    if any(n in launch.launchers for n in ("srun", "mpirun", "ray", "ray job")):
        return None
    if need is not None and launch.software != "python" and need <= 64:
        return tuple(range(base, base + need))
    return None


def base_gpu(launch: Launch) -> int:
    """SGLang's ``--base-gpu-id``."""
    number = launch.number("base_gpu_id", default=0)
    return number or 0


def _counts_devices(launch: Launch) -> bool:
    device = launch.flag("device")
    return device is None or device.text not in ("cpu", "tpu")


def show(value: Value | None) -> str:
    """A value as the table shows it."""
    if value is None:
        return "not set"
    text = value.text if value.text else "''"
    if value.default:
        return f"{text} (default)"
    return text


def listeners(launches: Sequence[Launch]) -> Iterable[tuple[Launch, Port]]:
    """Each port that a program binds."""
    for launch in launches:
        for port in launch.ports:
            if port.listens:
                yield launch, port


def places(*values: Value | Place | None) -> tuple[Place, ...]:
    """The lines of what is given, without repetition."""
    found: dict[Place, None] = {}
    for value in values:
        place = value.place if isinstance(value, Value) else value
        if place is not None:
            found[place] = None
    return tuple(found)


def table(launches: Sequence[Launch], name: str) -> dict[str, str]:
    """A variable's value in each program."""
    found: dict[str, str] = {}
    for launch in launches:
        value = launch.environment.get(name)
        if value is not None:
            found[launch.label] = show(value)
        elif name in launch.not_exported:
            found[launch.label] = f"{show(launch.not_exported[name])} (not exported)"
        else:
            found[launch.label] = "not set"
    return found


def listed(numbers: Iterable[int]) -> str:
    """``0, 1, 2`` for people."""
    return ", ".join(map(str, numbers))
