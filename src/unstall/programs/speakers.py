"""Names and paths by which software shows itself in a log, one row each.

A row says which software a process or actor name, or a path in a stack frame, belongs to and which
role that software has there. Rows come from the sources named beside them.
"""

from __future__ import annotations

import re

import msgspec


class Sign(msgspec.Struct, frozen=True):
    """One sign.

    Attributes:
        pattern: searched in a name or path.
        software: name as in :mod:`unstall.programs`.
        role: the role it implies, where it implies one.
        source: where that can be checked.
    """

    pattern: re.Pattern[str]
    software: str
    role: str | None
    source: str


def _sign(pattern: str, software: str, role: str | None, source: str) -> Sign:
    return Sign(re.compile(pattern), software, role, source)


#: Process, thread and actor names, as log prefixes show them.
NAMES: tuple[Sign, ...] = (
    _sign(
        r"^(EngineCore|APIServer|ApiServer|Worker_(DP|PP|TP|EP|PCP|DCP)\d|VllmWorker|DPCoordinator)",
        "vllm",
        "inference",
        "vLLM 0.6-0.11 vllm/utils decorate_logs, multiproc_executor.py",
    ),
    _sign(
        r"^RayWorker(Wrapper|Vllm)?$",
        "vllm",
        "inference",
        "vLLM 0.2-0.11 vllm/engine/ray_utils.py, vllm/executor/ray_utils.py",
    ),
    _sign(
        r"^(DP\d+ )?(ATTN_CP\d+ )?(MOE_DP\d+ )?TP\d+( EP\d+)?$",
        "sglang",
        "inference",
        "SGLang 0.4-0.5 managers/scheduler.py configure_scheduler",
    ),
    _sign(
        r"^(WorkerDict|TaskRunner|AgentLoopWorker|main_task|FusedWorker)",
        "verl",
        "trainer",
        "verl 0.2-0.6 single_controller/ray/base.py, trainer/main_ppo.py",
    ),
    _sign(
        r"^(vLLMHttpServer|vLLMReplica|AsyncvLLMServer|SGLangHttpServer)",
        "verl",
        "rollout",
        "verl 0.4-0.6 workers/rollout",
    ),
    _sign(
        r"^(Policy|Reference|Critic|Reward)ModelActor|^(Policy|Reference|Critic|Reward)ModelRayActor",
        "openrlhf",
        "trainer",
        "OpenRLHF 0.5-0.8 trainer/ray/launcher.py",
    ),
    _sign(
        r"^(LLMRayActor|RolloutRayActor)",
        "openrlhf",
        "rollout",
        "OpenRLHF 0.5-0.8 trainer/ray/vllm_engine.py",
    ),
    _sign(r"^RayTrainWorker", "ray", "trainer", "Ray 2.x train/_internal/worker_group.py"),
)

#: Paths in stack frames and tracebacks.
PATHS: tuple[Sign, ...] = (
    _sign(
        r"(^|/)swift/(llm|pipelines)/infer/rollout\.py|(^|/)swift/(.{1,60}/)?grpo_vllm_engine\.py"
        r"|(^|/)swift/cli/rollout\.py",
        "ms-swift",
        "rollout",
        # swift/…/rlhf_trainer(s)/rollout_mixin.py is the trainer's side, in every release
        "ms-swift 3.10.3 swift/llm/infer/rollout.py, 4.6.0 swift/pipelines/infer/rollout.py",
    ),
    _sign(r"(^|/)trl/scripts/vllm_serve", "trl", "rollout", "TRL 0.16+ trl/scripts/vllm_serve.py"),
    _sign(
        r"(^|/)vllm/(v1/)?(engine|worker|executor|entrypoints|distributed|model_executor|attention)/",
        "vllm",
        "inference",
        "vLLM source layout, 0.6 and later",
    ),
    _sign(r"(^|/)sglang/srt/", "sglang", "inference", "SGLang source layout"),
    _sign(r"(^|/)verl/", "verl", "trainer", "verl source layout"),
    _sign(r"(^|/)openrlhf/", "openrlhf", "trainer", "OpenRLHF source layout"),
    _sign(r"(^|/)megatron/(core|training)/", "megatron", "trainer", "Megatron-LM source layout"),
    _sign(r"(^|/)(deepspeed)/(runtime|comm)/", "deepspeed", "trainer", "DeepSpeed source layout"),
    _sign(
        r"(^|/)(trl/trainer|transformers/trainer|accelerate|lightning|pytorch_lightning|fairscale)[/.]",
        "python",
        "trainer",
        "TRL, transformers, accelerate, Lightning source layouts",
    ),
    _sign(r"(^|/)swift/", "ms-swift", "trainer", "ms-swift source layout"),
    _sign(
        r"(^|/)torch/distributed/(fsdp|_composable|algorithms)/",
        "python",
        "trainer",
        "PyTorch source layout",
    ),
)

#: Addresses of trackers and documentation: a report that was pasted there is about that software,
#: which says less than the software's own words.
MENTIONS: tuple[Sign, ...] = (
    _sign(r"github\.com/vllm-project/vllm\b", "vllm", "inference", "the project's tracker"),
    _sign(r"github\.com/sgl-project/sglang\b", "sglang", "inference", "the project's tracker"),
    _sign(r"github\.com/(modelscope/ms-swift|modelscope/swift)\b", "ms-swift", None, "the tracker"),
    _sign(r"github\.com/(volcengine/verl|verl-project/verl)\b", "verl", "trainer", "the tracker"),
    _sign(r"github\.com/OpenRLHF/OpenRLHF\b", "openrlhf", "trainer", "the project's tracker"),
    _sign(
        r"github\.com/(microsoft|deepspeedai)/DeepSpeed\b", "deepspeed", "trainer", "the tracker"
    ),
    _sign(r"github\.com/NVIDIA/Megatron-LM\b", "megatron", "trainer", "the project's tracker"),
    _sign(
        r"github\.com/huggingface/(trl|accelerate|transformers)\b", "python", "trainer", "trackers"
    ),
    _sign(r"github\.com/hiyouga/LLaMA-?Factory\b", "llamafactory", "trainer", "the tracker"),
    _sign(r"github\.com/axolotl-ai-cloud/axolotl\b", "axolotl", "trainer", "the tracker"),
)


#: Under which words of training are told where they name no software.
TRAINING = "training"


#: Names that end in a process's rank in its engine. They name each kind of parallelism whose size
#: is more than one, so that one alone counts all ranks (vLLM 0.8 to 0.11 ``multiproc_executor.py``,
#: SGLang 0.4 to 0.5 ``configure_scheduler``).
_NUMBERED = re.compile(r"(?:Worker_(?:TP|PP|DP)|VllmWorker[- ](?:TP)?|TP)(\d{1,5})$", re.ASCII)


def rank_in_name(name: str | None) -> int | None:
    """The rank in its own engine that a worker's name tells, where it tells one."""
    found = _NUMBERED.match(name) if name else None
    return int(found[1]) if found is not None else None


def by_name(name: str | None) -> Sign | None:
    """The software that a process or actor name belongs to."""
    if not name:
        return None
    return next((sign for sign in NAMES if sign.pattern.search(name)), None)


def by_path(path: str) -> Sign | None:
    """The software that a source file belongs to; the innermost frames should be asked first."""
    return next((sign for sign in PATHS if sign.pattern.search(path)), None)


def by_mention(text: str) -> Sign | None:
    """The software whose tracker or documentation an address names."""
    return next((sign for sign in MENTIONS if sign.pattern.search(text)), None)
