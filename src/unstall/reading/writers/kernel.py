"""The Linux kernel's log: the out-of-memory killer, NVIDIA's Xid and SXid events, segfaults.

Sources: ``mm/oom_kill.c`` of Linux 4.15 to 6.x, NVIDIA's "Xid errors" document (driver 450 to
580), the fabric manager's user guide for SXid. The stamps of dmesg, journald and rsyslog that
stand before them are stripped or read by their outer prefix.
"""

from __future__ import annotations

import re

from unstall.model.facts import DriverEvent, Fact, FatalSignal, MemoryKill, Speaker
from unstall.reading.line import Line
from unstall.reading.writers.lines import Pattern, Sentences, common, small_int

_XID = re.compile(
    r"\bXid \((?:PCI:)?([0-9a-fA-F:.]{5,20})(?: GPU-[\w-]{1,60})?\): (\d{1,4})"
    r"(?:, pid='?(\d{1,9}|<unknown>)'?)?(?:, name=([^,\n]{1,64}))?",
    re.ASCII,
)


def _xid(line: Line, found: re.Match[str]) -> Fact | None:
    pid = small_int(found[3])
    speaker = line.speaker
    if pid is not None:
        speaker = Speaker(pid=pid, host=line.speaker.host, name=found[4] or line.speaker.name)
    return DriverEvent(**common(line, speaker), kind="xid", code=int(found[2]), pci=found[1])


def _sxid(line: Line, found: re.Match[str]) -> Fact | None:
    return DriverEvent(**common(line), kind="sxid", code=int(found[2]), pci=found[1])


def _fallen(line: Line, found: re.Match[str]) -> Fact | None:
    return DriverEvent(**common(line), kind="xid", code=79, pci=found[1])


_COMPLAINTS = (
    ("GPU is lost", "lost"),
    ("GPU requires reset", "reset-needed"),
    ("Unable to determine the device handle", "no-handle"),
    ("RmInitAdapter failed", "init-failed"),
    ("version mismatch", "version-mismatch"),
)
"""What a complaint means; an NVML that fails for another reason is ``nvml``."""


def _driver(line: Line, _: re.Match[str]) -> Fact | None:
    what = next((what for words, what in _COMPLAINTS if words in line.text), "nvml")
    return DriverEvent(**common(line), kind="driver", what=what)


def _killed(line: Line, found: re.Match[str]) -> Fact | None:
    group = found[1] == "Memory cgroup out of memory"
    return MemoryKill(
        **common(line), by="cgroup" if group else "kernel", pid=int(found[2]), process=found[3]
    )


def _constraint(line: Line, found: re.Match[str]) -> Fact | None:
    group = found[1] == "CONSTRAINT_MEMCG"
    return MemoryKill(
        **common(line), by="cgroup" if group else "kernel", pid=int(found[3]), process=found[2]
    )


def _segfault(line: Line, found: re.Match[str]) -> Fact | None:
    speaker = Speaker(pid=int(found[2]), name=found[1], host=line.speaker.host)
    return FatalSignal(**common(line, speaker), what="Segmentation fault")


class KernelLog(Sentences):
    """The kernel's own words about processes and GPUs."""

    patterns = (
        Pattern("Xid (", _XID, _xid),
        Pattern(
            "SXid (",
            re.compile(r"\bSXid \((?:PCI:)?([0-9a-fA-F:.]{5,20})\): (\d{1,6})", re.ASCII),
            _sxid,
        ),
        Pattern(
            "Killed process ",
            re.compile(
                r"(Memory cgroup out of memory|Out of memory)(?: \([^)]{1,40}\))?: Killed process"
                r" (\d{1,9}),? (?:UID \d{1,9},? )?\(([^)\n]{1,64})\)",
                re.ASCII,
            ),
            _killed,
        ),
        Pattern(
            "oom-kill:constraint=",
            re.compile(
                r"oom-kill:constraint=(CONSTRAINT_\w{1,20}),.{0,2000}?task=([^,\n]{1,64}),"
                r"pid=(\d{1,9})",
                re.ASCII,
            ),
            _constraint,
        ),
        Pattern(
            "fallen off the bus",
            re.compile(
                r"GPU (?:at (?:PCI:)?([0-9a-fA-F:.]{5,20})(?:: GPU-\S{1,60})? )?has fallen off"
                r"|NVRM: {1,8}fallen off the bus and is not responding"
            ),
            _fallen,
        ),
        Pattern(
            "GPU is lost|Driver/library version mismatch|Failed to initialize NVML"
            "|Unable to determine the device handle|GPU requires reset|RmInitAdapter failed",
            re.compile(
                r"GPU is lost|Driver/library version mismatch|Failed to initialize NVML"
                r"|Unable to determine the device handle|GPU requires reset|RmInitAdapter failed"
            ),
            _driver,
        ),
        Pattern(
            "]: segfault at |general protection fault ip:",
            re.compile(
                r"(?:traps: )?([^\s\[\]]{1,64})\[(\d{1,9})\](?:: segfault at"
                r"| general protection fault)",
                re.ASCII,
            ),
            _segfault,
        ),
    )
