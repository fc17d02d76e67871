"""What CUDA and its driver say."""

from __future__ import annotations

from unstall.model.facts.base import Fact, GroupTag


class CudaError(Fact, frozen=True, kw_only=True):
    """A CUDA error's text.

    Attributes:
        name: canonical name without the prefix: ``IllegalAddress``, ``Assert``,
            ``EccUncorrectable``,
            ``LaunchFailure``, ``MisalignedAddress``, ``NvlinkUncorrectable``, ``OutOfMemory``,
            ``NotReady802`` …
        text: as written.
        through: ``watchdog`` (a group's watchdog met it), ``python`` or ``nccl``.
        group: the group whose watchdog met it.
        frames: Python frames ``(function, file, line)``, outermost first, where one was given.
        blocking: whether launches were blocking (the frame can then be believed).
    """

    name: str
    text: str
    through: str = "python"
    group: GroupTag = GroupTag()
    frames: tuple[tuple[str, str, int], ...] = ()
    blocking: bool = False


class DeviceAssert(Fact, frozen=True, kw_only=True):
    """A kernel's own assertion failed (printed once for each thread; one fact)."""

    file: str
    expression: str


class CudaOutOfMemory(Fact, frozen=True, kw_only=True):
    """Device memory ran out. Sizes in MiB.

    Attributes:
        others: memory of processes on that device: ``(pid or None, MiB)``; in a container, where
            process ids differ, the process itself can be among them.
        mine: memory of the process itself, where it is told as its own.
    """

    device: int | None = None
    wanted: float | None = None
    total: float | None = None
    free: float | None = None
    allocated: float | None = None
    others: tuple[tuple[int | None, float], ...] = ()
    mine: float | None = None


class DriverEvent(Fact, frozen=True, kw_only=True):
    """An Xid or SXid line of the kernel, or an NVML/driver complaint.

    Attributes:
        code: Xid number.
        kind: ``xid``, ``sxid``, ``driver``.
        pci: PCI bus id.
        what: of a complaint without a number: ``lost``, ``reset-needed``, ``no-handle``,
            ``init-failed``, ``version-mismatch``, ``nvml``.
    """

    kind: str
    code: int | None = None
    pci: str | None = None
    what: str | None = None
