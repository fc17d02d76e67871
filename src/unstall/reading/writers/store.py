"""TCPStore and rendezvous trouble (torch 1.13 to 2.15).

Two implementations say different things: the legacy sockets (``socket.cpp``) and the libuv back
end, default since 2.4 (``TCPStoreLibUvBackend.cpp``); the client's retries are from 2.5 on. Store
messages of other frameworks are not read here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from unstall.model.facts import Fact, PeerLost, StoreFailure, WarningLine
from unstall.reading.line import Line
from unstall.reading.writers.drafts import Drafts, first, integer, said
from unstall.reading.writers.stamps import Stamp, records

_ADDRESS = r"\(?\\?\[?([A-Za-z0-9_.:%-]{1,255}?)\\?\]?(?::|, )(\d{1,5})(?!\d|\.\d)\)?"
_BIND = re.compile(rf"failed to bind to {_ADDRESS}(?= |$)", re.ASCII)
_ERRNO = re.compile(r"(?:errno: |code: -)(\d{1,5})", re.ASCII)
_LISTEN = "has failed to listen on any local network address"
_PORT = re.compile(r"port: (\d{1,5})", re.ASCII)
_CONNECT_SLOW = re.compile(
    rf"has timed out after (\d{{1,15}}) ?(ms|s) while trying to connect to {_ADDRESS}", re.ASCII
)
#: The same, with its address taken out or cut off where a person quotes it.
_CONNECT_HIDDEN = re.compile(r"has timed out after (\d{1,15}) ?(ms|s) while trying to connect to\b")
_CONNECT = re.compile(
    rf"has failed to connect to (?:any network address of )?{_ADDRESS}(?=[ .]|$)", re.ASCII
)
_NO_SOCKET = re.compile(rf"No socket on {_ADDRESS} is listening yet", re.ASCII)
_VALIDATE = re.compile(
    rf"failed to connect/validate to host {_ADDRESS} - (retrying|timed out) "
    r"\(try=\d{1,9}, timeout=(\d{1,15})ms",
    re.ASCII,
)
_RESOLVE = re.compile(
    rf"network addresses of {_ADDRESS} cannot be retrieved(?: \(gai error: (-?\d{{1,5}}))?",
    re.ASCII,
)
_JOIN = re.compile(
    r"Timed out after (\d{1,12}) seconds waiting for clients\. (\d{1,9})/(\d{1,9}) clients joined",
    re.ASCII,
)
_WAIT = re.compile(r"wait timeout after (\d{1,15}) ?ms, keys: ([^\s\"'`*]{1,400})", re.ASCII)
_UNIQUE = re.compile(
    r"retr(?:ie|ei)ving ncclUniqueId from (?:\\?\[?\d{1,9}\\?\]?|roots) via (?:c10d key-value store"
    r"|TCPStore) by key '([^']{1,300})'"
)
_WAITED = re.compile(r"wait timeout after (\d{1,15}) ?ms", re.ASCII)
_REMOTE = re.compile(
    r"remote=\\?\[?([A-Za-z0-9_.:%-]{1,255}?)\\?\]?:(\d{1,5})(?=[\])\s,$]|$)", re.ASCII
)
_DUMP_KEY = re.compile(r'TCPStore check for dump key "([^"]{1,200})" failed')
_SHUT_DOWN = (
    'Failed to check the "should dump" flag on TCPStore',
    'Failed to check the \\"should dump\\" flag on TCPStore',
    "Failed to set dump signal in tcpstore",
    "through TCPStore. Error:",
)
_SOCKET_LOST = re.compile(
    r"(?:sendBytes|recvBytes|recvValue|recvValueWithTimeout|recvVector|sendValue) failed on"
    r"|got 0 bytes\. Connection was likely closed|sent 0 bytes\. Connection was likely closed",
    re.ASCII,
)
_SLOW_SOCKET = re.compile(r"waitForInput: socket SocketImpl\(.{0,400}timed out after (\d{1,15})ms")


class StoreReader:
    """Store failures; the same failure told by socket, store and exception is one fact."""

    marks: tuple[str, ...] = (
        "server socket has failed to",
        "client socket has ",
        "No socket on (",
        "failed to connect/validate to host",
        "cannot be retrieved",
        "seconds waiting for clients",
        "wait timeout after ",
        "retrieving ncclUniqueId from",
        "retreiving ncclUniqueId from",  # as torch spelt it before 2.1
        "Socket Timeout",
        "TCPStore check for dump key",
        *_SHUT_DOWN,
        " failed on SocketImpl",
        "Connection was likely closed",
        "waitForInput: socket ",
        "workers but somaxconn is",
        "Ping failed, invalid value returned from server",
    )

    def __init__(self) -> None:
        self._drafts = Drafts()

    @property
    def wants_more(self) -> bool:
        """Never: every message is one line."""
        return False

    def feed(self, line: Line) -> Iterable[Fact]:
        """Facts that left the window by this line."""
        for record in records(line.text):
            stamp = record if isinstance(record, Stamp) else None
            text = stamp.message if stamp is not None else str(record)
            base = said(line, stamp)
            handlers: tuple[Callable[[str, dict[str, Any]], bool], ...] = (
                self._unique_id,
                self._bind,
                self._connect,
                self._wait,
                self._closed,
            )
            any(handler(text, base) for handler in handlers)
        return self._drafts.overflow()

    def finish(self) -> Iterable[Fact]:
        """The facts still held."""
        return self._drafts.drain()

    def _unique_id(self, text: str, base: dict[str, Any]) -> bool:
        found = _UNIQUE.search(text)
        if found is None:
            return False
        waited = _WAITED.search(text)
        key, timeout = found[1], integer(waited[1]) if waited else None
        self._merge(StoreFailure(**base, kind="unique-id", key=key, timeout_ms=timeout), key)
        return True

    def _bind(self, text: str, base: dict[str, Any]) -> bool:
        found = _BIND.search(text)
        if found is None and _LISTEN not in text:
            return False
        errno = first(_ERRNO, text)
        port = (
            int(found[2]) if found else integer(port[1]) if (port := _PORT.search(text)) else None
        )
        fact = StoreFailure(
            **base,
            kind="bind",
            host=found[1] if found else None,
            port=port,
            errno=integer(errno),
        )
        # First each address, then the sum of it without an address, then the exception.
        self._merge(fact, port)
        return True

    def _connect(self, text: str, base: dict[str, Any]) -> bool:
        timeout = errno = None
        if found := _VALIDATE.search(text):
            host, port, timeout = found[1], found[2], int(found[4])
        elif found := _CONNECT_SLOW.search(text):
            host, port = found[3], found[4]
            timeout = int(found[1]) * (1000 if found[2] == "s" else 1)
        elif found := _RESOLVE.search(text):
            code = integer(found[3])
            fact = StoreFailure(
                **base,
                kind="resolve",
                host=found[1],
                port=int(found[2]),
                errno=None if code is None else abs(code),
            )
            self._merge(fact, (fact.host, fact.port))
            return True
        elif found := _CONNECT.search(text) or _NO_SOCKET.search(text):
            host, port = found[1], found[2]
            number = _ERRNO.search(text)
            errno = int(number[1]) if number else None
        elif found := _CONNECT_HIDDEN.search(text):
            timeout = int(found[1]) * (1000 if found[2] == "s" else 1)
            fact = StoreFailure(**base, kind="connect", timeout_ms=timeout)
            self._merge(fact, ("hidden", timeout))
            return True
        else:
            return False
        self._merge(
            StoreFailure(
                **base,
                kind="connect",
                host=host,
                port=int(port),
                timeout_ms=timeout,
                errno=errno,
            ),
            int(port),
        )
        return True

    def _wait(self, text: str, base: dict[str, Any]) -> bool:
        if found := _JOIN.search(text):
            fact = StoreFailure(
                **base,
                kind="join-timeout",
                timeout_ms=int(found[1]) * 1000,
                joined=int(found[2]),
                expected=int(found[3]),
            )
            self._merge(fact, (fact.joined, fact.expected))
        elif found := _WAIT.search(text):
            fact = StoreFailure(
                **base, kind="wait-timeout", key=found[2].rstrip(".,;"), timeout_ms=int(found[1])
            )
            # The socket's warning of the same wait names the address instead of the key.
            self._merge(fact, fact.key, ("socket", fact.timeout_ms))
        elif found := _SLOW_SOCKET.search(text):
            host, port = _remote(text)
            fact = StoreFailure(
                **base, kind="wait-timeout", host=host, port=port, timeout_ms=int(found[1])
            )
            self._merge(fact, ("socket", fact.timeout_ms))
        elif re.search(r"(?:Error|what\(\)): {1,4}Socket Timeout", text):
            self._merge(StoreFailure(**base, kind="wait-timeout"), "Socket Timeout")
        elif "workers but somaxconn is" in text:
            self._drafts.say(WarningLine(**base, topic="somaxconn"), anonymous=True)
        else:
            return False
        return True

    def _closed(self, text: str, base: dict[str, Any]) -> bool:
        dump = _DUMP_KEY.search(text)
        if dump is not None or any(words in text for words in _SHUT_DOWN):
            host, port = _remote(text)
            fact = StoreFailure(
                **base, kind="closed", host=host, port=port, key=dump[1] if dump else None
            )
            self._merge(fact, "closed")
        elif _SOCKET_LOST.search(text):
            host, port = _remote(text)
            peer = None if host is None else f"{host}:{port}"
            self._drafts.say(PeerLost(**base, layer="store", peer=peer))
        else:
            return False
        return True

    def _merge(self, fact: StoreFailure, about: object, or_about: object = None) -> None:
        """One more copy of a failure of that kind about the same thing, or a new one."""
        key = (fact.kind, about)
        keys = [key, (fact.kind, or_about)] if about is not None else [key]
        for one in keys:
            for draft in self._drafts.alike(one, fact.speaker, fact.moment):
                known = draft.fact
                if not isinstance(known, StoreFailure):
                    continue
                draft.copy_seen(fact.speaker)
                draft.change(
                    **{
                        name: getattr(fact, name)
                        for name in ("host", "port", "key", "timeout_ms", "errno")
                        if getattr(known, name) is None and getattr(fact, name) is not None
                    }
                )
                return
        draft = self._drafts.add(fact, key)
        if fact.kind == "bind" and about is not None:
            self._drafts.index(draft, ("bind", None))


def _remote(text: str) -> tuple[str | None, int | None]:
    found = _REMOTE.search(text)
    return (found[1], int(found[2])) if found else (None, None)
