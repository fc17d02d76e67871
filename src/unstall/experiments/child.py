"""What a scenario's processes share: who they are, their process group, their recorder dump.

This module is only imported in the processes of a scenario. It does not import torch by itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from unstall.experiments.scenario import Settings

SETTINGS = "UNSTALL_LAB_SETTINGS"
FOLDER = "UNSTALL_LAB_FOLDER"
PROGRAM = "UNSTALL_LAB_PROGRAM"
ROLE = "UNSTALL_LAB_ROLE"

#: Folder, below the run's own, of files that a user would have besides logs.
HANDED_OVER = "handed-over"


class Lab:
    """One process's view of its run.

    Attributes:
        settings: what the run is.
        folder: the run's own folder, for what processes tell each other.
        program: label of the program this process belongs to.
        role: what it is to be.
        rank, world: its place in the program.
        device: where its tensors lie: ``cpu``, or its own GPU with NCCL.
    """

    def __init__(self) -> None:
        self.settings = msgspec.json.decode(os.environ[SETTINGS], type=Settings)
        self.folder = Path(os.environ[FOLDER])
        self.program = os.environ.get(PROGRAM, "trainer")
        self.role = os.environ.get(ROLE, "rank")
        self.rank = int(os.environ.get("RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        local = os.environ.get("LOCAL_RANK", "0")
        self.device = f"cuda:{local}" if self.settings.backend == "nccl" else "cpu"

    @property
    def faulty(self) -> bool:
        """Whether the fault is on and no change was made."""
        return self.settings.fault and not self.settings.changes

    def changed(self, name: str) -> bool:
        """Whether that change is on."""
        return name in self.settings.changes

    def timeouts(self, count: float) -> float:
        """So many of the group's time-outs, in seconds: stretched with them on a busy machine."""
        return self.settings.timeout * count

    def size(self, name: str) -> float:
        """A number of the scenario."""
        return self.settings.sizes[name]

    # --- telling each other -----------------------------------------------------------------

    def publish(self, name: str, text: str) -> None:
        """Write a small file for the other processes, whole or not at all."""
        draft = self.folder / f".{name}.{os.getpid()}"
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.folder / name)

    def await_file(self, name: str, seconds: float = 120.0) -> str:
        """The content of a file that another process publishes.

        Raises:
            TimeoutError: it did not come in time.
        """
        path = self.folder / name
        end = time.monotonic() + seconds
        while not path.exists():
            if time.monotonic() > end:
                raise TimeoutError(f"{name} was not published within {seconds:.0f} s")
            time.sleep(0.01)
        return path.read_text(encoding="utf-8")

    def hand_over(self, name: str, text: str) -> Path:
        """Write a file that a user would have, a launch script say: it is part of the evidence."""
        path = self.folder / HANDED_OVER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    # --- torch.distributed ------------------------------------------------------------------

    def torch(self) -> Any:
        """Torch with one thread and a seed of this run and rank; tensors lie on its device."""
        import warnings

        # torch warns once that numpy is missing; the programs here do not need it
        warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
        import torch

        torch.set_num_threads(1)
        if self.device != "cpu":
            torch.cuda.set_device(self.device)
            torch.set_default_device(self.device)
        torch.manual_seed(self.settings.seed * 1000 + self.rank)
        return torch

    def store(self, name: str = "store", rank: int | None = None, world: int | None = None) -> Any:
        """A TCPStore on a port that its first rank binds at once: no other process can take it."""
        from datetime import timedelta

        make = distributed().TCPStore
        rank = self.rank if rank is None else rank
        world = self.world if world is None else world
        wait = timedelta(seconds=120)
        if rank == 0:
            store = make("127.0.0.1", 0, world, True, wait, wait_for_workers=False)
            self.publish(f"{self.program}.{name}", str(store.port))
            return store
        port = int(self.await_file(f"{self.program}.{name}"))
        return make("127.0.0.1", port, world, False, wait, wait_for_workers=False)

    def join(self, timeout: float | None = None) -> Any:
        """torch.distributed with its default group joined, recorder dumps on request."""
        from datetime import timedelta

        dist = distributed()
        seconds = self.settings.timeout if timeout is None else timeout
        dist.init_process_group(
            self.settings.backend,
            store=self.store(),
            rank=self.rank,
            world_size=self.world,
            timeout=timedelta(seconds=seconds),
            **self._bound(),
        )
        self.dump_on_request()
        return dist

    def _bound(self) -> dict[str, Any]:
        """With NCCL a group is told its device: else a barrier has to guess it."""
        if self.device == "cpu":
            return {}
        return {"device_id": importlib.import_module("torch").device(self.device)}

    def dump_on_request(self, rank: int | None = None, program: str | None = None) -> None:
        """Serve a pipe: whoever writes to it gets this process's Flight Recorder dump.

        As torch does for NCCL groups (``TORCH_NCCL_DEBUG_INFO_PIPE_FILE``). A thread of its own,
        so that it works while the main thread waits in an operation.
        """
        rank = self.rank if rank is None else rank
        program = self.program if program is None else program
        pipe = self.folder / f"pipe.{program}.{rank}"
        target = self.folder / f"dump.{program}.{rank}"
        with contextlib.suppress(FileExistsError):
            os.mkfifo(pipe)

        def serve() -> None:
            c10d = importlib.import_module("torch._C._distributed_c10d")
            make_dump = c10d._dump_fr_trace if self.device == "cpu" else c10d._dump_nccl_trace
            while True:
                with pipe.open("rb") as requests:
                    requests.read(1)
                draft = target.with_name(f".{target.name}.part")  # each rank has its own
                draft.write_bytes(make_dump())
                draft.replace(target)

        threading.Thread(target=serve, daemon=True, name="FlightRecorderDump").start()

    def leave(self, dist: Any) -> None:
        """End this process well, once all ranks have come here; does not return.

        Without destructors: a group of gloo that is destroyed while a peer's connection closes may
        wait for ever, which would be another hang than the scenario's.
        """
        dist.barrier()
        store = dist.distributed_c10d._get_default_store()
        store.add("left", 1)
        end = time.monotonic() + 20
        while self.rank == 0 and store.add("left", 0) < self.world and time.monotonic() < end:
            time.sleep(0.01)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def distributed() -> Any:
    """The module torch.distributed; much of what it offers is not in its type hints."""
    return importlib.import_module("torch.distributed")


def die_with_parent(by: int = 9) -> None:
    """Ask Linux to send this process a signal when its parent ends, however that ends.

    More exactly, when the thread ends that started it. Signal 0 takes it back.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, by, 0, 0, 0)


def set_title(title: str) -> None:
    """Show ``title`` as this process's command line, as engines and workers do.

    Only where Linux tells where the command line stands; there is no effect elsewhere.
    """
    try:
        fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        room = end - start
        text = title.encode()[: room - 1]
        if room > 8:
            ctypes.memset(start, 0, room)
            ctypes.memmove(start, text, len(text))
    except (OSError, IndexError, ValueError):
        return


def say_line(text: str) -> None:
    """Print one line at once, in one write, so that lines of several processes stay whole."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
        os.write(1, (text + "\n").encode("utf-8", "replace"))
