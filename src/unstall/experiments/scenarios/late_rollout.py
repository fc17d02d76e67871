"""The rollout server generates for longer than the trainer's process group waits."""

from __future__ import annotations

import json
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenario import Apart, Change, ProgramSpec, Scenario, Waits
from unstall.experiments.scenarios._training import log_step, tiny_model
from unstall.model.text import say

SCENARIO = Scenario(
    name="slow-rollout",
    causes=("slow-rollout",),
    title=say("a rollout server generates for longer than the trainer's group waits"),
    about=say(
        "Rank 0 waits for the rollout server's answer, the other ranks wait for rank 0 in a "
        "broadcast. One long completion takes longer than the group's time-out; the server "
        "works all the while."
    ),
    module="late_rollout",
    programs=(
        ProgramSpec("rollout", "server", ranks=1, service=True, own_log=True, stacks=False),
        ProgramSpec("trainer", "rank"),
    ),
    changes=(
        Change("longer-timeout", say("a time-out of the trainer's group that covers a rollout")),
        Change("shorter-completions", say("a limit for the length of a completion")),
    ),
    fingerprint=(
        Waits("trainer rank 0", "generate_completions"),
        Waits("trainer rank 1", "broadcast"),
        Waits("rollout", "decode"),
        Apart("default_pg", ((0, 0), (1, 0)), "broadcast"),
    ),
    expect="failure",
    ranks=3,
    steps=4,
    by=2,
    gather=2.0,
    stall=40.0,
    timeout=6.0,
    sizes={"times": 1.6},
    size_texts={"times": say("how long the long completion takes, in time-outs of the group")},
)


def decode(torch: Any, seconds: float, requests: int) -> int:
    """Generate tokens; prints statistics as vLLM does."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    begun = told = time.monotonic()
    tokens = since = 0
    with torch.no_grad():
        state = torch.randn(requests, 64)
        while time.monotonic() - begun < seconds:
            state = torch.tanh(model(state))
            tokens += requests
            since += requests
            if time.monotonic() - told > 1.0:
                clock = time.strftime("%m-%d %H:%M:%S")
                rate = since / (time.monotonic() - told)
                say_line(
                    f"INFO {clock} [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 "
                    f"tokens/s, Avg generation throughput: {rate:.1f} tokens/s, Running: "
                    f"{requests} reqs, Waiting: 0 reqs, GPU KV cache usage: 41.3%, Prefix cache "
                    "hit rate: 0.0%"
                )
                told, since = time.monotonic(), 0
    return tokens


def serve(lab: Lab) -> None:
    """Answer requests for completions, one at a time."""
    torch = lab.torch()
    calls = [0]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            calls[0] += 1
            long = calls[0] == 2 and lab.settings.fault
            long = long and not lab.changed("shorter-completions")
            seconds = lab.timeouts(lab.size("times")) if long else 0.05
            body = json.dumps({"tokens": decode(torch, seconds, 8)}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            del format
            address = f"{self.client_address[0]}:{self.client_address[1]}"
            say_line(f'INFO:     {address} - "{args[0]}" {args[1]} OK')

    server = HTTPServer(("127.0.0.1", 0), Handler)
    say_line("INFO:     Application startup complete.")
    say_line(f"INFO:     Uvicorn running on http://127.0.0.1:{server.server_port}")
    lab.publish("rollout.port", str(server.server_port))
    server.serve_forever()


def generate_completions(port: int) -> int:
    """Ask the server for completions."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/generate", b"{}", method="POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request) as answer:
        return int(json.loads(answer.read())["tokens"])


def main(lab: Lab) -> None:
    """Serve, or train on what the server generates."""
    if lab.role == "server":
        serve(lab)
        return
    torch = lab.torch()
    dist = lab.join(lab.timeouts(10 if lab.changed("longer-timeout") else 1))
    model = torch.nn.parallel.DistributedDataParallel(tiny_model(torch))
    optimizer = torch.optim.AdamW(model.parameters())
    port = int(lab.await_file("rollout.port")) if lab.rank == 0 else 0
    if lab.rank == 0:
        say_line("INFO:trl.extras.vllm_client:Server is up!")
    for step in range(1, lab.settings.steps + 1):
        count = torch.zeros(1)
        if lab.rank == 0:
            say_line("Generating completions with the rollout server")
            count += generate_completions(port)
        dist.broadcast(count, src=0)
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        log_step(lab, step, loss.item(), reward=float(count) / 1e6)
    lab.leave(dist)
