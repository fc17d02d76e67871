"""The trainer's way to the rollout server."""

from __future__ import annotations

import http.client
import json
from datetime import timedelta
from typing import Any

from unstall.experiments.child import distributed


class VLLMClient:
    """HTTP for requests, a process group of its own for weights."""

    def __init__(self, port: int, seconds: float) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.seconds = seconds
        self.exchange: Any = None
        self.store: Any = None

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        body = json.dumps(content).encode() if content is not None else None
        self.connection.request(method, path, body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise RuntimeError(f"Request failed: {response.status}, {text[:200]!r}")
        return json.loads(text)

    def init_communicator(self) -> None:
        """Make the group in which rank 0 of the trainer hands its weights to the engines."""
        self._call("GET", "/health/")
        world = self._call("GET", "/get_world_size/")["world_size"] + 1
        wait = timedelta(seconds=self.seconds)
        self.store = distributed().TCPStore(
            "127.0.0.1", 0, world, True, wait, wait_for_workers=False
        )
        self._call(
            "POST",
            "/init_communicator/",
            {"port": self.store.port, "world_size": world, "timeout": self.seconds},
        )
        self.exchange = distributed().ProcessGroupGloo(self.store, 0, world, wait)

    def update_flattened_params(self, vector: Any) -> None:
        """Hand the weights over."""
        self._call("POST", "/update_flattened_params/", {})
        self.exchange.broadcast(vector, 0).wait()

    def infer(self, prompts: list[int]) -> list[Any]:
        """Completions: for each prompt tokens, log-probabilities and the image's colour."""
        answer: list[Any] = self._call("POST", "/infer/", {"prompts": prompts})
        return answer
