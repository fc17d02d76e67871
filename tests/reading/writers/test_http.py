# ruff: noqa: E501 (log lines stand as they were written)
from __future__ import annotations

import pytest

from unstall.reading.writers.http import HttpExchanges


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            'INFO:     127.0.0.1:50122 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
            ("POST", "/v1/chat/completions", 200, None),
        ),
        (
            'INFO:httpx:HTTP Request: POST http://h:8000/infer/ "HTTP/1.1 500 Internal Server Error"',
            ("POST", "http://h:8000/infer/", 500, None),
        ),
        (
            'DEBUG:urllib3.connectionpool:http://localhost:8000 "GET /health/ HTTP/1.1" 503 None',
            ("GET", "/health/", 503, None),
        ),
        (
            "requests.exceptions.ConnectionError: HTTPConnectionPool(host='localhost', port=8000):"
            " Max retries exceeded with url: /health (Caused by NewConnectionError('x: Failed to"
            " establish a new connection: [Errno 111] Connection refused'))",
            ("", "http://localhost:8000/health", None, "refused"),
        ),
        (
            "requests.exceptions.ReadTimeout: HTTPConnectionPool(host='10.0.0.2', port=8000): Read"
            " timed out. (read timeout=300)",
            ("", "http://10.0.0.2:8000", None, "timeout"),
        ),
        (
            "requests.exceptions.ProxyError: HTTPConnectionPool(host='p', port=3128): Max retries"
            " exceeded with url: http://10.0.0.2:8000/x",
            ("", "http://p:3128http://10.0.0.2:8000/x", None, "proxy"),
        ),
        (
            "('Connection aborted.', RemoteDisconnected('Remote end closed connection'))",
            ("", "", None, "reset"),
        ),
        (
            "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 10.1.1.1:8000"
            " ssl:default [Connect call failed ('10.1.1.1', 8000)]",
            ("", "http://10.1.1.1:8000", None, "refused"),
        ),
        (
            "2025-03-26 05:53:13 - INFO - trl.extras.vllm_client - Server is not up yet. Retrying in"
            " 2.0 seconds...",
            ("", "", None, "refused"),
        ),
        (
            "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url:"
            " http://h:9/gen",
            ("", "http://h:9/gen", 503, None),
        ),
        ("httpx.ReadTimeout", ("", "", None, "timeout")),
        ("openai.APITimeoutError: Request timed out.", ("", "", None, "timeout")),
    ],
)
def test_exchanges(read, line, expected):
    (fact,) = read(HttpExchanges, line + "\n")
    assert (fact.method, fact.url, fact.status, fact.error) == expected


def test_nccls_own_words_are_no_exchange(read):
    text = "NCCL WARN socketPollConnect: Connection refused\nWatchdog caught operation timeout\n"
    assert read(HttpExchanges, text) == []
