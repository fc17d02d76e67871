"""HTTP between programs of one job: access logs of servers, failures of clients.

Sources: uvicorn's access log, httpx and urllib3's debug lines, the exceptions of requests, urllib3,
aiohttp, httpx and openai, TRL's ``extras/vllm_client.py`` (0.16 to 0.24).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unstall.model.facts import Fact, HttpExchange
from unstall.reading.line import Line
from unstall.reading.writers.lines import Pattern, Sentences, Thinned, common, small_int

_URL = re.compile(r"https?://[^\s'\"()<>,]{1,300}")
_POOL = re.compile(r"HTTPS?ConnectionPool\(host='([^']{1,200})', port=(\d{1,5})\)", re.ASCII)
_PATH = re.compile(r"with url: (/?\S{0,300})")
_HOST = re.compile(r"connect to host ([\w.:-]{1,200}?)(?::(\d{1,5}))? ssl", re.ASCII)


def _answered(line: Line, found: re.Match[str]) -> Fact | None:
    return HttpExchange(
        **common(line), method=found["method"], url=found["url"], status=small_int(found["status"])
    )


def _failed(line: Line, found: re.Match[str]) -> Fact | None:
    url = _URL.search(line.text, found.start())
    return HttpExchange(
        **common(line),
        status=int(found["status"] or found["other"]),
        url=url[0].rstrip(".") if url else "",
    )


def _failure(error: str, marks: str, regex: str) -> Pattern:
    def make(line: Line, _: re.Match[str]) -> Fact | None:
        return HttpExchange(**common(line), error=error, url=_address(line.text[:4096]))

    return Pattern(marks, re.compile(regex, re.ASCII), make)


def _address(text: str) -> str:
    """The address that a client's complaint names."""
    if (found := _POOL.search(text)) is not None:
        path = _PATH.search(text)
        return f"http://{found[1]}:{found[2]}{path[1].rstrip(')') if path else ''}"
    if (found := _HOST.search(text)) is not None:
        return f"http://{found[1]}" + (f":{found[2]}" if found[2] else "")
    found = _URL.search(text)
    return found[0].rstrip(".:;") if found is not None else ""


class HttpExchanges(Sentences):
    """Requests that were answered, and requests that were not."""

    patterns = (
        Pattern(
            " HTTP/1.|HTTP/2",
            re.compile(
                r"\"(?P<method>[A-Z]{3,7}) (?P<url>/\S{0,300}) HTTP/[\d.]{1,3}\""
                r" (?P<status>\d{3})\b",
                re.ASCII,
            ),
            _answered,
        ),
        Pattern(
            "HTTP Request: ",
            re.compile(
                r"HTTP Request: (?P<method>[A-Z]{3,7}) (?P<url>\S{1,300})"
                r" \"HTTP/[\d.]{1,3} (?P<status>\d{3})",
                re.ASCII,
            ),
            _answered,
        ),
        _failure(
            "proxy",
            "ProxyError|roxy",
            r"ProxyError|Cannot connect to proxy|Unable to connect to proxy"
            r"|Tunnel connection failed|proxy.{0,20}(?:refused|timed out)",
        ),
        _failure(
            "timeout",
            "imed out|imeout",
            r"\bReadTimeout(?:Error)?\b|\bConnectTimeout(?:Error)?\b|Read timed out"
            r"|ServerTimeoutError|APITimeoutError|SocketTimeoutError"
            r"|requests\.exceptions\.Timeout|httpx\.\w{0,12}Timeout",
        ),
        _failure(
            "refused",
            "refused|Cannot connect to host|ConnectError|not up yet|be reached at"
            "|NewConnectionError|APIConnectionError|Failed to connect to",
            r"(?:NewConnectionError|HTTPConnectionPool|Connect call failed|urlopen error|"
            r"ClientConnectorError|ConnectError|curl: \(7\)).{0,400}|Server is not up yet"
            r"|vLLM server can't be reached|Cannot connect to host|APIConnectionError"
            r"|All connection attempts failed",
        ),
        _failure(
            "reset",
            "RemoteDisconnected|reset by peer|erver disconnected|ServerDisconnectedError"
            "|IncompleteRead|RemoteProtocolError|Connection aborted",
            r"RemoteDisconnected|ServerDisconnectedError|[Ss]erver disconnected|IncompleteRead"
            r"|RemoteProtocolError|Connection aborted"
            r"|(?:ConnectionResetError|ClientOSError).{0,80}reset by peer",
        ),
        Pattern(
            "Server Error|Client Error|erver error|Bad Gateway|Gateway Time|Service Unavailable"
            "|Request failed: ",
            re.compile(
                r"(?P<status>[45]\d\d) (?:Server Error|Client Error|Bad Gateway|Gateway Time-?out"
                r"|Service Unavailable|Internal Server Error)|Request failed: (?P<other>[45]\d\d)",
                re.ASCII,
            ),
            _failed,
        ),
    )

    def __init__(self) -> None:
        self._thin = Thinned()

    def feed(self, line: Line) -> Iterable[Fact]:
        """The exchange that the line tells of."""
        facts: list[Fact] = []
        for fact in super().feed(line):
            if isinstance(fact, HttpExchange):
                key = (line.speaker, fact.method, fact.url, fact.status, fact.error)
                facts += self._thin.pass_on(key, fact)
        return facts

    def finish(self) -> Iterable[Fact]:
        """The last exchange of each kind, where there had been too many."""
        return self._thin.rest()
