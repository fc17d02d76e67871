"""NCCL's own log: ``NCCL INFO`` and ``NCCL WARN`` lines, 2.7 to 2.31.

Source: message templates of the NCCL tags 2.14.3 to 2.30.7 (``init.cc``, ``transport/*.cc``,
``misc/socket.cc``, ``bootstrap.cc``). ``[3]`` in a header is a CUDA device, never a rank. Ranks in
these lines are ranks of the communicator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from unstall.model.facts import (
    CollectiveMismatch,
    Fact,
    NcclInit,
    NcclTransport,
    NcclWarning,
    PackageVersion,
    PeerLost,
)
from unstall.reading.line import Line
from unstall.reading.writers.drafts import Drafts, said
from unstall.reading.writers.stamps import nccl_stamp

_VERSION = re.compile(
    r"(?:NCCL version:? |nccl==|NCCL library version )(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)", re.ASCII
)
_COMM = re.compile(
    r"comm (0x[0-9a-fA-F]{1,16}|\([^()\s]{1,16}\)) rank (-?\d{1,9}) n[rR]anks (\d{1,9}) "
    r"cudaDev (-?\d{1,9})(?: nvmlDev -?\d{1,9})? busId ([0-9a-fA-F]{1,16})",
    re.ASCII,
)
_COMM_ID = re.compile(r"commId (0x[0-9a-fA-F]{1,16})", re.ASCII)
_STAGE = re.compile(r"- ?(Init START|Init COMPLETE|Abort COMPLETE|Destroy COMPLETE)", re.ASCII)
_STAGES = {
    "Init START": "start",
    "Init COMPLETE": "complete",
    "Abort COMPLETE": "abort",
    "Destroy COMPLETE": "destroy",
}
_CHANNEL = re.compile(
    r"Channel \d{1,4}(?:/\d{1,4})? ?: ?(\d{1,9})\[[0-9a-fA-F]{1,16}\] -> "
    r"(\d{1,9})\[[0-9a-fA-F]{1,16}\] (?:\[(?:send|receive)\] )?via (\S.{0,80})",
    re.ASCII,
)
_NETWORK = re.compile(r"Using network (\S.{0,60})", re.ASCII)
_BOOTSTRAP = re.compile(r"Bootstrap ?: Using ?(\S.{0,200})", re.ASCII)
_DEVICES = re.compile(r"NET/(\w{1,20}) ?: Using ?(\[?\S.{0,600})", re.ASCII)
_COUNTED = re.compile(r"\[\d{1,3}\](?=\S)", re.ASCII)

_SEGMENT = re.compile(r"(/dev/shm/[^\s,:()]{1,200})", re.ASCII)
_SIZE = re.compile(r"(?:size |to )(\d{1,20})", re.ASCII)
_DUPLICATE = re.compile(
    r"rank (\d{1,9}) and rank (\d{1,9}) both on CUDA device ([0-9a-fA-F]{1,16})", re.ASCII
)
_CUDA = re.compile(r"Cuda failure (?:(\d{1,4}) )?'([^']{1,200})'", re.ASCII)
_CU_CODE = re.compile(r"CUDA error (\d{1,4}) '([^']{1,200})'", re.ASCII)
_PEER = re.compile(
    r"(?:peer|connect to|Connect to|recv from|send to|from|to) "
    r"([A-Za-z0-9_.:%-]{1,255}<\d{1,5}>)",
    re.ASCII,
)
_STATUS = re.compile(r"(?:status ?= ?|with error )(?:IBV_\w{1,40}\()?(\d{1,5})", re.ASCII)
_VENDOR = re.compile(r"vendor[ _]err[ =](\d{1,9})", re.ASCII)
_OPCODE = re.compile(r"opcode[ =](?:IBV_\w{1,40}\()?(\d{1,9})", re.ASCII)
_HCA = re.compile(r"hca (\S{1,60})", re.ASCII)
_IB_DEVICE = re.compile(r"NET/IB ?: ?([A-Za-z]\w{1,30}:\d{1,3}) ", re.ASCII)
#: aws-ofi-nccl 1.3 to 1.17: "Error: 4126 (words)", before 1.6 "Error: words".
_COMPLETION = re.compile(
    r"completed with error\. RC: -?\d{1,6}\. (?:Flags: \d{1,20}\. )?"
    r"Error: (?:-?\d{1,8} \()?(.{1,300}?)\)?\. Completed length"
)
_ERROR_WORDS = re.compile(r"failed : (\S.{0,100})|returned (\d{1,4}\([^()]{1,80}\))", re.ASCII)
_RANKS = re.compile(r"rank (\d{1,9}) version (\d{1,9}) rank (\d{1,9}) version (\d{1,9})", re.ASCII)
_VERSIONS = re.compile(r"local: ([\d.]{1,20}), remote:? ([\d.]{1,20})", re.ASCII)
_INTERFACE = re.compile(r"interface (?!found|in )([^\s,;]{1,60})", re.ASCII)
_AROUND = re.compile(r"at and around rank (\d{1,9})", re.ASCII)
_SIZES = re.compile(
    r"collective mismatch error, local size (\d{1,20}) remote size (\d{1,20})"
    r"|Message truncated : received (\d{1,20}) bytes instead of (\d{1,20})",
    re.ASCII,
)


class NcclReader:
    """Facts of NCCL's own lines, and its version wherever it is printed."""

    marks: tuple[str, ...] = (
        "NCCL WARN",
        "Duplicate GPU detected",
        "NCCL INFO comm ",
        "- Init ",
        "- Abort COMPLETE",
        "- Destroy COMPLETE",
        "NCCL INFO Channel ",
        "NCCL INFO Using network",
        "NCCL INFO Bootstrap",
        "NCCL INFO NET/",
        "NCCL INFO Connected NVLS",
        "NCCL version",
        "nccl==",
    )

    def __init__(self) -> None:
        self._drafts = Drafts()

    @property
    def wants_more(self) -> bool:
        """Never: every message is one line."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """Facts that left the window by this line."""
        stamp = nccl_stamp(line.text)
        base = said(line, stamp)
        message = (stamp.message if stamp is not None else line.text).strip()
        if stamp is not None and stamp.level == "W":
            self._warning(message, base, stamp.device, stamp.file or None)
        elif stamp is not None:
            self._info(message, base)
        elif found := _COMM.search(message):
            self._communicator(found, message, base)
        elif "Duplicate GPU detected" in message and _DUPLICATE.search(message):
            # what people quote of an error is often this line alone
            self._warning(message.strip("`*\"'“”> "), base, None, None)
        if found := _VERSION.search(line.text):
            self._drafts.say(PackageVersion(**base, name="nccl", version=found[1]), anonymous=True)
        return self._drafts.overflow()

    def finish(self) -> Iterable[Fact]:
        """The facts still held."""
        return self._drafts.drain()

    def _info(self, text: str, base: dict[str, Any]) -> None:
        if found := _COMM.search(text):
            self._communicator(found, text, base)
        elif found := _CHANNEL.search(text):
            detail = found[3].strip()
            self._transport(base, _kind(detail), detail, int(found[1]), int(found[2]))
        elif found := _NETWORK.search(text):
            self._transport(base, "network", found[1].strip())
        elif found := _BOOTSTRAP.search(text):
            # `eth0:10.0.0.1<0>`: the port in brackets is always 0 here.
            interface = _COUNTED.sub("", found[1]).split()[0]
            self._transport(base, "bootstrap", interface.removesuffix("<0>"))
        elif found := _DEVICES.search(text):
            if "[" in found[2][:1]:
                name = found[1].lower()
                kind = f"net-{name}" if name in ("ib", "socket") else "network"
                self._transport(base, kind, _COUNTED.sub("", found[2]).strip())
        elif "Connected NVLS" in text:
            self._transport(base, "nvls", "NVLS")

    def _transport(
        self,
        base: dict[str, Any],
        kind: str,
        detail: str,
        from_rank: int | None = None,
        to_rank: int | None = None,
    ) -> None:
        # Every channel prints its own line; the speaker's thread does not matter.
        self._drafts.say(
            NcclTransport(**base, kind=kind, detail=detail, from_rank=from_rank, to_rank=to_rank)
        )

    def _communicator(self, found: re.Match[str], text: str, base: dict[str, Any]) -> None:
        stage = _STAGE.search(text, found.end())
        if stage is None:
            return
        comm_id = _COMM_ID.search(text, found.end())
        self._drafts.say(
            NcclInit(
                **base,
                stage=_STAGES[stage[1]],
                rank=int(found[2]),
                size=int(found[3]),
                device=int(found[4]),
                bus_id=found[5],
                comm_id=comm_id[1] if comm_id else None,
            )
        )

    def _warning(
        self, text: str, base: dict[str, Any], device: int | None, file: str | None
    ) -> None:
        topic, values = classify(text)
        self._drafts.say(
            NcclWarning(
                **base,
                message=text[:2000],
                topic=topic,
                device=device,
                file=file,
                values=values,
            )
        )
        if topic == "socket" and ("onnection closed" in text or "reset by peer" in text):
            self._drafts.say(PeerLost(**base, layer="nccl", peer=values.get("peer")))
        if found := _SIZES.search(text):
            mine, other = (found[1], found[2]) if found[1] else (found[4], found[3])
            self._drafts.say(
                CollectiveMismatch(
                    **base,
                    mine=(base["speaker"].rank, None, f"{mine} bytes", None),
                    other=(None, None, f"{other} bytes", None),
                    aspects=("size",),
                )
            )


def classify(text: str) -> tuple[str, dict[str, str]]:
    """Topic and values of a warning or of NCCL's last error (see ``NcclWarning``)."""
    values: dict[str, str] = {}

    def take(name: str, pattern: re.Pattern[str], group: int = 1) -> None:
        found = pattern.search(text)
        if found is not None and found[group] is not None:
            values[name] = found[group]

    if "Duplicate GPU" in text or "ultiple ranks detected using the same GPU" in text:
        if found := _DUPLICATE.search(text):
            values = {"ranks": f"{found[1]},{found[2]}", "bus_id": found[3]}
        return "duplicate-gpu", values
    if "Mismatched collective detected" in text:
        take("rank", _AROUND)
        return "mismatch", values
    if "NVLS" in text or "ulticast" in text:
        take("error", _CU_CODE, 2)
        return "nvls", values
    if "shared memory" in text or "/dev/shm/" in text:  # noqa: S108 - read, not used
        take("path", _SEGMENT)
        take("size", _SIZE)
        return "shm", values
    if "NET/IB" in text or "ibv_" in text:
        take("status", _STATUS)
        take("vendor_err", _VENDOR)
        take("opcode", _OPCODE)
        take("peer", _PEER)
        take("hca", _HCA)
        if "hca" not in values:
            take("hca", _IB_DEVICE)
        return "ib", values
    if "NET/OFI" in text:
        take("error", _COMPLETION)
        return "ofi", values
    if "ersion" in text and (
        "ismatch" in text or "too old" in text or "compatible" in text or "Minimum" in text
    ):
        if found := _RANKS.search(text):
            values = {"ranks": f"{found[1]},{found[3]}", "versions": f"{found[2]},{found[4]}"}
        elif found := _VERSIONS.search(text):
            values = {"versions": f"{found[1]},{found[2]}"}
        return "version", values
    if "ootstrap" in text or "no interface found" in text or "No interface found" in text:
        take("interface", _INTERFACE)
        take("peer", _PEER)
        return "bootstrap", values
    if "Cuda failure" in text or "CUDA error" in text:
        for pattern in (_CUDA, _CU_CODE):
            take("code", pattern)
            take("error", pattern, 2)
        return "cuda", values
    if "ocket" in text or "onnect" in text or "remote peer" in text or "No route to host" in text:
        take("peer", _PEER)
        if found := _ERROR_WORDS.search(text):
            values["error"] = (found[1] or found[2]).strip()
        return "socket", values
    return "other", values


def _kind(detail: str) -> str:
    head = detail.upper()
    for prefix, kind in (
        ("P2P", "p2p"),
        ("SHM", "shm"),
        ("NET/IB", "net-ib"),
        ("NET/SOCKET", "net-socket"),
        ("NVLS", "nvls"),
    ):
        if head.startswith(prefix):
            return kind
    return "network"
