"""What others put before a program's line: launchers, Ray, engines, containers, viewers.

Prefixes are taken off from the outside in, as long as one is found, and tell who spoke and when.
Two things stay in the text because readers want them whole: the bracketed header of PyTorch's C++
logger (``[E1206 21:12:01.852621435 File.cpp:685] ``) and the headers that programs format
themselves (``INFO 12-06 21:12:01 [core.py:58] ``, DeepSpeed's, Python's).

Some prefixes look like what a program itself might print (``0: text``, ``node-1: text``). They
are taken off only where a whole text is consistently so, as
:class:`~unstall.reading.profile.Profile` tells.

Sources: torch 2.3-2.15 (``[rankN]: ``, torchrun ``--tee``), Ray 2.x ``_private/worker.py``, vLLM
0.6-0.11 ``decorate_logs``, SGLang 0.4-0.5 ``configure_logger``, Open MPI ``--tag-output``, Slurm
``srun -l``, Kubernetes CRI logging format, Docker's json-file driver, accelerate and Lightning.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from unstall.model.facts import NOBODY, Moment, Speaker
from unstall.reading.profile import LABELS, OWN, Profile, is_label

Fields = dict[str, Any]

_MONTHS = {
    "Jan": 1, "Feb": 2, "Mar": 3, "Apr": 4, "May": 5, "Jun": 6,
    "Jul": 7, "Aug": 8, "Sep": 9, "Oct": 10, "Nov": 11, "Dec": 12,
}  # fmt: skip
_ROLES = frozenset({"default", "trainer", "worker"})
_DEEP = 10  # prefixes on one line; real ones have up to four

_A = re.ASCII
_PROCESS = re.compile(
    r"\((?:(?!pid=)(?P<name>[^\s()][^()]{0,80}?) )?(?:rank=(?P<rank>\d{1,6}) )?"
    r"pid=(?P<pid>\d{1,10})(?:, ?ip=(?P<ip>[\w.:-]{1,60}))?\)(?: |$)", _A)  # fmt: skip
_RAYLET = re.compile(
    r"\((?P<name>raylet|autoscaler|gcs_server|bundle_reservation_check_func)"
    r"(?:, ?ip=(?P<ip>[\w.:-]{1,60}))?(?: \+[\dhms]{1,20})?\)(?: |$)", _A)  # fmt: skip
_REPEATED = re.compile(r" ?\[repeated \d{1,9}x across (?:all nodes|cluster)\](?: \(Ray dedup.*)?$")

_RANK = re.compile(r"\[rank(\d{1,6})\]: ?", _A)
_TEE = re.compile(r"\[([A-Za-z_][A-Za-z_-]{0,40})(\d{1,5})\]:", _A)
_RANK_MARK = re.compile(r"\[(?:RANK |rank: ?)(\d{1,6})\] ", _A)
_MPI = re.compile(r"\[\d{1,6},(\d{1,6})\]<(stdout|stderr|stddiag)>:", _A)
_VIEWER = re.compile(r"\[\d{1,9}\](?: |$)", _A)
_RECORD_NEXT = re.compile(r"\[rank\d|\[[VIWEF](?:\d{3,4} \d\d:| [\w.]+:\d)|\[default\d", _A)
_POD = re.compile(r"\[pod/([^\]\s]{1,250})\] ?")
_SGLANG = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{1,6})?"
    r"((?: (?:DP|PP|ATTN_CP|ATTN_TP|MOE_DP|CP|TP|EP)\d{1,4}){1,6})\] ?", _A)  # fmt: skip
_STAMPED = re.compile(
    r"\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)\]?:? "
    r"(?=\[rank\d|\[default\d|\((?:[^\s()]{1,80} )?(?:rank=\d+ )?pid=\d)", _A)  # fmt: skip

_ISO = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d))"
    r"(?:[ \t]|$)(?:(stdout|stderr) ([FP])(?:[: ]|$))?(?:##\[[a-z]{1,20}\])?", _A)  # fmt: skip
_TASK = re.compile(r" {0,6}(\d{1,5}):(?: |$)", _A)
_NUMBERED = {
    "colon": re.compile(r" {0,8}\d{1,9}: ?", _A),
    "pipe": re.compile(r" {0,8}\d{1,9} ?\| ?", _A),
    "tab": re.compile(r" {0,8}\d{1,9}\t", _A),
}

_SYSLOG = re.compile(r"([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d) ", _A)
_DAEMON = re.compile(r"([\w.-]{1,64}) ([\w./@-]{1,64})\[(\d{1,10})\]: ?", _A)
_MPI_DATED = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d) (\d{4})(?=\[\d+,\d+\]<std)", _A
)
_COMPOSE = re.compile(r"([A-Za-z0-9][\w.-]{0,62}) {1,60}\|(?: |$)", _A)
_COMPOSE_SURE = re.compile(r"[a-z0-9][\w.]{0,60}[-_]\d{1,4}", _A)
_HOST = re.compile(r"([A-Za-z0-9][\w.-]{0,62}):(?: |$)", _A)
_RANKED = re.compile(r"[Rr]ank[_-]?(\d{1,6})", _A)
_ACTIONS = re.compile(r"[^\t\n]{1,120}\t[^\t\n]{1,120}\t(?=\ufeff?\d{4}-\d\d-\d\dT)")
_GREP = re.compile(r"[\w./+-]{1,200}?\.(?:log|out|err|txt|\d{1,3})[:-](?:\d{1,9}[:-])?", _A)
_QUOTE = re.compile(r">(?: >){0,5}(?: |$)")

_INNER_RANK = re.compile(r"(?:log_dist\] \[Rank |\[rank )(\d{1,6})\] ", _A)

_MESSAGES = ("log", "message", "msg", "textPayload", "MESSAGE", "line", "body")
_ENVELOPE = frozenset({
    "stream", "time", "timestamp", "@timestamp", "ts", "level", "severity", "kubernetes", "attrs",
    "logger", "_HOSTNAME", "host", "container_name", "asctime", "levelname", "receiveTimestamp",
})  # fmt: skip
_DOCKER_CUT = 16_000  # Docker cuts a line into parts of 16 KiB


class Stripped(NamedTuple):
    """A line without its prefixes.

    Attributes:
        text: what is left. It holds line ends where a collector had packed several lines in one.
        fields: what the prefixes told of the speaker.
        moment: the time of the outermost prefix that gave one.
        partial: a collector cut the line here; the next one of the same speaker goes on.
    """

    text: str
    fields: Fields
    moment: Moment | None
    partial: bool = False


class Prefixes:
    """Takes the prefixes off the lines of one source."""

    def __init__(self, profile: Profile | None = None) -> None:
        self.profile = profile or Profile()
        self._fields: Fields = {}
        self._moment: Moment | None = None
        self._partial = False
        self._ways = {
            "(": self._parenthesis,
            "[": self._bracket,
            "{": self._object,
            ">": self._quote,
            "^": self._echo,
            " ": self._blank,
            **dict.fromkeys("0123456789", self._digit),
        }
        self._any_word = bool(
            self.profile.hosts
            or self.profile.containers
            or self.profile.searched
            or self.profile.labelled in (":", " ")
        )

    def strip(
        self, text: str, fields: Fields | None = None, moment: Moment | None = None
    ) -> Stripped:
        """A line without its prefixes; ``fields`` and ``moment`` are what is known already."""
        self._fields = dict(fields) if fields else {}
        self._moment = moment
        self._partial = False
        for _ in range(_DEEP):
            rest = self._ways.get(text[:1], self._word)(text)
            if rest is None:
                break
            text = rest
        if "[repeated " in text:
            text = _REPEATED.sub("", text)
        if "rank" not in self._fields and ("[rank " in text[:64] or "log_dist]" in text[:96]):
            found = _INNER_RANK.search(text[:160])
            if found is not None:
                self._fields["rank"] = int(found[1])
        return Stripped(text, self._fields, self._moment, self._partial)

    def _time(self, moment: Moment | None) -> None:
        if self._moment is None:
            self._moment = moment

    def _parenthesis(self, text: str) -> str | None:
        found = _PROCESS.match(text)
        if found is None:
            found = _RAYLET.match(text)
            if found is None:
                return self._label(text) if self.profile.labelled == "(" else None
        told = found.groupdict()
        fields = self._fields
        if told["name"]:
            fields["name"] = told["name"]
        if told.get("pid"):
            fields["pid"] = int(told["pid"])
        if told.get("rank"):
            fields["rank"] = int(told["rank"])
        if told["ip"]:
            fields["host"] = told["ip"]
        return text[found.end() :]

    def _bracket(self, text: str) -> str | None:
        fields = self._fields
        if (found := _RANK.match(text)) is not None:
            fields["rank"] = int(found[1])
        elif (found := _TEE.match(text)) is not None:
            if found[1] not in _ROLES and found[1] not in self.profile.roles:
                return None
            fields["local_rank"] = int(found[2])
        elif (found := _RANK_MARK.match(text)) is not None:
            fields["rank"] = int(found[1])
        elif (found := _MPI.match(text)) is not None:
            fields["rank"] = int(found[1])
            fields["stream"] = "stdout" if found[2] == "stdout" else "stderr"
        elif (found := _VIEWER.match(text)) is not None:
            if "bracket" not in self.profile.numbered and not _RECORD_NEXT.match(text, found.end()):
                return None
        elif (found := _POD.match(text)) is not None:
            fields["container"] = found[1]
        elif (found := _SGLANG.match(text)) is not None:
            fields["name"] = found[2].strip()
            self._time(moment_of(found[1]))
        elif (found := _STAMPED.match(text)) is not None:
            self._time(moment_of(found[1]))
        else:
            return self._label(text) if self.profile.labelled == "[" else None
        return text[found.end() :]

    def _label(self, text: str) -> str | None:
        """A name that whoever joined several outputs put before each line of them."""
        found = LABELS[self.profile.labelled].match(text)
        if found is None or "container" in self._fields or not is_label(found[1]):
            return None
        if found[1] not in self.profile.labels and OWN.match(text, found.end()) is None:
            return None
        ranked = _RANKED.fullmatch(found[1])
        if ranked is not None:
            self._fields["rank"] = int(ranked[1])
        else:
            self._fields["container"] = found[1]
        return text[found.end() :]

    def _digit(self, text: str) -> str | None:
        if text[10:11] == "T" and (found := _ISO.match(text)) is not None:
            self._time(moment_of(found[1]))
            if found[2]:
                self._fields["stream"] = found[2]
                self._partial = found[3] == "P"
            return text[found.end() :]
        prefixed = "[rank" in text or "[default" in text or "pid=" in text
        if prefixed and (found := _STAMPED.match(text)) is not None:
            self._time(moment_of(found[1]))
            return text[found.end() :]
        numbered = self._numbered(text)
        return numbered if numbered is not None else self._word(text)

    def _blank(self, text: str) -> str | None:
        return self._numbered(text) if text.lstrip(" ")[:1].isdigit() else None

    def _numbered(self, text: str) -> str | None:
        if self.profile.tasks:
            found = _TASK.match(text)
            if found is not None and "task" not in self._fields:
                self._fields["task"] = int(found[1])
                return text[found.end() :]
        for style in self.profile.numbered:
            pattern = _NUMBERED.get(style)
            found = pattern.match(text) if pattern is not None else None
            if found is not None and "numbered" not in self._fields:
                self._fields["numbered"] = True  # once: what follows may be a number too
                return text[found.end() :]
        return None

    def _echo(self, text: str) -> str | None:
        """What a terminal shows of a key: ``^C`` before the next line that a program writes."""
        return text[2:] if text[1:2] in ("C", "\\", "Z") and len(text) > 2 else None

    def _quote(self, text: str) -> str | None:
        if text.startswith(">>"):
            return None
        found = _QUOTE.match(text)
        return text[found.end() :] if found is not None else None

    def _word(self, text: str) -> str | None:
        if text[3:4] == " " and text[:3] in _MONTHS:
            return self._syslog(text)
        if text[3:4] == " " and (found := _MPI_DATED.match(text)) is not None:
            month, day, *clock, year = found.groups()
            self._time(_moment(int(year), _MONTHS.get(month, 0), int(day), clock))
            return text[found.end() :]
        bar = text.find("|", 1, 128)
        if bar > 0 and (found := _COMPOSE.match(text)) is not None:
            if found[1] in self.profile.containers or _COMPOSE_SURE.fullmatch(found[1]):
                self._fields["container"] = found[1]
                return text[found.end() :]
            return None
        if "\t" in text and (found := _ACTIONS.match(text)) is not None:
            return text[found.end() :].lstrip("\ufeff")
        if self._any_word:
            found = _HOST.match(text)
            if found is not None and found[1] in self.profile.hosts:
                ranked = _RANKED.fullmatch(found[1])
                if ranked is not None:
                    self._fields["rank"] = int(ranked[1])
                else:
                    self._fields["host"] = found[1]
                return text[found.end() :]
            if self.profile.searched and (found := _GREP.match(text)) is not None:
                return text[found.end() :]
            if self.profile.labelled in (":", " "):
                return self._label(text)
        return None

    def _syslog(self, text: str) -> str | None:
        found = _SYSLOG.match(text)
        if found is None:
            return None
        month, day, *clock = found.groups()
        self._time(_moment(None, _MONTHS[month], int(day), clock))
        daemon = _DAEMON.match(text, found.end())
        if daemon is None:
            return text[found.end() :]
        self._fields.update(host=daemon[1], name=daemon[2], pid=int(daemon[3]))
        return text[daemon.end() :]

    def _object(self, text: str) -> str | None:
        """One JSON object of a collector around the line; a program's own objects stay."""
        if not text.startswith('{"') or not text.rstrip().endswith("}"):
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict) or _ENVELOPE.isdisjoint(value):
            return None
        inner = next((value[key] for key in _MESSAGES if isinstance(value.get(key), str)), None)
        if not isinstance(inner, str):
            return None
        if isinstance(value.get("stream"), str):
            self._fields["stream"] = value["stream"][:20]
        kubernetes = value.get("kubernetes")
        if isinstance(kubernetes, dict):
            value = {**kubernetes, **value}
        for key in ("container_name", "pod_name", "pod"):
            if isinstance(value.get(key), str):
                self._fields["container"] = value[key][:200]
                break
        host = value.get("_HOSTNAME", value.get("host"))
        if isinstance(host, str) and host:
            self._fields["host"] = host[:200]
        for key in ("time", "timestamp", "@timestamp", "ts", "asctime"):
            moment = _any_moment(value.get(key))
            if moment is not None:
                self._time(moment)
                break
        self._partial = len(inner) >= _DOCKER_CUT and not inner.endswith("\n") and "log" in value
        return inner.rstrip("\r\n")


class Speakers:
    """Speakers by what prefixes told of them: few and repeated, so they are made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, Any], ...], Speaker] = {}

    def of(self, fields: Fields) -> Speaker:
        """The speaker with those fields."""
        if not fields:
            return NOBODY
        key = tuple(fields.items())
        speaker = self._known.get(key)
        if speaker is None:
            told = {name: value for name, value in fields.items() if name != "numbered"}
            speaker = Speaker(**told) if told else NOBODY
            if len(self._known) < 10_000:
                self._known[key] = speaker
        return speaker


def moment_of(text: str) -> Moment | None:
    """A moment written as a date, ``T`` or blank, a time, and perhaps a zone."""
    zone = None
    if text.endswith("Z"):
        text, zone = text[:-1], 0
    elif len(text) > 19 and (text[-5] in "+-" or text[-6] in "+-"):
        cut = -5 if text[-5] in "+-" else -6
        hours, minutes = text[cut + 1 :][:2], text[-2:]
        zone = (int(hours) * 60 + int(minutes)) * (-1 if text[cut] == "-" else 1)
        text = text[:cut]
    date, clock = text[:10], text[11:]
    whole, _, fraction = clock.replace(",", ".").partition(".")
    try:
        stamp = datetime.fromisoformat(f"{date}T{whole}.{fraction[:6].ljust(6, '0')}")
    except ValueError:
        return None
    return Moment(stamp, zone=zone)


def _moment(year: int | None, month: int, day: int, clock: list[str]) -> Moment | None:
    hour, minute, second = (int(part) for part in clock)
    try:
        stamp = datetime(year or 1904, month, day, hour, minute, second)
    except ValueError:
        return None
    return Moment(stamp, year_known=year is not None)


def _any_moment(value: Any) -> Moment | None:
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d", value):
        return moment_of(value[:40].replace(" UTC", "Z"))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = value / 1000 if value > 1e11 else value
        if 1e9 < seconds < 4e9:
            utc = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)
            return Moment(utc.replace(tzinfo=None), zone=0)
    return None
