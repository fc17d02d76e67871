"""Drives vLLM's data-parallel engines as ms-swift's rollout server does, without the server.

Each front end is a process with an ``LLMEngine`` of its own, told its place by ``VLLM_DP_RANK``,
``VLLM_DP_SIZE`` and ``VLLM_DP_MASTER_PORT``; its engine is another process. A call is a list of
requests for each front end: it prepares and submits one after the other, then steps until all are
answered. (ms-swift 3.10: ``swift/llm/infer/rollout.py``, ``infer_engine/vllm_engine.py``.)

Preparing a request that brings a new image costs what an image costs: a JPEG is decoded, resized
and normalised. All completions of one prompt share its image, as they do in vLLM's cache. Nothing
waits or fails on purpose, unless ``--pause`` says so.

Nothing of vLLM is changed, with two exceptions: engine processes are forked (``--spawn`` leaves
vLLM's way, which imports everything again for each), and the change ``hold-wave-open`` needs a
method of the engine replaced.

A call may come while the engines still run the wave of the call before: it lasts to the next
multiple of 32 steps, and a front end does not always wait for that. ``--rest`` does.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import random
import socket
import time
from typing import Any

#: What a front end can be asked besides a call.
HOLD, REST = "hold", "rest"
CHANGES = ("independent-engines", "hold-wave-open", "preprocess-first", "in-process")


def main() -> None:
    """Start the front ends and send them call after call."""
    options = parse()
    if "in-process" in options.change:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    load(options)
    calls = [image_pool(options), *(plan(options, number) for number in range(options.engines))]
    pool, plans = calls[0], calls[1:]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("fork")
    connections = []
    for number in range(options.engines):
        ours, theirs = context.Pipe()
        context.Process(target=front_end, args=(options, number, port, pool, theirs)).start()
        connections.append(ours)
    for connection in connections:
        connection.recv()
    print(f"{options.engines} front ends are ready", flush=True)
    for step in range(options.steps + 1):
        if options.rest:
            tell_all(connections, REST)
        begun = time.monotonic()
        if "hold-wave-open" in options.change:
            tell_all(connections, HOLD)  # all engines, before any has a request
        for connection, requests in zip(connections, plans, strict=True):
            connection.send(next(requests))
        answers = [connection.recv() for connection in connections]
        spent = time.monotonic() - begun
        done = f"{sum(answers)} completions in {spent:.2f} s" + ("" if step else " to warm up")
        print(f"step {step}/{options.steps}: {done}", flush=True)
    for connection in connections:
        connection.send(None)
    os._exit(0)


def tell_all(connections: list[Any], word: str) -> None:
    """Ask something of all front ends; back when all have done it."""
    for connection in connections:
        connection.send(word)
    for connection in connections:
        connection.recv()


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, default=300, help="calls")
    parser.add_argument("--engines", type=int, default=2)
    parser.add_argument("--prompts", type=int, default=6, help="of each front end in a call")
    parser.add_argument("--generations", type=int, default=8, help="completions of each prompt")
    parser.add_argument("--tokens", type=int, default=5, help="longest completion")
    parser.add_argument("--least-tokens", type=int, default=1, help="shortest completion")
    parser.add_argument("--kilopixels", type=float, default=1000, help="median of the images")
    parser.add_argument("--spread", type=float, default=1.0, help="sigma of their logarithm")
    parser.add_argument(
        "--pause", type=float, default=0.0, help="seconds that front end 0 waits in each call"
    )
    parser.add_argument("--pause-before", type=int, default=1, help="the request before which")
    parser.add_argument(
        "--rest", action="store_true", help="no call before the last one's wave has ended"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--change", action="append", default=[], choices=CHANGES)
    parser.add_argument("--spawn", action="store_true")
    return parser.parse_args()


def arguments(options: argparse.Namespace) -> Any:
    """The engine's arguments: as ms-swift's, without graphs, small."""
    from vllm import EngineArgs

    return EngineArgs(
        model=options.model,
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=512,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
        enable_prefix_caching=False,
        disable_custom_all_reduce=True,
        disable_log_stats=True,
        trust_remote_code=True,
        load_format="dummy",
        seed=0,
    )


def load(options: argparse.Namespace) -> None:
    """Import once what every process needs."""
    import vllm.v1.engine.core
    import vllm.v1.engine.llm_engine
    import vllm.v1.engine.utils as utils
    import vllm.v1.worker.cpu_worker

    arguments(options).create_model_config()  # finds the model's class, which takes a process
    if not options.spawn:
        utils.get_mp_context = lambda: multiprocessing.get_context("fork")
    if "hold-wave-open" in options.change:
        let_waves_be_held(vllm.v1.engine.core.DPEngineCoreProc)


def let_waves_be_held(engine: Any) -> None:
    """The change under test: an engine whose front end still submits counts as unfinished."""
    decide = engine._has_global_unfinished_reqs
    engine.held = False

    def hold(self: Any, held: bool) -> None:
        self.held = held

    def has_global_unfinished_reqs(self: Any, local_unfinished: bool) -> Any:
        return decide(self, local_unfinished or self.held)

    engine.hold = hold
    engine._has_global_unfinished_reqs = has_global_unfinished_reqs


# --- what is asked -----------------------------------------------------------------------------


def image_pool(options: argparse.Namespace) -> list[bytes]:
    """JPEG images of log-normal sizes."""
    import numpy
    from PIL import Image

    draw = random.Random(options.seed)  # noqa: S311 - no secret
    noise = numpy.random.default_rng(options.seed).integers(0, 255, (64, 64, 3), dtype="uint8")
    pool = []
    for _ in range(48):
        pixels = options.kilopixels * 1000 * draw.lognormvariate(0, options.spread)
        side = max(16, min(int(pixels**0.5), 6000))
        file = io.BytesIO()
        Image.fromarray(noise).resize((side, side)).save(file, "JPEG", quality=85)
        pool.append(file.getvalue())
    return pool


def plan(options: argparse.Namespace, number: int) -> Any:
    """A front end's calls: for each request its prompt, its image (if new), its length."""
    draw = random.Random(options.seed * 1000 + number)  # noqa: S311 - no secret
    while True:
        call = []
        for _ in range(options.prompts):
            prompt = [draw.randrange(3, 300) for _ in range(draw.randrange(8, 24))]
            image = draw.randrange(48)
            for generation in range(options.generations):
                length = draw.randrange(options.least_tokens, options.tokens + 1)
                call.append((prompt, None if generation else image, length))
        yield call


def prepare(data: bytes) -> None:
    """What a vision model's processor does with an image."""
    import numpy
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB").resize((448, 448))
    pixels = numpy.asarray(image, dtype=numpy.float32) / 255
    ((pixels - 0.5) / 0.25).transpose(2, 0, 1).copy()


# --- a front end -------------------------------------------------------------------------------


def front_end(
    options: argparse.Namespace, number: int, port: int, pool: list[bytes], connection: Any
) -> None:
    """Answer calls until there are no more."""
    if "independent-engines" not in options.change:
        os.environ.update(
            VLLM_DP_RANK=str(number),
            VLLM_DP_RANK_LOCAL=str(number),
            VLLM_DP_SIZE=str(options.engines),
            VLLM_DP_MASTER_PORT=str(port),
        )
    from vllm import LLMEngine

    engine = LLMEngine.from_engine_args(arguments(options))
    connection.send("ready")
    calls = 0
    while (requests := connection.recv()) is not None:
        if requests == HOLD:
            engine.engine_core.call_utility("hold", True)
            connection.send(requests)
            continue
        if requests == REST:
            wait_for_the_end_of_the_wave(engine)
            connection.send(requests)
            continue
        pause = options.pause if number == 0 and calls else 0.0
        connection.send(infer(engine, options, pool, requests, f"{number}-{calls}", pause))
        calls += 1
    os._exit(0)


def infer(
    engine: Any,
    options: argparse.Namespace,
    pool: list[bytes],
    requests: list[tuple[list[int], int | None, int]],
    name: str,
    pause: float,
) -> int:
    """Submit all requests of a call, then step until they are answered; their number."""
    from vllm import SamplingParams

    early = "preprocess-first" in options.change
    held = "hold-wave-open" in options.change
    if early:
        for number, (_, image, _) in enumerate(requests):
            make_ready(pool, image, pause if number == options.pause_before else 0)
    for number, (prompt, image, length) in enumerate(requests):
        if not early:
            make_ready(pool, image, pause if number == options.pause_before else 0)
        engine.add_request(
            f"{name}-{number}",
            {"prompt_token_ids": prompt},
            SamplingParams(max_tokens=length, temperature=1.0, ignore_eos=True),
        )
    if held:  # each engine when its own front end has submitted all: the last one ends the wave
        engine.engine_core.call_utility("hold", False)
    answered = 0
    while engine.has_unfinished_requests():
        answered += sum(output.finished for output in engine.step())
    return answered


def wait_for_the_end_of_the_wave(engine: Any) -> None:
    """Wait until the engine runs no wave; there is none of an engine in this process."""
    ask = getattr(engine.engine_core, "call_utility", None)
    while ask is not None and ask("__getattribute__", "engines_running"):
        time.sleep(0.02)


def make_ready(pool: list[bytes], image: int | None, pause: float) -> None:
    """The work before a request can be submitted."""
    if pause:
        time.sleep(pause)
    if image is not None:
        prepare(pool[image])


if __name__ == "__main__":
    main()
