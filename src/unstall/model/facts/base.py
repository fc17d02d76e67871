"""Where and when something was said, by whom, and what every fact has."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from unstall.model.text import Text


class Place(msgspec.Struct, frozen=True, order=True):
    """Where something stands.

    A source as the user named it (``logs.tgz!rank0.log`` for a member of an archive, ``-`` for
    standard input) and a line counted from 1.
    """

    source: str
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}"


class Moment(msgspec.Struct, frozen=True, order=True):
    """A point in time as a log gave it.

    Attributes:
        stamp: local wall time without a zone; its year is 1904 (a leap year) where none was given.
        year_known: whether the year was given. C++ log lines of PyTorch give none.
        zone: UTC offset in minutes where the line gave one.
    """

    stamp: datetime
    year_known: bool = True
    zone: int | None = None

    def earlier(self, milliseconds: float) -> Moment:
        """The moment so many milliseconds before this one."""
        return Moment(self.stamp - timedelta(milliseconds=milliseconds), self.year_known, self.zone)

    def seconds_since(self, other: Moment) -> float:
        """Seconds from ``other`` to this one; years count only where both are known."""
        mine, theirs = self.stamp, other.stamp
        if not (self.year_known and other.year_known):
            mine, theirs = mine.replace(year=1904), theirs.replace(year=1904)
        return (mine - theirs).total_seconds()

    def iso(self) -> str:
        """ISO 8601 to the millisecond; ``--MM-DDThh:mm:ss`` where the year is unknown."""
        text = self.stamp.isoformat(timespec="milliseconds")
        if not self.year_known:
            text = "-" + text[4:]
        if self.zone is not None:
            sign = "-" if self.zone < 0 else "+"
            text += f"{sign}{abs(self.zone) // 60:02d}:{abs(self.zone) % 60:02d}"
        return text


class Speaker(msgspec.Struct, frozen=True):
    """Who said a line, as far as its prefixes tell.

    Attributes:
        rank: global rank within the speaker's own program (``[rank3]:``).
        local_rank: rank on its node (torchrun's ``[default3]:``).
        task: Slurm task id (``srun -l``).
        pid: process id.
        host: host name or address.
        name: process or actor name (``EngineCore_DP0``, ``WorkerDict``, ``APIServer``, ``TP0``).
        container: compose service, pod or container name.
        stream: ``stdout`` or ``stderr`` where the log format gives it.
    """

    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    pid: int | None = None
    host: str | None = None
    name: str | None = None
    container: str | None = None
    stream: str | None = None


NOBODY = Speaker()


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One observation.

    Attributes:
        place: the first line it rests on.
        quote: that line as written, without terminal escapes and control characters, cut at 600.
        speaker: who said it.
        moment: when it was said (not necessarily when the thing happened).
        copies: how many times the same text stood in the input (what(), Ray's copy); at least 1.
    """

    place: Place
    quote: str
    speaker: Speaker = NOBODY
    moment: Moment | None = None
    copies: int = 1


class GroupTag(msgspec.Struct, frozen=True):
    """What a log line says of a process group: ``[PG ID 5 PG GUID 15(dp) Rank 0]``.

    Attributes:
        pg_id: number among the groups that this process belongs to (``PG ID``; ``PG`` up to 2.4).
        guid: number among all ``new_group`` calls (``PG GUID``, 2.5 and later), a string in torch.
        description: ``default_pg`` or what the program called it.
        rank: rank within the group, which is not the global rank.
    """

    pg_id: int | None = None
    guid: str | None = None
    description: str | None = None
    rank: int | None = None


class Work(msgspec.Struct, frozen=True):
    """One collective or point-to-point operation as ``WorkNCCL(...)`` shows it."""

    op: str
    seq: int | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    shape: tuple[int, ...] | None = None
    timeout_ms: int | None = None


class Unreadable(Fact, frozen=True, kw_only=True):
    """Something of the input could not be read; the rest was.

    Attributes:
        reason: what was wrong, what was done about it, and what to try, in English.
        fatal: nothing at all of that source was read.
        text: the reason as a sentence that can be shown in the report's language.
    """

    reason: str
    fatal: bool = True
    text: Text | None = None
