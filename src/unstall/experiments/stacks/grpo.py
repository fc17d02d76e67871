"""ms-swift's GRPO trainer against its rollout server, as real programs on a CPU."""

from __future__ import annotations

from pathlib import Path

from unstall.experiments.runner import free_port
from unstall.experiments.scenario import Change, Scenario, Settings
from unstall.experiments.stacks.environment import Environment
from unstall.experiments.stacks.launches import SIZE_TEXTS, await_port, command, head, serving
from unstall.experiments.stacks.levels import ENGINES, IN_PROCESS, INDEPENDENT, Level, inside
from unstall.model.text import say


def _script(environment: Environment, settings: Settings, model: Path) -> str:
    """A launch script: server or servers, a wait for their ports, the trainer."""
    engines = int(settings.sizes["engines"])
    apart = "independent-engines" in settings.changes
    sizes = settings.sizes
    every = int(sizes["generations"])
    ports = [free_port() for _ in range(engines if apart else 1)]
    master = free_port()
    major = int(environment.versions.get("ms-swift", "3").partition(".")[0])
    kind = "--train_type" if major < 4 else "--tuner_type"  # renamed
    common = ["--model", str(model), "--model_type", "qwen3", "--template", "qwen3"]
    server = [
        "swift", "rollout", *common, "--torch_dtype", "bfloat16", "--host", "127.0.0.1",
        "--vllm_tensor_parallel_size", "1", "--vllm_enforce_eager", "true",
        "--vllm_max_model_len", "512", "--vllm_enable_prefix_caching", "false",
    ]  # fmt: skip
    if not apart:
        server += ["--vllm_data_parallel_size", str(engines)]
    if "async-engine" in settings.changes:
        server += ["--vllm_use_async_engine", "true"]
    trainer = [
        "swift", "rlhf", "--rlhf_type", "grpo", *common,
        "--dataset", str(model / "questions.jsonl"), "--split_dataset_ratio", "0",
        "--load_from_cache_file", "false", "--external_plugins", str(inside("reward.py")),
        "--reward_funcs", "length", "--use_vllm", "true", "--vllm_mode", "server",
        "--vllm_server_host", *["127.0.0.1"] * len(ports),
        "--vllm_server_port", *map(str, ports),
        kind, "full", "--torch_dtype", "float32", "--max_length", "256",
        "--max_completion_length", f"{sizes['tokens']:g}",
        "--per_device_train_batch_size", f"{sizes['batch']:g}",
        "--gradient_accumulation_steps", "1", "--num_generations", str(every),
        "--max_steps", str(settings.steps), "--logging_steps", "1", "--learning_rate", "2e-6",
        "--dynamic_sample", "true", "--max_resample_times", "3",
        "--importance_sampling_level", "sequence", "--epsilon_high", "0.28", "--beta", "0.01",
        "--temperature", "1.1", "--top_p", "0.8", "--attn_impl", "sdpa", "--seed",
        str(settings.seed), "--save_strategy", "no", "--eval_strategy", "no",
        "--output_dir", "output", "--report_to", "none", "--gradient_checkpointing", "false",
        "--dataloader_num_workers", "0", "--dataset_num_proc", "1", "--async_generate", "false",
        "--check_model", "false",
        "--bf16", "false", "--fp16", "false", "--use_cpu", "true", "--ddp_backend", "gloo",
    ]  # fmt: skip
    parts = [
        "#!/bin/bash\n# ms-swift's GRPO trainer and its rollout server, on a CPU\n",
        head(
            environment,
            settings,
            {
                "USE_HF": "1",
                "MODELSCOPE_OFFLINE": "1",
                "UNSTALL_DEVICES": str(1 if apart else engines),
            },
        ),
    ]
    # not bound to cores: in ms-swift 4 each engine would take itself for the first one
    bind = "|".join("all" for _ in range(1 if apart else engines))
    for number, port in enumerate(ports):
        parts.append(
            f"UNSTALL_FORK=1 {serving(settings, every, bind)} \\\n"
            f"{command(server)} \\\n  --port {port} &\n"
            f"server{number}=$!\n"
        )
    parts += [await_port(port, f"server{number}") for number, port in enumerate(ports)]
    parts.append(
        f"ACCELERATE_USE_CPU=true NPROC_PER_NODE={settings.ranks} MASTER_PORT={master} \\\n"
        f"{command(trainer)}\n"
    )
    return "".join(parts)


GRPO = Level(
    packages=("ms-swift", "vllm"),
    scenario=Scenario(
        name="grpo-rollout-server",
        causes=("engine-desync",),
        title=say("ms-swift's GRPO trainer waits for its rollout server's engines"),
        about=say(
            "The GRPO trainer of ms-swift and its rollout server with vLLM's data-parallel "
            "engines, started by a launch script: server mode, dynamic sampling, exchange of "
            "weights after each step. Preparing a request costs what an image costs; nothing "
            "waits on purpose."
        ),
        module="",
        programs=(),
        changes=(
            INDEPENDENT,
            Change(
                "async-engine",
                say("asynchronous engines with a coordinator (--vllm_use_async_engine true)"),
            ),
            IN_PROCESS,
            Change(
                "upstream-fix",
                say(
                    "ms-swift 4.3.0 instead of 3.10.3 (and trl 0.26.2, which it needs): the "
                    "engines of its rollout server are independent; the same launch script"
                ),
                stack="ms-swift==4.3.0,vllm==0.11.0",
            ),
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
            "kilopixels": 3000,
            "spread": 1.0,
        },
        size_texts=SIZE_TEXTS,
        steps=60,
        long_steps=1000,
        by=60,
        stall=40.0,
        timeout=1800.0,
        limit=14400.0,
    ),
    script=_script,
)
