"""Trainer and server disagree on how many tensors the weight exchange has."""

from __future__ import annotations

import json
import os
import sys
import threading
import urllib.request
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from unstall.experiments.child import Lab, distributed, say_line
from unstall.experiments.scenario import Change, ProgramSpec, Scenario, Waits
from unstall.experiments.scenarios._training import log_step, tiny_model
from unstall.model.text import say

SCENARIO = Scenario(
    name="weight-exchange",
    causes=("weight-sync-failure",),
    title=say("trainer and server are in different tensors of the weight exchange"),
    about=say(
        "The trainer hands its weights over tensor by tensor. From the third update on the "
        "server leaves out the output head, which it takes for tied to the embedding; the "
        "trainer still sends it and waits for a server that is back in its loop."
    ),
    module="weight_exchange",
    programs=(
        ProgramSpec("rollout", "server", ranks=1, service=True, own_log=True),
        ProgramSpec("trainer", "rank", ranks=1),
    ),
    changes=(
        Change("same-list", say("the server takes the list of tensors from the trainer's request")),
        Change("one-buffer", say("all weights are handed over in one buffer of agreed size")),
    ),
    fingerprint=(
        Waits("trainer", "update_weights"),
        Waits("rollout", "worker_busy_loop"),
    ),
    ranks=1,
    least=1,
    most=1,
    steps=6,
    by=3,
    stall=5.0,
    timeout=1800.0,
)


class Exchange:
    """The process group of a weight exchange, trainer first."""

    def __init__(self, lab: Lab, rank: int) -> None:
        dist = distributed()
        wait = timedelta(seconds=lab.settings.timeout)
        if rank == 0:
            self.store = dist.TCPStore("127.0.0.1", 0, 2, True, wait, wait_for_workers=False)
            lab.publish("exchange.port", str(self.store.port))
        else:
            port = int(lab.await_file("exchange.port"))
            self.store = dist.TCPStore("127.0.0.1", port, 2, False, wait, wait_for_workers=False)
        self.group = dist.ProcessGroupGloo(self.store, rank, 2, wait)

    def broadcast(self, tensor: Any) -> None:
        """The trainer's tensor to the server."""
        self.group.broadcast(tensor, 0).wait()


class WorkerProc:
    """Takes weights in a thread of its own; answers at once, and says when it has them."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        torch = lab.torch()
        self.parameters = [p.detach() for p in tiny_model(torch).parameters()]
        self.exchange = Exchange(lab, 1)
        self.idle = threading.Event()
        self.idle.set()
        self.calls: list[list[int] | None] = []
        self.wake = threading.Semaphore(0)
        self.updates = 0

    def update_weights_from_trainer(self, wanted: list[int] | None) -> None:
        """Receive tensors, by the trainer's list or by the own one."""
        import torch

        if self.lab.changed("one-buffer"):
            self.exchange.broadcast(torch.cat([p.flatten() for p in self.parameters]))
        else:
            self.updates += 1
            numbers = list(range(len(self.parameters)))
            if self.lab.settings.fault and self.updates >= 3:
                numbers.pop()  # the output head, taken for tied
            for number in wanted if wanted is not None else numbers:
                self.exchange.broadcast(self.parameters[number])
        say_line(f"INFO [worker.py:88] Weights updated: {len(self.parameters)} tensors")
        self.idle.set()

    def worker_busy_loop(self) -> None:
        """Main thread: receive whenever asked to."""
        while True:
            self.wake.acquire()
            self.update_weights_from_trainer(self.calls.pop(0))


def serve(lab: Lab) -> None:
    """Answer HTTP in a thread, receive weights in the main thread."""
    holder = WorkerProc(lab)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
            if self.path == "/update_weights/":
                holder.idle.clear()
                holder.calls.append(given.get("tensors"))
                holder.wake.release()
            else:
                holder.idle.wait()
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            del format
            address = f"{self.client_address[0]}:{self.client_address[1]}"
            say_line(f'INFO:     {address} - "{args[0]}" {args[1]} OK')

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    say_line(f"INFO:     Uvicorn running on http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    lab.publish("rollout.port", str(server.server_port))
    holder.worker_busy_loop()


def call(port: int, path: str, content: dict[str, Any]) -> None:
    """Ask the server for something."""
    data = json.dumps(content).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, method="POST")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        answer.read()


def update_weights(lab: Lab, exchange: Exchange, port: int, model: Any) -> None:
    """Hand the weights over, then wait until the server has them."""
    import torch

    parameters = [p.detach() for p in model.parameters()]
    numbers = list(range(len(parameters)))
    same = lab.changed("same-list")
    say_line("Updating weights of the rollout server")
    call(port, "/update_weights/", {"tensors": numbers} if same else {})
    if lab.changed("one-buffer"):
        exchange.broadcast(torch.cat([p.flatten() for p in parameters]))
    else:
        for number in numbers:
            exchange.broadcast(parameters[number])
    call(port, "/wait_until_updated/", {})


def main(lab: Lab) -> None:
    """Be the server or the trainer."""
    if lab.role == "server":
        serve(lab)
        return
    torch = lab.torch()
    exchange = Exchange(lab, 0)
    port = int(lab.await_file("rollout.port"))
    model = tiny_model(torch)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(1, lab.settings.steps + 1):
        update_weights(lab, exchange, port, model)
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        log_step(lab, step, loss.item())
    sys.stdout.flush()
    os._exit(0)  # without destructors of the exchange's group
