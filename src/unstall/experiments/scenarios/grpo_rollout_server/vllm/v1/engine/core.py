"""Engine cores: a busy loop that steps while anyone has requests.

The offline data-parallel mode of vLLM 0.11 (``vllm/v1/engine/core.py``: ``DPEngineCoreProc``): no
coordinator; every 32 steps the engines agree by an all-reduce whether one of them has unfinished
requests. Only requests that have reached the scheduler count.
"""

from __future__ import annotations

import queue
import threading
from multiprocessing.connection import Connection
from typing import Any

from unstall.experiments.child import die_with_parent, set_title
from unstall.experiments.scenarios.grpo_rollout_server.vllm.model_runner import ModelRunner, Request
from unstall.experiments.scenarios.grpo_rollout_server.vllm.parallel_state import any_of

#: Steps between two votes (vLLM 0.8 to 0.13).
STEPS_BETWEEN_VOTES = 32


class EngineCoreProc:
    """One engine in a process of its own, with a thread that takes requests in."""

    def __init__(self, runner: ModelRunner, connection: Connection) -> None:
        self.runner = runner
        self.connection = connection
        self.held = False
        self.requests: dict[str, Request] = {}
        self.input_queue: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.engines_running = False
        threading.Thread(target=self.process_input_sockets, daemon=True).start()

    def process_input_sockets(self) -> None:
        """Move what the front end sends into the queue."""
        while True:
            try:
                self.input_queue.put(self.connection.recv())
            except (EOFError, OSError):
                self.input_queue.put(("shutdown", None))
                return

    def _process_input_queue(self) -> None:
        """Take new requests in; wait for one where there is nothing to do."""
        while not self.requests and not self.engines_running and not self.held:
            self._handle_client_request(*self.input_queue.get())
        while not self.input_queue.empty():
            self._handle_client_request(*self.input_queue.get_nowait())

    def _handle_client_request(self, kind: str, payload: Any) -> None:
        if kind == "add":
            for one in payload:
                request = Request(*one)
                self.requests[request.request_id] = request
        elif kind in ("hold", "release"):
            self.held = kind == "hold"
            if self.held:
                self.connection.send((kind, None))
        elif kind == "running":
            self.connection.send((kind, self.engines_running))
        elif kind == "utility":
            name, arguments = payload
            self.connection.send(("utility", getattr(self.runner, name)(*arguments)))
        else:
            raise SystemExit(0)

    def _process_engine_step(self) -> bool:
        """One step with requests, if there are any; their outputs go to the front end."""
        if not self.requests:
            return False
        for request in self.runner.execute_model(list(self.requests.values())):
            del self.requests[request.request_id]
            self.connection.send(
                ("finished", (request.request_id, request.tokens, request.logprobs))
            )
        return True

    def run_busy_loop(self) -> None:
        """Step while there are requests."""
        while True:
            self._process_input_queue()
            self._process_engine_step()

    @staticmethod
    def run_engine_core(core: EngineCoreProc) -> None:
        """Run until the front end goes."""
        core.run_busy_loop()


class DPEngineCoreProc(EngineCoreProc):
    """An engine that steps together with others."""

    def __init__(self, runner: ModelRunner, connection: Connection, vote: Any) -> None:
        self.vote = vote
        self.step_counter = 0
        super().__init__(runner, connection)

    def run_busy_loop(self) -> None:
        """Step while any engine has requests; without own ones, dummy steps."""
        while True:
            self._process_input_queue()
            executed = self._process_engine_step()
            unfinished = bool(self.requests) or self.held
            if not executed:
                if not unfinished and not self.engines_running:
                    continue
                self.runner.execute_dummy_batch()
            self.engines_running = self._has_global_unfinished_reqs(unfinished)

    def _has_global_unfinished_reqs(self, local_unfinished: bool) -> bool:
        """Every 32 steps: whether any engine has unfinished requests; in between: yes."""
        self.step_counter += 1
        if self.step_counter % STEPS_BETWEEN_VOTES:
            return True
        return any_of(self.vote, local_unfinished)


def engine_process(lab: Any, dp_rank: int, connection: Connection) -> None:
    """Main of an engine's process."""
    from datetime import timedelta

    from unstall.experiments.child import say_line
    from unstall.experiments.scenarios.grpo_rollout_server.vllm import parallel_state

    die_with_parent()
    world = int(lab.size("engines"))
    together = world > 1 and not lab.changed("independent-engines")
    set_title(f"VLLM::EngineCore_DP{dp_rank}" if together else "VLLM::EngineCore")
    torch = lab.torch()
    torch.manual_seed(lab.settings.seed * 1000 + 500 + dp_rank)
    size = world if together else 1
    say_line(
        f"(EngineCore_DP{dp_rank} pid={_pid()}) INFO {_clock()} [core.py:77] Initializing a V1 LLM "
        "engine (v0.11.0) with config: model='tiny', dtype=torch.float32, max_seq_len="
        f"{int(lab.size('tokens')) + 2}, tensor_parallel_size=1, pipeline_parallel_size=1, "
        f"data_parallel_size={size}"
    )
    if not together:
        alone = ModelRunner(torch, dp_rank, 1, None)
        alone.profile_run()
        EngineCoreProc.run_engine_core(EngineCoreProc(alone, connection))
        return
    import torch.distributed as dist

    timeout = timedelta(seconds=lab.settings.timeout * 6)
    store = lab.store("engines", dp_rank, world)
    dist.init_process_group("gloo", store=store, rank=dp_rank, world_size=world, timeout=timeout)
    lab.dump_on_request(dp_rank)
    group = parallel_state.initialize_model_parallel(dist, world, timeout)
    vote = parallel_state.stateless_vote_group(store, dp_rank, world, timeout)
    say_line(
        f"(EngineCore_DP{dp_rank} pid={_pid()}) INFO {_clock()} [parallel_state.py:1208] rank "
        f"{dp_rank} in world size {world} is assigned as DP rank {dp_rank}, PP rank 0, TP rank 0, "
        "EP rank 0"
    )
    runner = ModelRunner(torch, dp_rank, world, group)
    runner.profile_run()
    EngineCoreProc.run_engine_core(DPEngineCoreProc(runner, connection, vote))


def _pid() -> int:
    import os

    return os.getpid()


def _clock() -> str:
    import time

    return time.strftime("%m-%d %H:%M:%S")
