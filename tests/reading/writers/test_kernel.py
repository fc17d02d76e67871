from __future__ import annotations

import pytest

from unstall.reading.writers.kernel import KernelLog


def test_an_xid_names_its_process(read):
    (fact,) = read(
        KernelLog,
        "[12345.678901] NVRM: Xid (PCI:0000:3b:00): 31, pid=12345, name=python, Ch 00000008,"
        " intr 00000000. MMU Fault\n",
    )
    assert (fact.kind, fact.code, fact.pci) == ("xid", 31, "0000:3b:00")
    assert (fact.speaker.pid, fact.speaker.name) == (12345, "python")


@pytest.mark.parametrize(
    ("line", "kind", "code", "pci"),
    [
        (
            "NVRM: Xid (PCI:0000:81:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off"
            " the bus.",
            "xid",
            79,
            "0000:81:00",
        ),
        ("NVRM: Xid (PCI:0000:C1:00): 94, Contained: SM (0x1)", "xid", 94, "0000:C1:00"),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32",
            "sxid",
            12028,
            "0000:c1:00.0",
        ),
        (
            "NVRM: GPU at PCI:0000:07:00: GPU-1b2c has fallen off the bus.",
            "xid",
            79,
            "0000:07:00",
        ),
        (
            "Failed to initialize NVML: Driver/library version mismatch",
            "driver",
            None,
            None,
        ),
    ],
)
def test_driver_events(read, line, kind, code, pci):
    (fact,) = read(KernelLog, line + "\n")
    assert (fact.kind, fact.code, fact.pci) == (kind, code, pci)


@pytest.mark.parametrize(
    ("line", "by", "pid", "process"),
    [
        (
            "[99.1] Out of memory: Killed process 7744 (python3) total-vm:9kB, anon-rss:8kB",
            "kernel",
            7744,
            "python3",
        ),
        (
            "Memory cgroup out of memory: Killed process 12 (pt_main_thread) total-vm:1kB",
            "cgroup",
            12,
            "pt_main_thread",
        ),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c,task=python,pid=55,uid=0",
            "cgroup",
            55,
            "python",
        ),
    ],
)
def test_memory_kills(read, line, by, pid, process):
    (fact,) = read(KernelLog, line + "\n")
    assert (fact.by, fact.pid, fact.process) == (by, pid, process)


def test_a_segfault(read):
    (fact,) = read(
        KernelLog, "[9.9] python[123]: segfault at 0 ip 00007f sp 00007f error 4 in libc.so.6\n"
    )
    assert (fact.what, fact.speaker.pid, fact.speaker.name) == ("Segmentation fault", 123, "python")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("nvidia-smi: Unable to determine the device handle for GPU0000:65:00.0: GPU is lost."
         " Reboot the system to recover this GPU", "lost"),
        ("[5.1] NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x24:0xffff:1436)", "init-failed"),
        ("Failed to initialize NVML: Driver/library version mismatch", "version-mismatch"),
        ("Failed to initialize NVML: Unknown Error", "nvml"),
    ],
)  # fmt: skip
def test_complaints_of_the_driver_are_told_apart(read, line, what):
    """A lost device is hardware; a mismatch of versions is not."""
    (fact,) = read(KernelLog, line + "\n")
    assert (fact.kind, fact.code, fact.what) == ("driver", None, what)
