"""GRPO with a separate rollout server whose data-parallel engines step in waves.

In the shape of ms-swift 3.10 with vLLM 0.11 (offline data parallel, no coordinator), in miniature:
``trainer`` is ``swift rlhf --vllm_mode server``, ``rollout`` is ``swift rollout``, ``vllm`` is the
engine. Nothing in it waits, sleeps or fails on purpose: a front end submits its requests one after
the other and prepares each one's image first, while its engine already steps.
"""

from __future__ import annotations

from unstall.experiments.child import Lab
from unstall.experiments.scenario import Apart, Change, Control, ProgramSpec, Scenario, Waits
from unstall.model.text import say

SCENARIO = Scenario(
    name="grpo-rollout-server",
    causes=("engine-desync",),
    title=say("engines of a rollout server fall out of step between two waves"),
    about=say(
        "A GRPO trainer asks a rollout server over HTTP for completions. The server's "
        "data-parallel engines make one all-reduce in every step and agree every 32 steps "
        "whether anyone has unfinished requests. Its front ends submit requests one by one "
        "while the engines already run, and preparing an image takes as long as a short "
        "completion: now and then everything known is finished at such a vote while one front "
        "end still prepares. The wave ends, the late request begins a new one, and its first "
        "all-reduce waits for an engine that is idle."
    ),
    module="grpo_rollout_server",
    programs=(
        ProgramSpec("rollout", "server", ranks=1, service=True, own_log=True),
        ProgramSpec("trainer", "rank"),
    ),
    changes=(
        Change(
            "independent-engines",
            say("engines that share no group: several servers of one engine each"),
        ),
        Change(
            "hold-wave-open",
            say("a wave does not end while a front end still submits"),
        ),
        Change(
            "preprocess-first",
            say(
                "each front end prepares everything, lets the wave before end, then submits in "
                "one go"
            ),
        ),
        Change(
            "in-process",
            say(
                "each engine in its front end's process, stepping only when all is submitted "
                "(VLLM_ENABLE_V1_MULTIPROCESSING=0)"
            ),
        ),
    ),
    controls=(
        Control(
            "delay-before-first",
            say("one front end begins late, after the wave before, then submits without pause"),
        ),
        Control(
            "uneven-lengths",
            say("completions of very different lengths, no time spent between requests"),
        ),
    ),
    fingerprint=(
        Waits("EngineCore", "num_tokens_across_dp"),
        Waits("EngineCore", "_process_input_queue"),
        Waits("trainer rank 0", "infer"),
        Apart("dp", ((1, 0), (0, 0)), "all_reduce", "rollout"),
    ),
    ranks=2,
    least=1,
    most=16,
    sizes={
        "engines": 2,
        "prompts": 8,
        "generations": 4,
        "tokens": 5,
        "kilopixels": 60,
        "spread": 1.0,
    },
    size_texts={
        "engines": say("data-parallel engines of the server"),
        "prompts": say("prompts a training step"),
        "generations": say("completions of each prompt"),
        "tokens": say("longest completion"),
        "kilopixels": say("median size of an image, in thousands of pixels"),
        "spread": say("spread of the image sizes: sigma of their logarithm"),
    },
    steps=1000,
    long_steps=9008,
    by=1000,
    stall=6.0,
    timeout=10.0,
    limit=7200.0,
)


def main(lab: Lab) -> None:
    """Be the server or one rank of the trainer."""
    if lab.role == "server":
        from unstall.experiments.scenarios.grpo_rollout_server.rollout import serve

        serve(lab)
    else:
        from unstall.experiments.scenarios.grpo_rollout_server.trainer import train

        train(lab)
