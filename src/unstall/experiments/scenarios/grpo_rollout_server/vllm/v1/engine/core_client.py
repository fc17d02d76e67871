"""A front end's way to its engine: in another process, or in its own."""

from __future__ import annotations

import multiprocessing
import queue
import threading
from typing import Any

from unstall.experiments.scenarios.grpo_rollout_server.vllm.model_runner import ModelRunner, Request
from unstall.experiments.scenarios.grpo_rollout_server.vllm.parallel_state import any_of
from unstall.experiments.scenarios.grpo_rollout_server.vllm.v1.engine.core import engine_process

Submitted = tuple[str, list[int], int]
Output = tuple[str, list[int], list[float]]


class SyncMPClient:
    """The engine runs in a process of its own and steps by itself."""

    def __init__(self, lab: Any, dp_rank: int) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=engine_process, args=(lab, dp_rank, theirs))
        self.process.start()
        theirs.close()
        self.outputs_queue: queue.Queue[tuple[str, Any]] = queue.Queue()
        threading.Thread(
            target=self.process_outputs_socket, daemon=True, name="EngineCoreOutputQueueThread"
        ).start()

    def process_outputs_socket(self) -> None:
        """Move what the engine sends into the queue."""
        while True:
            try:
                self.outputs_queue.put(self.connection.recv())
            except (EOFError, OSError):
                self.outputs_queue.put(("dead", None))
                return

    def hold(self) -> None:
        """Let the engine count as unfinished until :meth:`release`; it has heard of it."""
        self._ask("hold")

    def release(self) -> None:
        """Everything of this call has been submitted."""
        self.connection.send(("release", None))

    def running(self) -> bool:
        """Whether the engine is in a wave."""
        return bool(self._ask("running"))

    def add_requests(self, requests: list[Submitted]) -> None:
        """Submit requests in one message; the engine may begin at once."""
        self.connection.send(("add", requests))

    def get_output(self) -> list[Output]:
        """Wait for a finished request.

        Raises:
            RuntimeError: the engine is dead.
        """
        kind, payload = self.outputs_queue.get()
        if kind == "dead":
            raise RuntimeError("EngineCore encountered an issue. See stack trace for the cause.")
        return [payload]

    def call_utility(self, name: str, *arguments: Any) -> Any:
        """Let the engine call one of its runner's methods."""
        return self._ask("utility", (name, arguments))

    def _ask(self, what: str, payload: Any = None) -> Any:
        self.connection.send((what, payload))
        kind, payload = self.outputs_queue.get()
        if kind == "dead":
            raise RuntimeError("EngineCore encountered an issue. See stack trace for the cause.")
        return payload


class InprocClient:
    """The engine is an object of the front end: it steps only when the front end asks for output.

    Engines then agree before each step, not every 32 (``LLMEngine.has_unfinished_requests_dp``).
    """

    def __init__(self, runner: ModelRunner, vote: Any) -> None:
        self.runner = runner
        self.vote = vote
        self.requests: dict[str, Request] = {}

    def hold(self) -> None:
        """Nothing to hold: no step runs while requests are submitted."""

    def release(self) -> None:
        """Nothing was held."""

    def running(self) -> bool:
        """No step runs by itself."""
        return False

    def add_requests(self, requests: list[Submitted]) -> None:
        """Put requests into the scheduler."""
        for request in requests:
            self.requests[request[0]] = Request(*request)

    def get_output(self) -> list[Output]:
        """One step together with the others."""
        if self.requests:
            finished = self.runner.execute_model(list(self.requests.values()))
        else:
            finished = []
            self.runner.execute_dummy_batch()
        for request in finished:
            del self.requests[request.request_id]
        return [(one.request_id, one.tokens, one.logprobs) for one in finished]

    def has_unfinished_requests_dp(self) -> bool:
        """Whether any engine has unfinished requests."""
        return any_of(self.vote, bool(self.requests))

    def call_utility(self, name: str, *arguments: Any) -> Any:
        """Call one of the runner's methods."""
        return getattr(self.runner, name)(*arguments)
