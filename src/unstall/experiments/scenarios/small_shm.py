"""The shared-memory file system is too small for what the loader's workers hand over."""

from __future__ import annotations

import ctypes
from typing import Any

from unstall.experiments.child import Lab
from unstall.experiments.scenario import Change, Ended, Says, Scenario
from unstall.experiments.scenarios._training import log_step, tiny_model
from unstall.model.text import say

SCENARIO = Scenario(
    name="small-shm",
    causes=("shm-too-small",),
    title=say("shared memory is too small for the loader's workers"),
    about=say(
        "Workers of a DataLoader hand batches over through shared memory. /dev/shm is as small "
        "as a container's default: allocating beyond it fails in the worker."
    ),
    module="small_shm",
    changes=(
        Change("larger-shm", say("a larger /dev/shm (docker run --shm-size)")),
        Change("no-workers", say("num_workers=0: batches are made in the rank itself")),
    ),
    fingerprint=(Says("trainer", "unable to allocate shared memory"), Ended("trainer", 1)),
    expect="failure",
    steps=4,
    by=1,
    stall=20.0,
    needs=("linux", "root"),
    sizes={"kilobytes": 512.0},
    size_texts={"kilobytes": say("size of /dev/shm")},
)
_NEW_NAMESPACE, _PRIVATE, _RECURSIVE = 0x20000, 1 << 18, 1 << 14


def mount_shm(kilobytes: int) -> None:
    """Give this process a /dev/shm of its own, of that size, in a mount namespace of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NAMESPACE):
        raise OSError(ctypes.get_errno(), "a mount namespace was refused")
    libc.mount(b"none", b"/", None, _PRIVATE | _RECURSIVE, None)
    options = f"size={kilobytes}k".encode()
    if libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, options):
        raise OSError(ctypes.get_errno(), "mounting a tmpfs was refused")


def data_set(torch: Any) -> Any:
    """Samples of 256 KiB."""

    class Samples(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 64

        def __getitem__(self, number: int) -> Any:
            return torch.full((256, 256), float(number))

    return Samples()


def main(lab: Lab) -> None:
    """Train on batches that workers hand over."""
    torch = lab.torch()
    dist = lab.join()
    if lab.settings.fault:
        size = 1 << 20 if lab.changed("larger-shm") else int(lab.size("kilobytes"))
        mount_shm(size)
    model = torch.nn.parallel.DistributedDataParallel(tiny_model(torch))
    loader = torch.utils.data.DataLoader(
        data_set(torch), batch_size=8, num_workers=0 if lab.changed("no-workers") else 2
    )
    for step, batch in enumerate(loader, 1):
        loss = model(batch[:, :16, 0]).square().mean()
        loss.backward()
        log_step(lab, step, loss.item())
        if step >= lab.settings.steps:
            break
    lab.leave(dist)
