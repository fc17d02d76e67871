"""OpenRLHF, LLaMA-Factory, axolotl, Lightning and Ray: who starts whom, and with what.

Each expectation was worked out from the sources that the rows name.
"""

from __future__ import annotations

import pytest

from tests.launch.plans import judgements, only, plan, verdict


def ports(text: str, **more: dict[str, str]) -> list[tuple[str, str, str]]:
    return [(p.purpose, p.value.text, p.picked) for p in only(plan(text, **more)).ports]  # type: ignore[arg-type]


def limit(text: str) -> int | None:
    return next(t.milliseconds for t in only(plan(text)).timeouts if t.reaches == "process groups")


class TestOpenRlhf:
    RUN = "python3 -m openrlhf.cli.train_ppo_ray {}\n"

    @pytest.mark.parametrize(
        ("flags", "devices"),
        [
            # actor, reference, critic and reward model, 8 each, without engines
            ("", 32),
            ("--vllm_num_engines 2 --vllm_tensor_parallel_size 4", 40),
            ("--actor_num_gpus_per_node 4 --init_kl_coef 0 --remote_rm_url http://h "
             "--advantage_estimator rloo", 4),
            ("--actor_num_gpus_per_node 2 --ref_num_gpus_per_node 2 --colocate_actor_ref "
             "--critic_num_gpus_per_node 3 --reward_num_gpus_per_node 3 --colocate_critic_reward "
             "--vllm_num_engines 1", 6),
            ("--colocate_all_models --vllm_num_engines 8", 8),
            ("--colocate_all_models --async_train --vllm_num_engines 8", 16),
            ("--actor.num_nodes 2 --actor.num_gpus_per_node 4 --train.colocate_actor_ref "
             "--algo.advantage.estimator reinforce --reward.remote_url x", 8),
            ("--actor_num_gpus_per_node $N", None),
        ],
    )  # fmt: skip
    def test_devices_that_ray_is_asked_for(self, flags: str, devices: int | None) -> None:
        assert only(plan(self.RUN.format(flags))).processes == devices

    def test_tasks_of_srun_are_drivers(self) -> None:
        text = "#SBATCH -N 2\n#SBATCH --ntasks-per-node=1\nsrun -N 1 -n 1 " + self.RUN.format(
            "--colocate_all_models --vllm_num_engines 8"
        )
        program = only(plan(text))
        assert (program.nodes, program.processes) == (None, 8)

    def test_the_reward_server(self) -> None:
        text = "python -m openrlhf.cli.serve_rm --port 5001 --bf16\n"
        program = only(plan(text))
        assert (program.role, program.processes) == ("reward", 1)
        assert ports(text) == [("http", "5001", "fixed")]
        assert program.timeouts == ()

    @pytest.mark.parametrize(
        ("version", "expected"), [("0.9.9", "no effect"), ("0.9.10", "ok"), ("0.11.0", "ok")]
    )
    def test_the_log_level_of_nccl(self, version: str, expected: str) -> None:
        text = "export NCCL_DEBUG=INFO\n" + self.RUN.format("")
        assert verdict(plan(text, versions={"openrlhf": version}), "NCCL_DEBUG") == expected


class TestLlamaFactory:
    def test_one_device_needs_force_torchrun_for_more_nodes(self) -> None:
        text = "export CUDA_VISIBLE_DEVICES=0 NNODES=2 {}\nllamafactory-cli train a.yaml\n"
        assert verdict(plan(text.format("")), "NNODES") == "no effect"
        assert verdict(plan(text.format("FORCE_TORCHRUN=1")), "NNODES") == "ok"

    @pytest.mark.parametrize("command", ["lmf train", "python -m llamafactory.cli train"])
    def test_other_names(self, command: str) -> None:
        program = only(plan(f"CUDA_VISIBLE_DEVICES=0,1 {command} a.yaml\n"))
        assert (program.software, program.processes) == ("llama-factory", 2)

    def test_its_own_script_is_one_process(self) -> None:
        text = "CUDA_VISIBLE_DEVICES=0,1 python src/llamafactory/launcher.py a.yaml\n"
        assert only(plan(text)).processes == 1

    @pytest.mark.parametrize(
        ("version", "name", "expected"),
        [
            ("0.9.0", "RANK", "ok"),
            ("0.9.0", "NODE_RANK", "no effect"),
            ("0.9.1", "NODE_RANK", "ok"),
            ("0.9.1", "RANK", "no effect"),
        ],
    )
    def test_the_node_number_by_version(self, version: str, name: str, expected: str) -> None:
        text = (
            f"export FORCE_TORCHRUN=1 NNODES=2 MASTER_ADDR=h MASTER_PORT=77 {name}=1\n"
            "llamafactory-cli train a.yaml\n"
        )
        assert verdict(plan(text, versions={"llamafactory": version}), name) == expected

    def test_an_elastic_start_has_one_endpoint(self) -> None:
        text = (
            "FORCE_TORCHRUN=1 NPROC_PER_NODE=4 MIN_NNODES=1 MAX_NNODES=3 MAX_RESTARTS=3 RDZV_ID=j "
            "MASTER_ADDR=10.0.0.7 MASTER_PORT=29222 llamafactory-cli train a.yaml\n"
        )
        found = plan(text)
        assert (only(found).nodes, only(found).processes) == (3, 12)
        assert ports(text) == [("rendezvous", "29222", "fixed")]
        assert [j.name for j in found.judgements if j.judgement == "conflict"] == []

    def test_workers_of_ray(self) -> None:
        text = "USE_RAY=1 MASTER_PORT=77 llamafactory-cli train a.yaml\n"
        found = plan(text, configs={"a.yaml": "stage: sft\nray_num_workers: 4\n"})
        assert only(found).processes == 4
        assert verdict(found, "MASTER_PORT") == "no effect"
        forced = plan("FORCE_TORCHRUN=1 " + text)
        assert verdict(forced, "MASTER_PORT") == "ok"

    def test_the_allocators_setting_is_overwritten(self) -> None:
        text = "export PYTORCH_CUDA_ALLOC_CONF=x {}\nllamafactory-cli train a.yaml\n"
        name = "PYTORCH_CUDA_ALLOC_CONF"
        assert verdict(plan(text.format("")), name) == "no effect"
        assert verdict(plan(text.format("OPTIM_TORCH=0")), name) == "ok"
        old = plan(text.format(""), versions={"llamafactory": "0.9.2"})
        assert verdict(old, name) == "ok"

    def test_the_api_server(self) -> None:
        assert ports("llamafactory-cli api a.yaml\n") == [("http", "8000", "fixed")]
        assert ports("API_PORT=8010 lmf api a.yaml\n") == [("http", "8010", "fixed")]


class TestAxolotl:
    @pytest.mark.parametrize(
        "command",
        ["axolotl preprocess a.yml", "axolotl fetch examples", "axolotl merge-lora a.yml"],
    )
    def test_what_starts_no_ranks_is_no_program(self, command: str) -> None:
        assert plan(f"CUDA_VISIBLE_DEVICES=0 {command}\n").programs == ()

    @pytest.mark.parametrize(
        ("flags", "processes"),
        [
            ("--launcher python", 1),
            ("--no-accelerate", 1),
            ("--launcher torchrun -- --nproc_per_node=3", 3),
            ("--launcher torchrun --nproc_per_node=3", 3),
            ("--num-processes 3", 3),
            ("", 2),
        ],
    )
    def test_launchers(self, flags: str, processes: int) -> None:
        text = f"CUDA_VISIBLE_DEVICES=0,1 axolotl train a.yml {flags}\n"
        assert only(plan(text)).processes == processes

    def test_time_outs(self) -> None:
        text = "export AXOLOTL_NCCL_TIMEOUT=7200\naxolotl train a.yml {}\n"
        assert limit(text.format("--deepspeed zero3.json")) == 7_200_000
        assert limit(text.format("")) == 1_800_000

    def test_its_rollout_server(self) -> None:
        found = plan(
            "axolotl vllm-serve a.yml --port 8011\n",
            configs={"a.yml": "base_model: m\nvllm:\n  tensor_parallel_size: 2\n  port: 9\n"},
        )
        program = only(found)
        assert (program.role, program.processes) == ("rollout", 2)
        assert [p.value.text for p in program.ports] == ["8011"]


class TestLightning:
    def test_fabrics_runner_is_torchrun_with_other_flags(self) -> None:
        text = (
            "export MASTER_PORT=77\n"
            "{} --devices 4 --num-nodes 2 --node-rank 1 --main-address 10.0.0.7 fit.py --devices 9"
            "\n"
        )
        for command in ("fabric run", "lightning run model"):
            found = plan(text.format(command))
            assert (only(found).nodes, only(found).processes) == (2, 8)
            assert [p.value.text for p in only(found).ports] == ["29400"]
            assert verdict(found, "MASTER_PORT") == "no effect"
            assert [j.name for j in found.judgements if j.judgement == "conflict"] == []

    def test_one_device_by_default(self) -> None:
        assert only(plan("CUDA_VISIBLE_DEVICES=0,1 fabric run fit.py\n")).processes == 1
        assert only(plan("fabric run --devices 0,2,3 fit.py\n")).processes == 3

    def test_a_script_that_starts_its_ranks(self) -> None:
        text = (
            "MASTER_ADDR=h MASTER_PORT=77 NODE_RANK=0 python fit.py --trainer.devices=4 "
            "--trainer.num_nodes=2 --trainer.strategy ddp\n"
        )
        found = plan(text)
        assert only(found).processes == 8
        assert [j.name for j in found.judgements if j.judgement == "conflict"] == []

    def test_keys_of_hydra(self) -> None:
        program = only(plan("python fit.py trainer.devices=4 ++trainer.num_nodes=2 model.x=1\n"))
        assert (program.software, program.processes) == ("lightning", 8)

    def test_what_only_writes_a_configuration_trains_nothing(self) -> None:
        text = "python fit.py trainer.devices=4 trainer.num_nodes=2 --to-yaml out.yaml\n"
        assert [p.software for p in plan(text).programs] == []

    def test_under_slurm_ranks_are_tasks(self) -> None:
        text = "#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\nexport NODE_RANK=0\nsrun {}\n"
        found = plan(text.format("python fit.py --trainer.devices 4 --trainer.num_nodes 2"))
        assert only(found).processes == 8
        assert verdict(found, "NODE_RANK") == "no effect"


class TestRay:
    def test_ports_of_a_head(self) -> None:
        assert ports("ray start --head\n") == [
            ("ray", "6379", "fixed"), ("dashboard", "8265", "fixed"),
        ]  # fmt: skip
        assert ports("ray start --head --port 0 --include-dashboard false\n") == [
            ("ray", "0", "free")
        ]

    def test_switches_take_no_value(self) -> None:
        program = only(plan("ray start --head -v --no-redirect-output --block --num-gpus 4\n"))
        assert program.flags["num_gpus"].text == "4"

    SUBMIT = "ray job submit -- python3 -m verl.trainer.main_ppo trainer.n_gpus_per_node=2\n"

    def test_the_submitters_variables_stay_behind(self) -> None:
        found = plan("export NCCL_DEBUG=INFO\n" + self.SUBMIT)
        assert [j.judgement for j in judgements(found, "NCCL_DEBUG")] == ["no effect"]

    @pytest.mark.parametrize(
        ("before", "expected"),
        [
            ("export NCCL_DEBUG=INFO\nray start --head\n", "ok"),
            ("ray start --head\nexport NCCL_DEBUG=INFO\n", "no effect"),
        ],
    )
    def test_what_ray_was_started_with_reaches_its_workers(
        self, before: str, expected: str
    ) -> None:
        found = plan(before + self.SUBMIT)
        assert [j.judgement for j in judgements(found, "NCCL_DEBUG")] == [expected]

    def test_the_file_of_a_runtime_environment(self) -> None:
        text = "export NCCL_DEBUG=WARN\n" + self.SUBMIT.replace(
            "submit", "submit --runtime-env=env/run.yaml"
        )
        file = "working_dir: ./\nenv_vars:\n  NCCL_DEBUG: INFO\n  NCCL_ALGO: Ring\n"
        found = plan(text, configs={"run.yaml": file})
        given = {n: v.text for n, v in only(found).environment.items() if n.startswith("NCCL_")}
        assert given == {"NCCL_DEBUG": "INFO", "NCCL_ALGO": "Ring"}
        assert "env_vars.NCCL_ALGO" not in only(found).flags
        assert [j.judgement for j in judgements(found, "NCCL_DEBUG")] == ["ok"]
