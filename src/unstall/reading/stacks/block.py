"""What all readers of stack dumps share: open blocks, one for each speaker, with bounds.

A dump has many lines, and the dumps of several ranks may be interleaved line by line in one log.
Each speaker therefore has a block of its own. Sizes are bounded: a block keeps at most
``MOST_THREADS`` threads of ``MOST_FRAMES`` frames, at most ``MOST_BLOCKS`` blocks are open, and a
block whose speaker has been silent for ``PATIENCE`` lines is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from unstall.model.facts import Fact, Frame, Place, ProcessStack, Speaker, ThreadStack
from unstall.reading.line import Line
from unstall.reading.stacks.headings import Heading, bare, heading

MOST_THREADS = 1000
MOST_FRAMES = 300
MOST_BLOCKS = 2048
PATIENCE = 4000
HEADING_REACH = 6
LONGEST_NAME = 500


class OpenThread:
    """A thread while its frames are read, innermost first."""

    def __init__(
        self,
        name: str = "",
        state: str | None = None,
        tid: int | None = None,
        holds_gil: bool = False,
    ) -> None:
        self.name = name[:LONGEST_NAME]
        self.state = state
        self.tid = tid
        self.holds_gil = holds_gil
        self.frames: list[Frame] = []
        self.native: list[Frame] = []

    def add(self, frame: Frame) -> None:
        """Keeps the frame, as long as there is room."""
        if len(self.frames) < MOST_FRAMES:
            self.frames.append(frame)

    def close(self, outermost_first: bool = False) -> ThreadStack:
        """The thread as a fact's part."""
        frames = self.frames[::-1] if outermost_first else self.frames
        return ThreadStack(
            name=self.name,
            frames=tuple(frames),
            state=self.state,
            tid=self.tid,
            holds_gil=self.holds_gil,
        )


class Block:
    """A dump of one process while it is read."""

    def __init__(self, line: Line, above: Heading | None) -> None:
        self.place: Place = line.place
        self.quote = line.raw[:600]
        self.moment = line.moment
        self.speaker: Speaker = line.speaker
        self.pid: int | None = None
        self.command: str | None = None
        self.parent: int | None = None
        self.threads: list[OpenThread] = []
        self.fed_at = 0
        self.strange = 0
        self.strange_indent = 0
        self.flat = False
        self.mode = ""
        self.above = above

    @property
    def thread(self) -> OpenThread | None:
        """The thread whose frames are being read."""
        return self.threads[-1] if self.threads else None

    def start_thread(self, thread: OpenThread) -> None:
        """Begins another thread; beyond the bound its frames replace those of the last one."""
        if len(self.threads) >= MOST_THREADS:
            self.threads.pop()
        self.threads.append(thread)

    def close(self, tool: str, outermost_first: bool = False) -> ProcessStack | None:
        """The dump as a fact; ``None`` where no thread was read."""
        if not self.threads:
            return None
        threads = [thread.close(outermost_first) for thread in self.threads]
        pid, command, speaker = self.pid, self.command, self.speaker
        if self.above is not None and (pid is None or self.above.pid in (None, pid)):
            pid = pid if pid is not None else self.above.pid
            command = command or self.above.command
            rank = self.above.rank if self.above.rank is not None else speaker.rank
            speaker = msgspec.structs.replace(
                speaker, rank=rank, host=self.above.host or speaker.host
            )
        if pid is None:
            pid = speaker.pid
        threads = main_first(threads, pid)
        if pid is None and tool in ("pystack", "gdb"):
            pid = _pid_of_main(threads)
        # Imported late: a log without dumps pays nothing for knowing what they mean.
        from unstall.stacks import wait_of_process

        stack = ProcessStack(
            place=self.place,
            quote=self.quote,
            speaker=speaker,
            moment=self.moment,
            pid=pid,
            command=command,
            threads=tuple(threads),
            tool=tool,
            parent=self.parent,
        )
        wait = wait_of_process(stack)
        return msgspec.structs.replace(stack, waits_for=wait.kind, within=wait.within)


def is_main(thread: ThreadStack) -> bool:
    """Whether the thread is the one in which the program itself runs.

    Its outermost Python frame is a module, or it is named as Python names that thread.
    """
    if thread.name == "MainThread":
        return True
    outermost = next((frame for frame in reversed(thread.frames) if not frame.native), None)
    return outermost is not None and outermost.function == "<module>"


def main_first(threads: list[ThreadStack], pid: int | None) -> list[ThreadStack]:
    """The threads, the main one first.

    Known by its name, by its id being the process's, or by its outermost frame; faulthandler,
    which names no thread, lists the newest first and so the main one last.
    """
    best, score = 0, -1
    for index, thread in enumerate(threads):
        mine = 0
        if thread.name == "MainThread":
            mine = 3
        elif pid is not None and thread.tid == pid:
            mine = 2
        elif is_main(thread):
            mine = 1
        if mine > score:
            best, score = index, mine
    return [threads[best], *threads[:best], *threads[best + 1 :]]


def _pid_of_main(threads: list[ThreadStack]) -> int | None:
    """On Linux the main thread's id is the process's."""
    return threads[0].tid if is_main(threads[0]) else None


class BlockReader:
    """Common part of the readers: keeps the heading above a dump and one block for each speaker.

    A subclass has ``marks``, ``tool`` and :meth:`step`.
    """

    marks: tuple[str, ...] = ()
    tool = ""
    outermost_first = False

    def __init__(self) -> None:
        self._blocks: dict[Speaker, Block] = {}
        self._headings: dict[Speaker, tuple[int, Heading]] = {}
        self._fed = 0

    @property
    def wants_more(self) -> bool:
        """Whether a dump is open, or a heading may be followed by one."""
        return bool(self._blocks)

    def feed(self, line: Line) -> Iterable[Fact]:
        """Dumps that this line completes."""
        self._fed += 1
        facts: list[Fact] = []
        text = bare(line.text[:4096]).rstrip()
        above = heading(line.text)
        if above is not None:
            if not self.begins(text):
                facts.extend(self.end(line.speaker))
            if len(self._headings) >= MOST_BLOCKS:
                self._headings.clear()
            self._headings[line.speaker] = (line.place.line, above)
        facts.extend(self.step(line, text))
        if self._blocks and self._fed % 256 == 0:
            facts.extend(self._close_silent())
        return facts

    def finish(self) -> Iterable[Fact]:
        """Dumps that the end of the source completes."""
        return [fact for speaker in list(self._blocks) for fact in self.end(speaker)]

    def begins(self, text: str) -> bool:  # noqa: ARG002 - subclasses look at it
        """Whether a line that is also a heading begins a dump of this writer."""
        return False

    def step(self, line: Line, text: str) -> Iterator[Fact]:
        """Reads one line, ``text`` being its text without page tags."""
        raise NotImplementedError

    def open(self, line: Line) -> Block:
        """A new block for the line's speaker."""
        found = self._headings.get(line.speaker)
        above = None
        if found is not None and 0 <= line.place.line - found[0] <= HEADING_REACH:
            above = found[1]
        block = Block(line, above)
        block.fed_at = self._fed
        self._blocks[line.speaker] = block
        return block

    def block(self, speaker: Speaker) -> Block | None:
        """The speaker's open block."""
        found = self._blocks.get(speaker)
        if found is not None:
            found.fed_at = self._fed
        return found

    def end(self, speaker: Speaker) -> Iterator[Fact]:
        """Closes the speaker's block."""
        block = self._blocks.pop(speaker, None)
        if block is not None:
            self._headings.pop(speaker, None)
            fact = self.seal(block)
            if fact is not None:
                yield fact

    def seal(self, block: Block) -> ProcessStack | None:
        """The fact of a block that ends."""
        return block.close(self.tool, self.outermost_first)

    def _close_silent(self) -> Iterator[Fact]:
        too_many = len(self._blocks) - MOST_BLOCKS
        for index, (speaker, block) in enumerate(list(self._blocks.items())):
            if index < too_many or self._fed - block.fed_at > PATIENCE:
                yield from self.end(speaker)
