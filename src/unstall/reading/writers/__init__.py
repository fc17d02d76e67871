"""One module per writer: what PyTorch's C++ side, NCCL, launchers, engines and kernels print."""

from __future__ import annotations

from unstall.reading.line import Reader

READERS: tuple[type[Reader], ...] = ()
