"""A front end of the rollout server: prepares and submits requests, collects what is finished.

One process for each data-parallel rank, as ms-swift's ``llm_worker`` with the synchronous engine.
"""

from __future__ import annotations

import time
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from unstall.experiments.child import Lab, die_with_parent, say_line, set_title
from unstall.experiments.scenarios.grpo_rollout_server import images, policy
from unstall.experiments.scenarios.grpo_rollout_server.vllm.v1.engine import core_client

Completion = tuple[list[int], list[float], int]


class FrontEnd:
    """One engine and the requests of one call."""

    def __init__(self, lab: Lab, dp_rank: int) -> None:
        self.lab = lab
        self.dp_rank = dp_rank
        self.torch = lab.torch()
        self.cache: dict[int, int] = {}
        self.inproc: core_client.InprocClient | None = None
        self.client: core_client.InprocClient | core_client.SyncMPClient
        if lab.changed("in-process") and lab.size("engines") > 1:
            self.client = self.inproc = _in_process(lab, dp_rank, self.torch)
        else:
            self.client = core_client.SyncMPClient(lab, dp_rank)

    def colour_of(self, image: int) -> int:
        """Prepare an image once in a call; its completions share it."""
        if image not in self.cache:
            path = Path(self.lab.folder) / "images" / f"{image}.img"
            self.cache[image] = images.prepare(self.torch, path)
        return self.cache[image]

    def request(self, number: int, image: int) -> tuple[str, list[int], int]:
        """One request, with its image prepared."""
        colour = self.colour_of(image)
        tokens = int(self.lab.size("tokens"))
        if self.lab.settings.control == "uneven-lengths":
            tokens = 2 if self.dp_rank else 120
        prompt = [policy.START, policy.FIRST_COLOUR + colour]
        return f"{number}", prompt, tokens

    # --- commands of the server -------------------------------------------------------------------

    def settle(self) -> None:
        """Wait until the wave before has ended.

        A wave runs on until the next vote. A call that comes meanwhile may be answered by one
        engine, and the wave may end, before a late front end has submitted anything: then that
        one begins a wave alone, whatever it did between its requests.
        """
        while self.client.running():
            time.sleep(0.002)

    def hold(self) -> None:
        """Hold the wave open until this front end has submitted all; the engine has heard of it."""
        self.client.hold()

    def prepare(self, prompts: list[int]) -> None:
        """Prepare everything that will be submitted."""
        self.cache.clear()
        for image in prompts:
            self.colour_of(image)

    def infer(self, prompts: list[int]) -> list[Completion]:
        """Complete prompts: submit all of them, then collect."""
        if self.lab.settings.control == "delay-before-first" and self.dp_rank == 0:
            time.sleep(0.3)
        if self.lab.changed("preprocess-first"):
            self.client.add_requests([self.request(*one) for one in enumerate(prompts)])
        else:
            for number, image in enumerate(prompts):
                self.client.add_requests([self.request(number, image)])
        if self.lab.changed("hold-wave-open"):
            self.client.release()
        bar(0, len(prompts), 0.0)
        begun = time.monotonic()
        done: dict[str, tuple[list[int], list[float]]] = {}
        while self.has_unfinished(len(prompts) - len(done)):
            for name, tokens, logprobs in self.client.get_output():
                done[name] = (tokens, logprobs)
        bar(len(prompts), len(prompts), time.monotonic() - begun)
        answer = [(*done[str(n)], self.colour_of(image)) for n, image in enumerate(prompts)]
        self.cache.clear()
        return answer

    def has_unfinished(self, own: int) -> bool:
        """Whether to go on collecting; an engine in this process asks all engines."""
        if self.inproc is not None:
            return self.inproc.has_unfinished_requests_dp()
        return own > 0


def bar(done: int, total: int, seconds: float) -> None:
    """A state of a progress bar, as tqdm prints it."""
    share = done / total
    full = "█" * int(10 * share)
    rate = f"{done / seconds:.2f}it/s" if done and seconds > 0 else "?it/s"
    left = "00:00" if done else "?"
    say_line(
        f"{int(100 * share):3d}%|{full:10s}| {done}/{total} [00:{int(seconds):02d}<{left}, {rate}]"
    )


def _in_process(lab: Lab, dp_rank: int, torch: Any) -> core_client.InprocClient:
    import torch.distributed as dist

    from unstall.experiments.scenarios.grpo_rollout_server.vllm import model_runner, parallel_state

    world = int(lab.size("engines"))
    timeout = timedelta(seconds=lab.settings.timeout * 6)
    store = lab.store("engines", dp_rank, world)
    dist.init_process_group("gloo", store=store, rank=dp_rank, world_size=world, timeout=timeout)
    lab.dump_on_request(dp_rank)
    group = parallel_state.initialize_model_parallel(dist, world, timeout)
    vote = parallel_state.stateless_vote_group(store, dp_rank, world, timeout)
    return core_client.InprocClient(model_runner.ModelRunner(torch, dp_rank, world, group), vote)


def llm_worker(lab: Lab, dp_rank: int, connection: Connection) -> None:
    """Main of a front end's process: serve the HTTP server's commands one by one."""
    die_with_parent()
    set_title(f"python rollout.py llm_worker --data-parallel-rank={dp_rank}")
    front = FrontEnd(lab, dp_rank)
    for image in range(8):  # warm up, as a profile run does
        front.colour_of(image)
    front.cache.clear()
    connection.send("ready")
    while True:
        try:
            command, arguments = connection.recv()
        except (EOFError, OSError):
            return
        own = getattr(front, command, None)
        if own is not None:
            connection.send(own(*arguments))
        else:
            connection.send(front.client.call_utility(command, *arguments))
