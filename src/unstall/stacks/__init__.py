"""What stack dumps mean: what a thread waits for, whose process it is, who stands apart.

* :func:`classify` and :func:`wait_of` - what one thread waits for
* :func:`wait_of_process` - the same for a process, whose main thread may wait for another one
* :func:`identify` - which program's process it is
* :func:`group`, :func:`suspects`, :func:`movements` - many processes, or one process many times
"""

from __future__ import annotations

from unstall.stacks.classify import (
    Wait,
    classify,
    is_helper,
    main_thread,
    own_frames,
    wait_of,
    wait_of_process,
    working_threads,
)
from unstall.stacks.grouping import Movement, StackGroup, group, movements, suspects
from unstall.stacks.identity import ProcessIdentity, identify

__all__ = [
    "Movement",
    "ProcessIdentity",
    "StackGroup",
    "Wait",
    "classify",
    "group",
    "identify",
    "is_helper",
    "main_thread",
    "movements",
    "own_frames",
    "suspects",
    "wait_of",
    "wait_of_process",
    "working_threads",
]
