"""py-spy: ``py-spy dump`` as text and with ``--json``.

Formats checked against py-spy 0.4.3 (plain, ``--native``, ``--locals``, ``--subprocesses``,
``--nonblocking``, ``--json``); 0.3 prints functions without their classes and, where it does not
know the system's thread id, a hexadecimal one; 0.2 prints no name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from unstall.model.facts import Fact, Frame, Speaker, Unreadable
from unstall.model.text import say
from unstall.reading.line import Line
from unstall.reading.stacks import headings
from unstall.reading.stacks.block import LONGEST_NAME, Block, BlockReader, OpenThread

_PROCESS = re.compile(r"Process (\d{1,10}): ?(.*)$")
_PARENT = re.compile(r"Parent Process (\d{1,10})\b")
_PYTHON = re.compile(r"Python v\d")
_THREAD = re.compile(
    r"Thread (0x[0-9A-Fa-f]{1,16}|\d{1,20}) \((idle|active)(\+gil)?\)(?:: \"(.{0,500})\")?$"
)
_RULE = re.compile(r"-{20,}$")
_SO = re.compile(r"\.so(?:\.[\d.]+)?$|\.dylib$|\.dll$")
_SOURCE_OF_NATIVE = (".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hpp", ".cuh", ".S", ".rs", ".inl")
# A dump pasted without its indentation: only what surely is a frame counts as one.
_ENDS_AS_FRAME = re.compile(r" \([^\s()]{1,500}(?::\d{1,9}|\.so[.\d]*)\)$")
_STRANGE_LINES = 3
#: Lines that a command may have.
_COMMAND_LINES = 200


def frame_of(text: str) -> Frame | None:
    """``function (file:line)`` as a frame; ``None`` for any other line."""
    text = text.strip()
    if not text.endswith(")"):
        return None
    cut = text.rfind(" (")
    if cut < 0:
        # A browser drops ``<module>`` as a tag; the file alone is left.
        if not text.startswith("("):
            return None
        function, where = "<module>", text[1:-1]
    else:
        function, where = text[:cut].strip(), text[cut + 2 : -1]
    if not where or not function or ": <" in function:
        return None
    file, colon, number = where.rpartition(":")
    line = None
    if colon and number.isascii() and number.isdigit() and len(number) < 10:
        line = int(number)
    else:
        file = where
    native = (
        line is None
        or function.startswith("0x")
        or _SO.search(file) is not None
        or file.endswith(_SOURCE_OF_NATIVE)
    )
    return Frame(function[:LONGEST_NAME], file[:LONGEST_NAME], line or None, native)


class PySpyText(BlockReader):
    """``Process 7: python train.py`` and the threads below it."""

    marks: tuple[str, ...] = (
        "Process ",
        "Thread ",
        "Permission Denied: Try running again",
        *headings.MARKS,
    )
    tool = "py-spy"

    def begins(self, text: str) -> bool:
        """Whether the line is py-spy's own."""
        return _RULE.match(text) is not None

    def step(self, line: Line, text: str) -> Iterator[Fact]:
        """Reads one line."""
        stripped = text.strip()
        process = _PROCESS.match(stripped)
        if process is not None:
            yield from self.end(line.speaker)
            block = self.open(line)
            block.pid = int(process[1])
            block.command = process[2].strip()[:2000] or None
            block.mode = "header"
            return
        found = _THREAD.match(stripped)
        open_block = self.block(line.speaker)
        if found is not None:
            tid = int(found[1], 16) if found[1].startswith("0x") else int(found[1])
            if open_block is not None and any(t.tid == tid for t in open_block.threads):
                yield from self.end(line.speaker)
                open_block = None
            open_block = open_block or self.open(line)
            open_block.mode = "thread"
            open_block.strange = 0
            open_block.start_thread(OpenThread(found[4] or "", found[2], tid, found[3] is not None))
            return
        if open_block is None:
            if stripped.startswith("Permission Denied: Try running again"):
                yield _refused(line)
            return
        yield from self._inside(line, text, stripped, open_block)

    def _inside(self, line: Line, text: str, stripped: str, block: Block) -> Iterator[Fact]:
        if not stripped or _RULE.match(stripped):
            return
        if not block.threads:
            parent = _PARENT.match(stripped)
            if parent is not None:
                if block.parent is None:
                    block.parent = int(parent[1])
                return
            if _PYTHON.match(stripped):
                block.mode = "body"
                return
            if block.mode == "header" and block.strange < _COMMAND_LINES:
                # ``python -c`` with a program of several lines: they stand here as they are
                block.strange += 1
                block.command = f"{block.command or ''} {stripped}".strip()[:2000]
                return
        thread = block.thread
        if thread is not None:
            indent = len(text) - len(text.lstrip())
            if block.mode == "locals" and indent > block.strange_indent:
                return
            if stripped in ("Arguments:", "Locals:"):
                block.mode = "locals"
                block.strange_indent = indent - 1
                return
            frame = frame_of(text)
            if not thread.frames:
                block.flat = indent == 0
            if (
                frame is not None
                and indent == 0
                and not (block.flat and _ENDS_AS_FRAME.search(text))
            ):
                frame = None
            if frame is not None and indent <= 40:
                block.mode = "thread"
                block.strange = 0
                thread.add(frame)
                return
        block.strange += 1
        if block.strange >= _STRANGE_LINES or not text[:1].isspace():
            yield from self.end(line.speaker)


def _refused(line: Line) -> Unreadable:
    text = say(
        "py-spy was not allowed to look into the process, so its stack is missing; run it as root "
        "or as the process's owner, in a container with --cap-add SYS_PTRACE"
    )
    return Unreadable(
        place=line.place,
        quote=line.raw[:600],
        speaker=line.speaker,
        moment=line.moment,
        reason=text.render(),
        fatal=False,
        text=text,
    )


class _JsonFrame(msgspec.Struct):
    name: str = ""
    filename: str = ""
    short_filename: str | None = None
    module: str | None = None
    line: int = 0


class _JsonProcess(msgspec.Struct):
    pid: int | None = None
    command_line: str | None = None


class _JsonProcessInfo(msgspec.Struct):
    pid: int | None = None
    command_line: str | None = None
    parent: _JsonProcess | None = None


class _JsonThread(msgspec.Struct):
    pid: int
    thread_id: int
    frames: list[_JsonFrame]
    thread_name: str | None = None
    os_thread_id: int | None = None
    active: bool = False
    owns_gil: bool = False
    process_info: _JsonProcessInfo | None = None


def _json_frame(frame: _JsonFrame) -> Frame:
    native = (
        frame.line == 0 or frame.name.startswith("0x") or _SO.search(frame.filename) is not None
    )
    file = frame.short_filename or frame.filename
    return Frame(frame.name[:LONGEST_NAME], file[:LONGEST_NAME], frame.line or None, native)


class PySpyJson(BlockReader):
    """The threads of ``py-spy dump --json``, pretty-printed as py-spy does or on one line.

    The pretty form is read thread by thread: its text is gathered from ``"pid":`` to the brace
    that closes the thread, so that a dump of any length needs little memory.
    """

    marks: tuple[str, ...] = ('"pid":', *headings.MARKS)
    tool = "py-spy"
    longest_thread = 1 << 20

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[Speaker, list[str]] = {}
        self._sizes: dict[Speaker, int] = {}

    @property
    def wants_more(self) -> bool:
        """Whether a dump is open."""
        return bool(self._blocks)

    def step(self, line: Line, text: str) -> Iterator[Fact]:  # noqa: ARG002 - cut too short here
        """Reads one line."""
        stripped = line.text.strip()
        if stripped.startswith(("[{", "{")) and '"pid":' in stripped and '"frames":' in stripped:
            yield from self._whole(line, stripped)
            return
        gathered = self._texts.get(line.speaker)
        if gathered is None:
            if re.fullmatch(r'"pid": ?\d{1,10},', stripped):
                self._texts[line.speaker] = ["{", stripped]
                self._sizes[line.speaker] = 0
                if self.block(line.speaker) is None:
                    self.open(line)
                return
            if stripped not in ("{", "},", "}", "[", ""):
                yield from self.end(line.speaker)
            return
        if len(gathered) == 2 and not stripped.startswith('"thread_id":'):
            yield from self.end(line.speaker)
            return
        self.block(line.speaker)
        self._sizes[line.speaker] += len(stripped)
        if self._sizes[line.speaker] > self.longest_thread:
            yield from self.end(line.speaker)
            return
        gathered.append(stripped)
        # py-spy indents by two, so that a thread's own brace stands at two and those inside deeper.
        if stripped in ("}", "},") and len(line.text) - len(line.text.lstrip()) <= 2:
            gathered[-1] = "}"
            del self._texts[line.speaker]
            thread = _decode("".join(gathered))
            if thread is not None:
                yield from self._take(line, thread)

    def end(self, speaker: Speaker) -> Iterator[Fact]:
        """Closes the speaker's block and forgets a half-read thread."""
        self._texts.pop(speaker, None)
        self._sizes.pop(speaker, None)
        yield from super().end(speaker)

    def _whole(self, line: Line, text: str) -> Iterator[Fact]:
        yield from self.end(line.speaker)
        try:
            threads = msgspec.json.decode(text, type=list[_JsonThread] | _JsonThread)
        except (msgspec.DecodeError, RecursionError):
            return
        for thread in threads if isinstance(threads, list) else [threads]:
            yield from self._take(line, thread)
        yield from self.end(line.speaker)

    def _take(self, line: Line, thread: _JsonThread) -> Iterator[Fact]:
        block = self.block(line.speaker)
        if block is not None and block.pid not in (None, thread.pid):
            yield from super().end(line.speaker)
            block = None
        block = block or self.open(line)
        block.pid = thread.pid
        info = thread.process_info
        if info is not None:
            block.command = info.command_line
            block.parent = info.parent.pid if info.parent else None
        opened = OpenThread(
            thread.thread_name or "",
            "active" if thread.active else "idle",
            thread.os_thread_id if thread.os_thread_id is not None else thread.thread_id,
            thread.owns_gil,
        )
        for frame in thread.frames:
            opened.add(_json_frame(frame))
        block.start_thread(opened)


def _decode(text: str) -> _JsonThread | None:
    try:
        return msgspec.json.decode(text, type=_JsonThread)
    except (msgspec.DecodeError, RecursionError):
        return None
