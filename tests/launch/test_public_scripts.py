"""Scripts re-created from public issues and documentation, names changed; expectations by hand.

Where each shape comes from: Accelerate ``examples/slurm/submit_multinode.sh``; Megatron-LM
``examples/gpt3``; verl ``examples/grpo_trainer``; OpenRLHF ``examples/scripts``; LLaMA-Factory
``examples/README.md``; SGLang issue 3099; Lightning issues 8707 and 20391; axolotl's command line
documentation; DeepSpeed "getting started"; TRL ``docs/source/grpo_trainer.md``; vLLM
documentation; ms-swift ``examples/train``; PyTorch ``torchrun`` documentation and issue 58431;
Kubeflow training operator examples; compose and ``docker run`` lines of vLLM and PyTorch issues.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.launch.plans import SCRIPTS
from unstall.launch import read_plan
from unstall.launch.files import gather
from unstall.model.plan import Plan, Program


def read(name: str) -> Plan:
    found = gather([str(SCRIPTS / name)])
    assert found.problems == []
    return read_plan(found.scripts, found.configs, found.versions)


class Expected(NamedTuple):
    software: str
    role: str
    devices: tuple[int, ...] | None
    nodes: int | None
    processes: int | None
    ports: tuple[tuple[str, str, str], ...]
    timeout: int | None


def seen(program: Program) -> Expected:
    limits = [t.milliseconds for t in program.timeouts if t.reaches == "process groups"]
    return Expected(
        program.software,
        program.role,
        program.devices,
        program.nodes,
        program.processes,
        tuple((p.purpose, p.value.text, p.picked) for p in program.ports),
        limits[0] if limits else None,
    )


PROGRAMS = {
    "accelerate_slurm_4_nodes.slurm": [
        # 4 nodes × 4 = 16 processes; a plain script has NCCL's 10 minutes
        Expected("accelerate", "trainer", None, 4, 16, (("rendezvous", "29511", "fixed"),), 600_000)
    ],
    "megatron_arrays.sh": [
        Expected("megatron", "trainer", None, 1, 8, (("rendezvous", "6000", "fixed"),), 3_600_000)
    ],
    "verl_grpo.sh": [Expected("verl", "trainer", None, 2, 16, (), 7_200_000)],
    "openrlhf_ray_job.sh": [
        Expected("ray", "node", None, None, None,
                 (("ray", "6379", "fixed"), ("dashboard", "8265", "fixed")), None),
        # actor with reference 2, two engines of two devices, critic and reward model 8 by default
        Expected("openrlhf", "trainer", None, None, 22,
                 (("dashboard", "8265", "fixed"),), 3_600_000),
    ],
    "llamafactory_two_nodes.sh": [
        Expected("llama-factory", "trainer", None, 2, 16,
                 (("rendezvous", "29501", "fixed"),), 1_800_000)
    ],
    "sglang_two_nodes.sh": [
        Expected("sglang", "inference", None, 2, 16,
                 (("http", "8000", "fixed"), ("rendezvous", "20000", "fixed")), 600_000)
    ],
    "lightning_slurm.slurm": [
        Expected("lightning", "trainer", None, 2, 8,
                 (("rendezvous", "15000 + $SLURM_JOB_ID % 10000", "fixed"),), 1_800_000)
    ],
    "axolotl_launcher.sh": [
        Expected("axolotl", "trainer", (0, 1), 1, 4, (("rendezvous", "29500", "fixed"),), 1_800_000)
    ],
    "deepspeed_hosts.sh": [
        # --num_gpus counts from device 0, whatever CUDA_VISIBLE_DEVICES says
        Expected("deepspeed", "trainer", (0, 1, 2, 3), 1, 4,
                 (("rendezvous", "29999", "fixed"),), 1_800_000_000)
    ],
    "trl_two_terminals.sh": [
        Expected("trl", "rollout", (0, 1), 1, 2, (("http", "8100", "fixed"),), 600_000),
        Expected("trl", "trainer", (2, 3), 1, 2,
                 (("rendezvous", "29610", "fixed"), ("http", "8000", "fixed"),
                  ("weight-exchange", "51216", "fixed")), 1_800_000),
    ],
    "vllm_serve_two.sh": [
        Expected("vllm", "inference", (0,), 1, 1, (("http", "8000", "fixed"),), 600_000),
        Expected("vllm", "inference", (1,), 1, 1, (("http", "8001", "fixed"),), 600_000),
        Expected("vllm", "inference", (1,), 1, 1, (("http", "8001", "fixed"),), 600_000),
    ],
    "torchrun_elastic.sh": [
        Expected("torchrun", "trainer", None, 2, 16,
                 (("rendezvous", "$((20000 + RANDOM % 10000))", "random"),), 600_000)
    ],
    "swift_megatron.sh": [
        Expected("ms-swift", "trainer", (0, 1, 2, 3, 4, 5, 6, 7), 2, 16,
                 (("rendezvous", "29655", "fixed"),), 18_000_000_000)
    ],
    "pytorchjob.yaml": [
        # a master and three workers, four processes each
        Expected("torchrun", "trainer", None, 4, 16, (("rendezvous", "23456", "fixed"),), 600_000)
    ],
    "compose.yaml": [
        Expected("vllm", "inference", (0, 1), 1, 2, (("http", "9000", "fixed"),), 600_000),
        Expected("torchrun", "trainer", (1, 2), 1, 2, (("rendezvous", "0", "free"),), 600_000),
    ],
    "mpi_hosts.sh": [Expected("mpirun", "trainer", None, 2, 8, (), 600_000)],
    "docker_launch.sh": [
        Expected("torchrun", "trainer", (2, 3), 1, 4, (("rendezvous", "29500", "fixed"),), 600_000)
    ],
}  # fmt: skip

# Every setting that is not in order.
WRONG = {
    "accelerate_slurm_4_nodes.slurm": set(),
    "megatron_arrays.sh": set(),
    "verl_grpo.sh": {("MASTER_PORT", "no effect")},
    "openrlhf_ray_job.sh": {
        ("NCCL_DEBUG", "no effect"),
        # 22 devices of the 8 that this Ray has: other nodes may join it
        ("devices in all", "suspicious"),
    },
    "llamafactory_two_nodes.sh": set(),
    "sglang_two_nodes.sh": set(),
    "lightning_slurm.slurm": {("NCCL_SOCKET_IFNAME", "conflict")},
    "axolotl_launcher.sh": {("CUDA_VISIBLE_DEVICES", "conflict"), ("MASTER_PORT", "no effect")},
    "deepspeed_hosts.sh": {
        ("CUDA_VISIBLE_DEVICES", "no effect"),
        ("MASTER_PORT", "no effect"),
        ("ddp_timeout", "suspicious"),
    },
    "trl_two_terminals.sh": {("server port", "conflict"), ("http_proxy", "conflict")},
    "vllm_serve_two.sh": {("CUDA_VISIBLE_DEVICES", "suspicious"), ("http port", "conflict")},
    "torchrun_elastic.sh": {
        ("node rank", "suspicious"),
        ("rendezvous address", "suspicious"),
        ("rendezvous port", "suspicious"),
        ("NNODES", "no effect"),
        ("NODE_RANK", "no effect"),
    },
    "swift_megatron.sh": {
        ("rendezvous address", "conflict"),
        # 16 processes are no multiple of 4 × 3
        ("tensor parallel size", "conflict"),
        ("pipeline parallel size", "conflict"),
    },
    "pytorchjob.yaml": {("shared memory", "conflict")},
    "compose.yaml": {("CUDA_VISIBLE_DEVICES", "conflict"), ("shared memory", "suspicious")},
    "mpi_hosts.sh": {("NCCL_IB_GID_INDEX", "no effect")},
    "docker_launch.sh": {("devices", "conflict"), ("shared memory", "suspicious")},
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs(name: str) -> None:
    assert [seen(p) for p in read(name).programs] == PROGRAMS[name]


@pytest.mark.parametrize("name", sorted(WRONG))
def test_what_is_not_in_order(name: str) -> None:
    found = {(j.name, j.judgement) for j in read(name).judgements if j.judgement != "ok"}
    assert found == WRONG[name]


@pytest.mark.parametrize("name", sorted(WRONG))
def test_every_doubt_has_a_reason_and_a_line(name: str) -> None:
    plan = read(name)
    for judgement in plan.judgements:
        assert str(judgement.why)
        if judgement.judgement != "ok":
            assert judgement.places, judgement.name
            assert all(p.source.endswith(name) and p.line >= 1 for p in judgement.places)
        assert set(judgement.values) <= {p.label for p in plan.programs}


def test_lines_of_flags_and_of_sourced_values() -> None:
    trainer = read("trl_two_terminals.sh").programs[1]
    port = trainer.flags["vllm_server_port"].place
    proxy = trainer.environment["http_proxy"].place
    assert port is not None
    assert proxy is not None
    assert (port.line, proxy.line) == (5, 3)
    first, second, _ = read("vllm_serve_two.sh").programs
    assert first.flags["port"].text == "8000"
    assert second.flags["port"].text == "8001"


def test_correction_of_a_mistaken_port() -> None:
    rows = [j for j in read("trl_two_terminals.sh").judgements if j.name == "server port"]
    assert [j.correction for j in rows] == ["--vllm_server_port 8100"]
    rows = [j for j in read("axolotl_launcher.sh").judgements if j.name == "MASTER_PORT"]
    assert [j.correction for j in rows] == ["--main_process_port 29777"]
