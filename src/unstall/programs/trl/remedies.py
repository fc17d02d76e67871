"""What TRL's settings offer against causes.

Sources: TRL 0.24.0 ``scripts/vllm_serve.py`` (``data_parallel_size``: a process with a synchronous
``LLM`` for each rank; ``tensor_parallel_size``), ``extras/vllm_client.py`` (one server only),
``trainer/grpo_config.py`` (``vllm_mode``); pull request 5214 (vLLM 0.14 refuses data parallelism
of a dense model here). vLLM 0.11.0 ``v1/engine/llm_engine.py``: without an engine process the
front ends ask each other whether any has unfinished requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unstall.model.findings import Change, Fix
from unstall.model.plan import Program
from unstall.model.text import say

_FLAG = "data_parallel_size"


def remedies(
    cause: str, program: Program, programs: Sequence[Program], versions: Mapping[str, str]
) -> list[Fix]:
    """Fixes for a cause of ``trl vllm-serve``, in order."""
    del versions
    if cause != "engine-desync" or program.role != "rollout":
        return []
    engines = program.parallel.data
    if engines is not None and engines < 2:
        return []
    given = (_FLAG,) if _FLAG in program.flags else ()
    found = [
        Fix(
            say(
                "one engine instead of data-parallel ones: leave --data_parallel_size out; a "
                "dense model needs no exchange between engines, and the trainer takes one server "
                "only"
            ),
            Change(program.label, {}, given) if given else None,
        )
    ]
    tensor = program.parallel.tensor or 1
    if engines is not None and given:
        found.append(
            Fix(
                say(
                    "or one engine over the same devices: --tensor_parallel_size {devices} "
                    "(it must divide the model's attention heads)",
                    devices=tensor * engines,
                ),
                Change(program.label, {"tensor_parallel_size": str(tensor * engines)}, given),
            )
        )
    found.append(
        Fix(
            say(
                "or engines in their front ends' processes, which begin a wave together: "
                "VLLM_ENABLE_V1_MULTIPROCESSING=0 for the server"
            ),
            Change(program.label, {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}),
        )
    )
    if any(one.role == "trainer" for one in programs):
        found.append(
            Fix(
                say(
                    "or no server at all: vllm_mode=“colocate” in the trainer's configuration runs "
                    "an engine of its own on each trainer rank"
                )
            )
        )
    return found
