"""A proxy from the environment stands between the trainer and a server on the same host."""

from __future__ import annotations

import json
import os
import socket
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Change, ProgramSpec, Scenario, Waits
from unstall.experiments.scenarios._training import log_step, tiny_model
from unstall.model.text import say

SCENARIO = Scenario(
    name="proxy-in-the-way",
    causes=("driver-stall",),
    title=say("a proxy from the environment swallows requests to localhost"),
    about=say(
        "http_proxy is set and no_proxy is not, so that the driver's request to the reward "
        "server on the same host goes to the proxy, which accepts it and never answers. The "
        "server sees no request."
    ),
    module="proxy_in_the_way",
    programs=(
        ProgramSpec("proxy", "proxy", ranks=1, service=True, own_log=True, stacks=False),
        ProgramSpec("reward", "server", ranks=1, service=True, own_log=True, stacks=False),
        ProgramSpec("trainer", "rank"),
    ),
    changes=(
        Change("no-proxy", say("no_proxy names the hosts that are to be reached directly")),
        Change("request-timeout", say("a request without an answer is given up and sent directly")),
    ),
    fingerprint=(Waits("trainer rank 0", "compute_score"),),
    ranks=1,
    least=1,
    most=1,
    steps=4,
    by=0,
    stall=5.0,
    timeout=1800.0,
)


def be_proxy(lab: Lab) -> None:
    """Accept connections and never answer, as a proxy does whose own network is closed."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    lab.publish("proxy.port", str(listener.getsockname()[1]))
    kept = []
    while True:
        kept.append(listener.accept())


def be_server(lab: Lab) -> None:
    """Score texts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            body = json.dumps({"score": 0.5}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            del format
            address = f"{self.client_address[0]}:{self.client_address[1]}"
            say_line(f'INFO:     {address} - "{args[0]}" {args[1]} OK')

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    say_line("INFO:     Application startup complete.")
    say_line(f"INFO:     Uvicorn running on http://127.0.0.1:{server.server_port}")
    lab.publish("reward.port", str(server.server_port))
    server.serve_forever()


def compute_score(lab: Lab, port: int) -> float:
    """Ask the reward server."""
    url = f"http://127.0.0.1:{port}/score"
    request = urllib.request.Request(url, b"{}", method="POST")
    seconds = 2.0 if lab.changed("request-timeout") else None
    opener = urllib.request.build_opener()
    try:
        with opener.open(request, timeout=seconds) as answer:
            return float(json.loads(answer.read())["score"])
    except TimeoutError:
        say_line("reward request timed out, sending it directly")
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(url, data=b"{}") as answer:
            return float(json.loads(answer.read())["score"])


def main(lab: Lab) -> None:
    """Be the proxy, the server, or a rank of the trainer."""
    if lab.role == "proxy":
        be_proxy(lab)
    if lab.role == "server":
        be_server(lab)
    torch = lab.torch()
    dist = lab.join()
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        os.environ.pop(name, None)
    if lab.settings.fault:
        os.environ["http_proxy"] = f"http://127.0.0.1:{lab.await_file('proxy.port')}"
        if lab.rank == 0:
            say_line(f"http_proxy={os.environ['http_proxy']}")
    if lab.changed("no-proxy"):
        os.environ["no_proxy"] = "localhost,127.0.0.1"
    port = int(lab.await_file("reward.port"))
    model = torch.nn.parallel.DistributedDataParallel(tiny_model(torch))
    for step in range(1, lab.settings.steps + 1):
        reward = torch.zeros(1)
        if lab.rank == 0:
            say_line("Computing rewards")
            reward += compute_score(lab, port)
        dist.broadcast(reward, src=0)
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        log_step(lab, step, loss.item(), reward=float(reward))
        time.sleep(0.01)
    lab.leave(dist)
