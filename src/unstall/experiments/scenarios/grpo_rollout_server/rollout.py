"""The rollout server: HTTP in front, one front end with its engine for each data-parallel rank."""

from __future__ import annotations

import json
import multiprocessing
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any

from unstall.experiments.child import Lab, say_line
from unstall.experiments.scenarios.grpo_rollout_server import images
from unstall.experiments.scenarios.grpo_rollout_server.frontend import llm_worker

#: Images in the data set: enough for every colour to be seen in several sizes.
IMAGES = 40


class Rollout:
    """The front ends, and what was sent to them without waiting for the answer."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.lock = threading.Lock()
        self.unanswered = 0
        self.connections: list[Connection] = []
        self.processes: list[Any] = []
        context = multiprocessing.get_context("fork")
        for dp_rank in range(int(lab.size("engines"))):
            ours, theirs = context.Pipe()
            process = context.Process(target=llm_worker, args=(lab, dp_rank, theirs))
            process.start()
            theirs.close()
            self.connections.append(ours)
            self.processes.append(process)
        for connection in self.connections:
            connection.recv()

    def send(self, command: str, arguments: list[tuple[Any, ...]]) -> None:
        """Give every front end a command."""
        for connection, own in zip(self.connections, arguments, strict=True):
            connection.send((command, own))

    def collect(self) -> None:
        """Take the answers that nobody waited for."""
        while self.unanswered:
            for connection in self.connections:
                connection.recv()
            self.unanswered -= 1

    def infer(self, prompts: list[int]) -> list[Any]:
        """Complete prompts, evenly over the front ends; the order is kept."""
        with self.lock:
            self.collect()
            count = len(self.connections)
            size = -(-len(prompts) // count)
            chunks = [(prompts[i * size : (i + 1) * size],) for i in range(count)]
            if self.lab.changed("hold-wave-open"):
                self.all("hold", [()] * count)
            if self.lab.changed("preprocess-first") or self.lab.settings.control:
                self.all("prepare", chunks)
                self.all("settle", [()] * count)
            return [one for answer in self.all("infer", chunks) for one in answer]

    def all(self, command: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """Give every front end a command and await every answer."""
        self.send(command, arguments)
        return [connection.recv() for connection in self.connections]

    def tell(self, command: str, arguments: list[tuple[Any, ...]]) -> None:
        """Send a command whose answers are collected before the next one."""
        with self.lock:
            self.collect()
            self.send(command, arguments)
            self.unanswered += 1


def serve(lab: Lab) -> None:
    """Start the engines, then listen on a port that the system gives."""
    folder = lab.folder / "images"
    folder.mkdir()
    kilopixels = lab.size("kilopixels") if lab.settings.fault else 0.2
    images.make_data_set(folder, IMAGES, kilopixels, lab.size("spread"), lab.settings.seed)
    rollout = Rollout(lab)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(rollout))
    server.daemon_threads = True
    say_line(f"INFO:     Started server process [{multiprocessing.current_process().pid}]")
    say_line("INFO:     Application startup complete.")
    say_line(
        f"INFO:     Uvicorn running on http://127.0.0.1:{server.server_port} (Press CTRL+C to quit)"
    )
    lab.publish("rollout.port", str(server.server_port))
    server.serve_forever()


def handler(rollout: Rollout) -> type[BaseHTTPRequestHandler]:
    """The HTTP handler of a server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = 1 << 16

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            del size
            status = int(code)
            words = "OK" if status == 200 else "Internal Server Error"
            address = f"{self.client_address[0]}:{self.client_address[1]}"
            say_line(
                f'INFO:     {address} - "{self.command} {self.path} HTTP/1.1" {status} {words}'
            )

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given
            del format, args

        def answer(self, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def do_GET(self) -> None:
            if self.path == "/get_world_size/":
                self.answer({"world_size": len(rollout.connections)})
            else:
                self.answer({"status": "ok"})

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            given = json.loads(self.rfile.read(length) or b"{}")
            if self.path == "/infer/":
                self.answer(rollout.infer(given["prompts"]))
                return
            count = len(rollout.connections)
            if self.path == "/init_communicator/":
                world, port = given["world_size"], given["port"]
                own = [(port, i + 1, world, given["timeout"]) for i in range(count)]
                rollout.tell("init_communicator", own)
            elif self.path == "/update_flattened_params/":
                rollout.tell("update_flattened_params", [()] * count)
            self.answer({"message": "Request received"})

    return Handler
