"""What one thread waits for, and which frame tells it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from unstall.model.facts import Frame, ProcessStack, ThreadStack
from unstall.model.text import Text
from unstall.stacks.helpers import HELPER_FRAMES, HELPER_THREADS
from unstall.stacks.knowledge import circumstances, signs
from unstall.stacks.rows import (
    PRIMITIVE,
    WAIT,
    WORK,
    Circumstance,
    FrameSign,
    matches,
    plain_name,
)


class Wait(msgspec.Struct, frozen=True):
    """What a thread waits for.

    Attributes:
        kind: as in :class:`~unstall.model.facts.ProcessStack`.
        frame: the library's frame by which that is known; ``None`` for ``unknown``.
        within: the frame that tells most: the program's own where a circumstance is known.
        keys: words of the circumstances (``engine-idle`` …), the one nearest to the wait first.
        text: what the process is doing by the nearest one, where any is known.
        caller: the first frame further out that belongs neither to Python nor to torch.
        source: where this is known from.
    """

    kind: str
    frame: Frame | None = None
    within: Frame | None = None
    keys: tuple[str, ...] = ()
    text: Text | None = None
    caller: Frame | None = None
    source: str = ""


UNKNOWN = Wait("unknown")
_LIBRARIES = (
    "torch/",
    "threading.py",
    "queue.py",
    "selectors.py",
    "contextlib.py",
    "socket.py",
    "ssl.py",
    "subprocess.py",
    "shutil.py",
    "http/client.py",
    "urllib/",
    "asyncio/",
    "concurrent/futures/",
    "multiprocessing/",
    "requests/",
    "urllib3/",
    "httpx/",
    "httpcore/",
    "aiohttp/",
    "zmq/",
    "ray/_private/",
)


def own_frames(thread: ThreadStack) -> tuple[Frame, ...]:
    """The frames of the process itself, innermost first.

    A forked process carries its parent's frames below the call that forked it; they say what the
    parent did, not what this process does (CPython, ``multiprocessing/popen_fork.py``).
    """
    for index, frame in enumerate(thread.frames):
        if matches(frame, ("Popen._launch",), "multiprocessing/popen_fork.py"):
            return thread.frames[:index]
    return thread.frames


def wait_of(thread: ThreadStack) -> Wait:
    """What the thread waits for, with the frames by which that is known.

    The innermost frame that says so decides; a bare waiting call (a lock, a socket) gives way to
    a call further out that says what it is for; and a program's own frame may add what the wait
    means there. Where nothing waits, a thread that runs is ``computing``.
    """
    return _explained(thread)[0]


def wait_of_process(stack: ProcessStack) -> Wait:
    """What the process waits for: as its main thread, or as the thread that this one waits for.

    A main thread that waits for threads of its own (``Thread.join``, ``Future.result``) stands
    for them where they all wait for one kind of thing.
    """
    thread = main_thread(stack)
    if thread is None:
        return UNKNOWN
    wait, sign = _explained(thread)
    if sign is None or not sign.follows or wait.keys:
        return wait
    others = [wait_of(other) for other in working_threads(stack)[1:]]
    telling = [other for other in others if other.kind not in ("unknown", "lock")]
    return telling[0] if len({other.kind for other in telling}) == 1 else wait


def _explained(thread: ThreadStack) -> tuple[Wait, FrameSign | None]:
    frames = own_frames(thread)
    index, sign = _decisive(frames)
    if sign is None:
        running = thread.holds_gil or thread.state in ("active", "Has the GIL")
        kind = "computing" if running and frames else "unknown"
        around = _around(frames, kind)
        within = frames[0] if kind == "computing" else None
        return _told(kind, None, within, around, None, ""), None
    around = _around(frames[index:], sign.waits_for)
    kind = sign.waits_for
    if around and sign.level == PRIMITIVE:
        kind = around[0][1].waits_for or kind
    caller = _caller(frames[index:])
    return _told(kind, frames[index], frames[index], around, caller, sign.source), sign


def _decisive(frames: tuple[Frame, ...]) -> tuple[int, FrameSign | None]:
    """The frame that says what the thread waits for, and how that is known."""
    chosen: tuple[int, FrameSign] | None = None
    work: tuple[int, FrameSign] | None = None
    waiting_only = True
    for index, frame in enumerate(frames):
        sign = _sign_of(frame, waiting_only)
        if sign is None:
            waiting_only = waiting_only and frame.native
        elif sign.level == WORK:
            work = work or (index, sign)
            waiting_only = False
        elif sign.level == WAIT:
            return index, sign
        elif chosen is None or _tells_more(frame, sign, frames[chosen[0]], chosen[1]):
            chosen = (index, sign)
    return chosen or work or (0, None)


def _tells_more(frame: Frame, sign: FrameSign, inner: Frame, inner_sign: FrameSign) -> bool:
    """Whether of two bare waiting calls the outer one tells more.

    Of a native lock inside Python's, Python's name does; of a condition inside a join, the join.
    """
    return (inner.native and not frame.native) or (sign.follows and not inner_sign.follows)


def _told(
    kind: str,
    frame: Frame | None,
    within: Frame | None,
    around: list[tuple[Frame, Circumstance]],
    caller: Frame | None,
    source: str,
) -> Wait:
    return Wait(
        kind=kind,
        frame=frame,
        within=around[0][0] if around else within,
        keys=tuple(row.key for _, row in around),
        text=around[0][1].text if around else None,
        caller=caller,
        source=around[0][1].source if around else source,
    )


def classify(thread: ThreadStack) -> tuple[str, Frame | None]:
    """The kind of wait and the frame that tells (see :func:`wait_of`)."""
    wait = wait_of(thread)
    return wait.kind, wait.within


def main_thread(stack: ProcessStack) -> ThreadStack | None:
    """The thread in which the program itself runs."""
    return stack.threads[0] if stack.threads else None


def is_helper(thread: ThreadStack) -> bool:
    """Whether the thread only serves the main one: progress bars, sockets, watchdogs.

    What such a thread waits for says nothing of the program.
    """
    if thread.name == "MainThread":
        return False
    if any(thread.name.startswith(start) for start in HELPER_THREADS):
        return True
    for function, file in HELPER_FRAMES:
        if any(matches(frame, (function,), file) for frame in thread.frames):
            return True
    python = next((frame for frame in thread.frames if not frame.native), None)
    # A thread of a pool that has no work stands in the pool's own loop.
    return python is None or matches(python, ("_worker",), "concurrent/futures/thread.py")


def working_threads(stack: ProcessStack) -> tuple[ThreadStack, ...]:
    """The main thread and those others that do the program's own work."""
    return stack.threads[:1] + tuple(t for t in stack.threads[1:] if not is_helper(t))


def _sign_of(frame: Frame, waiting_only: bool) -> FrameSign | None:
    for sign in signs().get(plain_name(frame).rpartition(".")[2], ()):
        if sign.native is not None and sign.native != frame.native:
            continue
        if sign.directly and not waiting_only:
            continue
        if matches(frame, sign.functions, sign.file):
            return sign
    return None


def _around(frames: Iterable[Frame], kind: str) -> list[tuple[Frame, Circumstance]]:
    rows_by_name = circumstances()
    found: list[tuple[Frame, Circumstance]] = []
    for frame in frames:
        for row in rows_by_name.get(plain_name(frame).rpartition(".")[2], ()):
            if (
                kind in row.over
                and matches(frame, row.functions, row.file)
                and all(known.key != row.key for _, known in found)
            ):
                found.append((frame, row))
                break
    return found


def _caller(frames: tuple[Frame, ...]) -> Frame | None:
    for frame in frames:
        path = frame.file.replace("\\", "/")
        short = path.rpartition("/")[2] == path or not path.startswith("/")
        inside = path.rpartition("site-packages/")[2] if not short else path
        if not frame.native and not inside.startswith(_LIBRARIES) and "/lib/python3" not in inside:
            return frame
    return None
