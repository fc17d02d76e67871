"""TRL's GRPO trainer against ``trl vllm-serve``, as real programs on a CPU.

``trl vllm-serve`` starts one process for each data-parallel rank; each has a synchronous ``LLM``
and is told its place by ``VLLM_DP_RANK`` and its siblings, and the trainer's prompts are divided
among them (TRL 0.24.0, ``scripts/vllm_serve.py``: ``llm_worker``, ``generate``). That is vLLM's
offline data parallel, whose engines fall out of step with a dense model:
https://github.com/vllm-project/vllm/issues/28224. vLLM 0.14 refuses to start such a server:
https://github.com/huggingface/trl/pull/5214.
"""

from __future__ import annotations

from pathlib import Path

from unstall.experiments.runner import free_port
from unstall.experiments.scenario import Change, Scenario, Settings
from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.launches import SIZE_TEXTS, await_port, command, head, serving
from unstall.experiments.stacks.levels import ENGINES, IN_PROCESS, Level, inside
from unstall.model.text import say


def _script(environment: Environment, settings: Settings, model: Path) -> str:
    """A launch script: the server, a wait for its answer, the trainer."""
    sizes = settings.sizes
    engines = int(sizes["engines"])
    tensor = engines if "tensor-parallel" in settings.changes else 1
    data = 1 if {"tensor-parallel", "single-engine"} & set(settings.changes) else engines
    port, master, group = free_port(), free_port(), free_port()
    server = [
        "trl", "vllm-serve", "--model", str(model), "--dtype", "bfloat16",
        "--host", "127.0.0.1", "--port", str(port), "--tensor_parallel_size", str(tensor),
        "--data_parallel_size", str(data), "--max_model_len", "512", "--enforce_eager", "true",
    ]  # fmt: skip
    trainer = [
        "torchrun", f"--nproc_per_node={settings.ranks}", f"--master_port={master}",
        str(inside("trl_grpo.py")), "--model_name_or_path", str(model),
        "--dataset", str(model / "questions.jsonl"), "--use_vllm", "true",
        "--vllm_mode", "server", "--vllm_server_host", "127.0.0.1",
        "--vllm_server_port", str(port), "--per_device_train_batch_size", f"{sizes['batch']:g}",
        "--gradient_accumulation_steps", "1", "--num_generations", f"{sizes['generations']:g}",
        "--max_prompt_length", "256", "--max_completion_length", f"{sizes['tokens']:g}",
        "--max_steps", str(settings.steps), "--logging_steps", "1", "--learning_rate", "2e-6",
        "--seed", str(settings.seed), "--save_strategy", "no", "--report_to", "none",
        "--output_dir", "output", "--gradient_checkpointing", "false", "--bf16", "false",
        "--use_cpu", "true", "--ddp_backend", "gloo",
    ]  # fmt: skip
    bind = "|".join(str(one % 2) for one in range(tensor * data))
    return (
        "#!/bin/bash\n# TRL's GRPO trainer and its vLLM server, on a CPU\n"
        + head(
            environment,
            settings,
            {"UNSTALL_DEVICES": str(engines), "UNSTALL_GROUP_PORT": str(group)},
        )
        + f"{serving(settings, 1, bind)} \\\n"
        + f"{command(server)} &\n"
        + "server=$!\n"
        + await_port(port, "server")
        + f"ACCELERATE_USE_CPU=true \\\n{command(trainer)}\n"
    )


TRL = Level(
    packages=("trl", "vllm"),
    scenario=Scenario(
        name="grpo-rollout-server",
        causes=("engine-desync",),
        title=say("TRL's GRPO trainer waits for the engines of trl vllm-serve"),
        about=say(
            "The GRPO trainer of TRL and its server “trl vllm-serve” with data-parallel engines "
            "of vLLM, started by a launch script: server mode, exchange of weights after each "
            "step. Preparing a prompt costs what an image costs; nothing waits on purpose."
        ),
        module="",
        programs=(),
        changes=(
            Change("single-engine", say("one engine (--data_parallel_size 1)")),
            Change(
                "tensor-parallel",
                say("one engine over all devices (--tensor_parallel_size instead of data)"),
            ),
            IN_PROCESS,
        ),
        fingerprint=ENGINES.scenario.fingerprint,
        ranks=2,
        least=1,
        most=6,
        sizes={
            "engines": 2,
            "batch": 48,
            "generations": 8,
            "tokens": 6,
            "kilopixels": 2000,
            "spread": 1.0,
        },
        size_texts=SIZE_TEXTS,
        steps=150,
        long_steps=1000,
        by=150,
        stall=40.0,
        timeout=1800.0,
        limit=14400.0,
    ),
    script=_script,
)
