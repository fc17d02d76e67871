"""Settings that look wrong and are not, each beside its neighbour that is."""

from __future__ import annotations

import pytest

from tests.launch.plans import judgements, lines, only, plan, wrong
from unstall.launch import read_plan
from unstall.launch.texts import Script
from unstall.model.facts import Place
from unstall.model.plan import Plan

SEVERAL = "NNODES=2 NODE_RANK={} MASTER_ADDR={} NPROC_PER_NODE=4 swift sft --model m\n"


def parts(*texts: str) -> Plan:
    """The plan of several parts of one longer text."""
    return read_plan([Script(Place("page.md", 10 * n + 1), t) for n, t in enumerate(texts)])


class TestRendezvous:
    def test_node_0_may_name_itself(self) -> None:
        assert wrong(plan(SEVERAL.format(0, "127.0.0.1"))) == set()
        assert wrong(plan(SEVERAL.format(1, "127.0.0.1"))) == {"rendezvous address"}

    def test_what_a_cluster_sets_is_not_missed(self) -> None:
        text = "NNODES=$WORLD_SIZE NODE_RANK=$RANK NPROC_PER_NODE=4 swift sft --model m\n"
        assert wrong(plan(text)) == set()

    def test_an_address_with_a_local_default_is_a_doubt(self) -> None:
        text = (
            "ADDR=${MASTER_ADDR:-localhost}\n"
            "torchrun --nnodes 2 --node_rank $R --master_addr $ADDR --nproc_per_node 4 fit.py\n"
        )
        rows = judgements(plan(text), "rendezvous address")
        assert [j.judgement for j in rows] == ["suspicious"]

    @pytest.mark.parametrize(("backend", "rows"), [("c10d", 0), ("static", 1)])
    def test_only_the_static_back_end_reads_the_nodes_number(self, backend: str, rows: int) -> None:
        text = (
            "accelerate launch --num_machines 2 --num_processes 8 --machine_rank $SLURM_PROCID "
            f"--main_process_ip h --rdzv_backend {backend} fit.py\n"
        )
        assert len(judgements(plan(text), "node rank")) == rows

    def test_torchrun_under_srun_overwrites_the_address(self) -> None:
        text = "export MASTER_PORT=4711\nsrun -N 2 torchrun --nproc_per_node 2 fit.py\n"
        (row,) = judgements(plan(text), "MASTER_PORT")
        assert row.judgement == "no effect"


class TestOneText:
    TRAIN = "torchrun --nproc_per_node 2 {}.py\n"

    def test_parts_are_alternatives(self) -> None:
        found = parts(self.TRAIN.format("a"), self.TRAIN.format("b"))
        assert len(found.programs) == 2
        assert wrong(found) == set()

    def test_a_server_and_its_trainer_run_together(self) -> None:
        found = parts(
            "CUDA_VISIBLE_DEVICES=1 swift rollout --model m --port 8200\n",
            "CUDA_VISIBLE_DEVICES=1,2 NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model m "
            "--use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 "
            "--vllm_server_port 8300\n",
        )
        assert wrong(found) == {"CUDA_VISIBLE_DEVICES", "server port"}


class TestServers:
    BOTH = (
        "CUDA_VISIBLE_DEVICES=0,1 swift rollout --model m --vllm_tensor_parallel_size 2\n"
        "CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model m "
        "--use_vllm true --vllm_mode server --vllm_server_host {} --vllm_server_port 8000\n"
    )

    def test_devices_of_another_machine_are_others(self) -> None:
        assert wrong(plan(self.BOTH.format("box-7"))) == set()
        assert wrong(plan(self.BOTH.format("127.0.0.1"))) == {"CUDA_VISIBLE_DEVICES"}

    def test_an_unknown_size_is_not_one(self) -> None:
        text = "#SBATCH --gres=gpu:8\nsrun -N 1 -n 1 trl vllm-serve --model m --{} $TP\n"
        for flag in ("tensor_parallel_size", "data_parallel_size"):
            found = plan(text.format(flag))
            assert only(found).processes is None
            assert {j.judgement for j in found.judgements} & {"conflict"} == set()
            assert judgements(found, flag.replace("_", " ")) == []


class TestDevices:
    def test_ranks_that_hold_several_devices(self) -> None:
        text = "CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=2 swift sft --model m {}\n"
        assert judgements(plan(text.format("")), "CUDA_VISIBLE_DEVICES")[0].judgement == "ok"
        (row,) = judgements(plan(text.format("--deepspeed zero2")), "CUDA_VISIBLE_DEVICES")
        assert row.judgement == "suspicious"

    def test_ray_starts_the_workers(self) -> None:
        text = "CUDA_VISIBLE_DEVICES=0,1 {} rlhf --rlhf_type grpo --use_ray true --model m\n"
        for command in ("swift", "megatron"):
            found = plan(text.format(command))
            assert {j.judgement for j in judgements(found, "CUDA_VISIBLE_DEVICES")} <= {"ok"}

    def test_one_task_for_each_node_may_start_more(self) -> None:
        text = "#SBATCH --gres=gpu:8\nsrun -N 2 --ntasks-per-node={} python fit.py\n"
        assert {j.judgement for j in judgements(plan(text.format(1)), "devices")} <= {"ok"}
        assert judgements(plan(text.format(4)), "devices")[0].judgement == "suspicious"

    def test_processes_of_accelerate_are_not_sruns_tasks(self) -> None:
        text = (
            "#SBATCH --gres=gpu:8\n#SBATCH --ntasks-per-node=1\nN=$SLURM_NNODES\n"
            'srun bash -c "accelerate launch --num_machines $N --num_processes $((N * 8)) '
            '--machine_rank \\$SLURM_PROCID fit.py"\n'
        )
        assert judgements(plan(text), "devices") == []

    def test_a_check_under_srun_is_no_trainer(self) -> None:
        assert plan("srun -N 2 python -c 'import torch'\n").programs == ()


class TestVariables:
    @pytest.mark.parametrize(
        "text",
        [
            "SGLANG_ARGS=(--a 1)\ntorchrun --standalone fit.py ${SGLANG_ARGS[@]}\n",
            "NCCL_ARGS='--a 1 --b 2'\ntorchrun --standalone fit.py $NCCL_ARGS\n",
            "RAY_HOME=/data/ray\ntorchrun --standalone fit.py --x $RAY_HOME/set.bin\n",
            "MASTER_ADDR=$(scontrol show hostnames | head -1)\nvllm serve m &\n"
            "accelerate launch --num_machines 2 --machine_rank $R --main_process_ip $MASTER_ADDR "
            "--num_processes 4 fit.py\n",
            "export MY_EVAL_TIMEOUT_SEC=5\ntorchrun --standalone fit.py\n",
            "RAY_RANK=0\nRAY_LOG_DIR=/d\nif [ $RAY_RANK = 0 ]; then\n  ray start --head\nfi\n"
            "MASTER_PORT=6000\nray start --head\n",
            "WORLD_SIZE=16\nif [ $WORLD_SIZE -gt 1 ]; then\n  torchrun --standalone fit.py\nfi\n",
            "RAY_ADDRESS=http://h:8265 ray job submit -- python3 -m verl.trainer.main_ppo\n",
            "export NNODES=2\ntorchrun --nnodes $NNODES --node_rank $R --master_addr h fit.py\n",
        ],
    )
    def test_what_the_script_uses_itself_has_its_effect(self, text: str) -> None:
        found = plan(text)
        assert found.programs
        assert [j.name for j in found.judgements if j.judgement == "no effect"] == []

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("NCCL_ALGO=Ring\ntorchrun --standalone fit.py\n", "NCCL_ALGO"),
            ("RAY_DEDUP_LOGS=0\nray start --head\n", "RAY_DEDUP_LOGS"),
            ("RAY_memory_usage_threshold=1\nray start --head\n", "RAY_memory_usage_threshold"),
            ("export WORLD_SIZE=2\ntorchrun --standalone fit.py\n", "WORLD_SIZE"),
            ("export MASTER_PORT=4711\ntorchrun --standalone fit.py\n", "MASTER_PORT"),
            ("export VLLM_SERVER_PORT=9\nvllm serve m\n", "VLLM_SERVER_PORT"),
        ],
    )
    def test_what_reaches_nobody_has_none(self, text: str, name: str) -> None:
        assert [j.judgement for j in judgements(plan(text), name)] == ["no effect"]


class TestBatches:
    RUN = (
        "python3 -m verl.trainer.main_ppo {} trainer.n_gpus_per_node=8 trainer.nnodes=2 "
        "data.train_batch_size=12 actor_rollout_ref.rollout.n=2 {}\n"
    )
    ACTOR = "actor_rollout_ref.actor."

    def test_devices_divide_the_batch(self) -> None:
        assert wrong(plan(self.RUN.format("", ""))) == {"train batch size"}

    def test_dynamic_batches_need_no_division(self) -> None:
        more = self.ACTOR + "use_dynamic_bsz=True"
        assert wrong(plan(self.RUN.format("", more))) == set()

    @pytest.mark.parametrize(("micro", "bad"), [(3, False), (5, True)])
    def test_megatron_divides_by_its_own_size(self, micro: int, bad: bool) -> None:
        more = (
            f"{self.ACTOR}megatron.tensor_model_parallel_size=4 "
            f"{self.ACTOR}ppo_micro_batch_size_per_gpu={micro}"
        )  # 16 devices / 4 = 4 replicas; 24 samples are a multiple of 12 and not of 20
        found = plan(self.RUN.format("--config-name=ppo_megatron_trainer.yaml", more))
        assert ("train batch size" in wrong(found)) == bad


class TestComments:
    def test_a_comment_behind_a_backslash_is_told(self) -> None:
        found = plan("torchrun --standalone fit.py \\\n  # the rate\n  --lr 3\n")
        assert [n.places[0].line for n in found.notes if "comment behind" in str(n.text)] == [2]
        assert "lr" not in only(found).flags

    @pytest.mark.parametrize(
        "text",
        [
            "torchrun --standalone fit.py \\\n  --lr 3\n# the end\n",
            "torchrun --standalone fit.py \\\n\n# a comment\nexport A=1\n",
            "torchrun --standalone fit.py --lr 3 \\\n",
        ],
    )
    def test_others_are_not(self, text: str) -> None:
        assert plan(text).notes == ()


@pytest.mark.parametrize(("minutes", "doubt"), [(1440, False), (60, False), (1800, True)])
def test_minutes_that_look_like_seconds(minutes: int, doubt: bool) -> None:
    text = (
        "torchrun --standalone --nproc_per_node 2 pretrain_gpt.py "
        f"--distributed-timeout-minutes {minutes}\n"
    )
    assert bool(judgements(plan(text), "distributed_timeout_minutes")) == doubt


@pytest.mark.parametrize(
    "command", ["torchrun --standalone --nproc_per_node 2 fit.py", "swift rollout --model m"]
)
def test_no_device_at_all_is_meant_for_the_processor(command: str) -> None:
    found = plan(f"export CUDA_VISIBLE_DEVICES=''\n{command}\n")
    assert only(found).devices == ()
    assert wrong(found) == set()


class TestServerThatIsAskedFor:
    SERVER = "trl vllm-serve --model m --host 127.0.0.1 --port 8200 &\nserver=$!\n"
    TRAINER = (
        "torchrun --nproc_per_node 2 fit.py --use_vllm true --vllm_mode server "
        "--vllm_server_host 127.0.0.1 --vllm_server_port 8200\n"
    )

    @pytest.mark.parametrize("ask", ["kill -0 $server", "kill -s 0 $server", "kill -n 0 $server"])
    def test_a_question_whether_it_lives_does_not_end_it(self, ask: str) -> None:
        wait = f"until nc -z 127.0.0.1 8200; do\n  {ask} || exit 1\n  sleep 1\ndone\n"
        (row,) = judgements(plan(self.SERVER + wait + self.TRAINER), "server port")
        assert row.judgement == "ok"

    def test_a_signal_does(self) -> None:
        (row,) = judgements(plan(self.SERVER + "kill -9 $server\n" + self.TRAINER), "server port")
        assert row.judgement == "suspicious"


class TestSharedMemory:
    """A container's /dev/shm is its own: what counts are the ranks inside of it."""

    JOB = """
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: fit}}
        spec:
          parallelism: 4
          template:
            spec:
              containers:
                - name: fit
                  image: x
                  command: [bash, -c, "torchrun --nnodes=4 --nproc_per_node={} --node_rank=$R
                    --master_addr=$A fit.py"]
    """

    @pytest.mark.parametrize(
        ("each", "expected"), [("1", "suspicious"), ("2", "conflict"), ("$N", "suspicious")]
    )
    def test_ranks_of_one_container(self, each: str, expected: str) -> None:
        (row,) = judgements(plan(configs={"job.yaml": self.JOB.format(each)}), "shared memory")
        assert row.judgement == expected
        assert row.correction is not None
        assert "emptyDir" in row.correction
        assert lines(row)[0] == 9  # the container
