"""Each judgement on a made-up script, and on its nearest neighbour that is in order."""

from __future__ import annotations

import pytest

from tests.launch.plans import judgements, lines, only, plan, verdict, wrong

TWO_JOBS = """
    CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 {first} a.py &
    CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node 2 {second} b.py &
    wait
"""


class TestPorts:
    def test_two_torchruns_on_the_default_port_collide(self) -> None:
        found = plan(TWO_JOBS.format(first="", second=""))
        rows = [j for j in judgements(found, "rendezvous port") if j.judgement == "conflict"]
        assert [j.correction for j in rows] == ["--master_port 29501"]
        assert "port-collision" in rows[0].concerns

    def test_ports_of_their_own_are_in_order(self) -> None:
        assert (
            wrong(plan(TWO_JOBS.format(first="--master_port 29501", second="--standalone")))
            == set()
        )

    def test_one_after_the_other_does_not_collide(self) -> None:
        found = plan("torchrun --nproc_per_node 2 a.py\ntorchrun --nproc_per_node 2 b.py\n")
        assert wrong(found) == set()

    def test_a_wait_ends_what_runs_in_the_background(self) -> None:
        found = plan("torchrun --nproc_per_node 2 a.py &\nwait\ntorchrun --nproc_per_node 2 b.py\n")
        assert wrong(found) == set()

    def test_waiting_for_one_process_ends_that_one(self) -> None:
        text = (
            "torchrun --nproc_per_node 1 a.py &\nP=$!\nwait $P\ntorchrun --nproc_per_node 1 b.py\n"
        )
        assert wrong(plan(text)) == set()
        assert wrong(plan(text.replace("wait $P\n", ""))) == {"devices", "rendezvous port"}

    def test_branches_that_exclude_each_other_do_not_collide(self) -> None:
        found = plan(
            """
            if [ -n "$FAST" ]; then
                torchrun --nproc_per_node 2 a.py &
            else
                torchrun --nproc_per_node 2 b.py &
            fi
            """
        )
        assert len(found.programs) == 2
        assert wrong(found) == set()
        assert found.programs[0].condition == '[ -n "$FAST" ]'
        assert found.programs[1].condition == 'not ([ -n "$FAST" ])'

    def test_two_terminals_run_together(self) -> None:
        found = plan("torchrun --nproc_per_node 1 a.py\n", "torchrun --nproc_per_node 1 b.py\n")
        assert "rendezvous port" in wrong(found)

    def test_other_machines_have_their_own_ports(self) -> None:
        found = plan(
            "ssh a torchrun --nproc_per_node 1 x.py &\nssh b torchrun --nproc_per_node 1 y.py &\n"
        )
        assert wrong(found) == set()

    def test_accelerate_looks_for_another_port_by_itself(self) -> None:
        found = plan(
            "CUDA_VISIBLE_DEVICES=0,1 accelerate launch --num_processes 2 a.py &\n"
            "CUDA_VISIBLE_DEVICES=2,3 accelerate launch --num_processes 2 b.py &\n"
        )
        assert [j.judgement for j in judgements(found, "rendezvous port")] == ["suspicious"]

    def test_a_random_port_is_suspicious(self) -> None:
        found = plan("torchrun --master_port=$((RANDOM % 1000 + 20000)) --nproc_per_node 2 a.py\n")
        assert verdict(found, "rendezvous port") == "suspicious"


class TestDevices:
    def test_trainer_and_server_of_one_communicator_on_one_device(self) -> None:
        found = plan(
            """
            CUDA_VISIBLE_DEVICES=1 trl vllm-serve --model m &
            CUDA_VISIBLE_DEVICES=0,1 accelerate launch --num_processes 2 --use_deepspeed x.py \\
                --use_vllm true --vllm_mode server --num_generations 2
            """
        )
        row = judgements(found, "CUDA_VISIBLE_DEVICES")[0]
        assert row.judgement == "conflict"
        assert "Duplicate GPU" in str(row.why)
        assert row.concerns == ("device-overlap",)

    def test_more_processes_than_devices(self) -> None:
        found = plan("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=3 a.py\n")
        assert verdict(found, "CUDA_VISIBLE_DEVICES") == "conflict"

    def test_fewer_processes_than_devices(self) -> None:
        found = plan("CUDA_VISIBLE_DEVICES=0,1,2 torchrun --nproc_per_node=2 a.py\n")
        assert verdict(found, "CUDA_VISIBLE_DEVICES") == "suspicious"

    def test_an_assignment_that_is_not_exported(self) -> None:
        found = plan("CUDA_VISIBLE_DEVICES=2,3\ntorchrun --nproc_per_node=2 a.py\n")
        row = judgements(found, "CUDA_VISIBLE_DEVICES")[0]
        assert (row.judgement, row.correction) == ("no effect", "export CUDA_VISIBLE_DEVICES=2,3")
        assert "CUDA_VISIBLE_DEVICES" in only(found).not_exported

    def test_servers_sizes_against_devices(self) -> None:
        text = "CUDA_VISIBLE_DEVICES={} vllm serve m -tp 2 -pp 2\n"
        assert verdict(plan(text.format("0,1,2,3")), "tensor parallel size") == "ok"
        assert verdict(plan(text.format("0,1,2")), "tensor parallel size") == "conflict"
        assert verdict(plan(text.format("0,1,2,3,4")), "tensor parallel size") == "suspicious"


class TestRendezvous:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("--node_rank=$RANK", "suspicious"),
            ("--node_rank=$SLURM_PROCID", "suspicious"),
            ("", "conflict"),
            ("--node_rank=2", "conflict"),
        ],
    )
    def test_node_number(self, words: str, expected: str) -> None:
        found = plan(f"torchrun --nnodes 2 --nproc_per_node 8 --master_addr n0 {words} a.py\n")
        assert verdict(found, "node rank") == expected

    @pytest.mark.parametrize("words", ["--node_rank=$NODE_RANK", "--node_rank=1"])
    def test_node_number_in_order(self, words: str) -> None:
        found = plan(f"torchrun --nnodes 2 --nproc_per_node 8 --master_addr n0 {words} a.py\n")
        assert judgements(found, "node rank") == []

    def test_a_number_that_the_batch_script_expands(self) -> None:
        head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n"
        line = (
            "torchrun --nnodes 2 --nproc_per_node 8 --master_addr n0 --node_rank $SLURM_NODEID a.py"
        )
        assert verdict(plan(f"{head}srun {line}\n"), "node rank") == "conflict"
        assert judgements(plan(f"{head}srun bash -c '{line}'\n"), "node rank") == []

    def test_localhost_over_several_nodes(self) -> None:
        found = plan("torchrun --nnodes 2 --node_rank $NODE_RANK --nproc_per_node 8 a.py\n")
        assert verdict(found, "rendezvous address") == "conflict"

    def test_one_node_may_be_localhost(self) -> None:
        assert wrong(plan("torchrun --nproc_per_node 8 --master_addr localhost a.py\n")) == set()

    def test_parts_on_several_nodes_are_one_program(self) -> None:
        found = plan(
            """
            i=0
            for host in n0 n1 n2; do
                ssh $host "torchrun --nnodes 3 --node_rank $i --master_addr n0 \\
                    --nproc_per_node 4 a.py" &
                i=$((i + 1))
            done
            wait
            """
        )
        assert only(found).processes == 12
        assert wrong(found) == set()


class TestMasterPort:
    @pytest.mark.parametrize(
        ("command", "expected"),
        [
            ("torchrun --nproc_per_node 2 a.py", "no effect"),
            ("accelerate launch --num_processes 2 a.py", "no effect"),
            ("deepspeed --num_gpus 2 a.py", "no effect"),
            ("python train.py", "no effect"),
            ("vllm serve m", "no effect"),
            ("NPROC_PER_NODE=2 swift sft --model m", "ok"),
            ("swift sft --model m", "no effect"),
            ("FORCE_TORCHRUN=1 llamafactory-cli train a.yaml", "ok"),
            ("python fit.py --devices 2 --accelerator gpu --strategy ddp", "ok"),
        ],
    )
    def test_who_reads_it(self, command: str, expected: str) -> None:
        found = plan(f"export MASTER_PORT=29511\n{command}\n")
        assert verdict(found, "MASTER_PORT") == expected

    def test_passed_as_a_flag_it_needs_no_export(self) -> None:
        found = plan(
            "MASTER_PORT=29511\ntorchrun --master_port $MASTER_PORT --nproc_per_node 2 a.py\n"
        )
        assert judgements(found, "MASTER_PORT") == []


class TestTimeouts:
    def test_seconds_that_look_like_milliseconds(self) -> None:
        row = judgements(
            plan("torchrun --nproc_per_node 2 a.py --ddp_timeout 3600000\n"), "ddp_timeout"
        )
        assert [(j.judgement, j.correction) for j in row] == [("suspicious", "--ddp_timeout 3600")]

    def test_a_variable_that_nothing_reads(self) -> None:
        found = plan("export NCCL_TIMEOUT=3600\ntorchrun --nproc_per_node 2 a.py\n")
        assert verdict(found, "NCCL_TIMEOUT") == "no effect"

    def test_heartbeat_shorter_than_the_collectives(self) -> None:
        text = "export TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC={}\ntorchrun --nproc_per_node 2 a.py\n"
        name = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"
        assert verdict(plan(text.format(120)), name) == "suspicious"
        assert verdict(plan(text.format(900)), name) == "ok"

    def test_defaults_by_version(self) -> None:
        text = "torchrun --nproc_per_node 2 a.py\n"
        assert only(plan(text)).timeouts[0].milliseconds == 600_000
        old = plan(text, versions={"torch": "2.1.2"})
        assert only(old).timeouts[0].milliseconds == 1_800_000

    def test_minutes_of_megatron(self) -> None:
        found = plan(
            "torchrun --nproc_per_node 2 pretrain_gpt.py --distributed-timeout-minutes 25\n"
        )
        assert only(found).timeouts[0].milliseconds == 1_500_000


class TestServing:
    SERVER = "CUDA_VISIBLE_DEVICES=0 swift rollout --model m --port {} &\n"
    TRAINER = (
        "CUDA_VISIBLE_DEVICES=1,2 NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model m "
        "--use_vllm true --vllm_mode server --vllm_server_host {} --vllm_server_port {}\n"
    )

    def test_address_and_port_that_agree(self) -> None:
        found = plan(self.SERVER.format(8001) + self.TRAINER.format("127.0.0.1", 8001))
        assert verdict(found, "server port") == "ok"
        assert verdict(found, "server host") == "ok"

    def test_another_port(self) -> None:
        found = plan(self.SERVER.format(8001) + self.TRAINER.format("127.0.0.1", 8002))
        assert verdict(found, "server port") == "conflict"

    def test_two_servers_and_a_trainer_with_lists(self) -> None:
        found = plan(
            self.SERVER.format(8001)
            + self.SERVER.format(8002).replace("=0", "=3")
            + self.TRAINER.format("127.0.0.1 127.0.0.1", "8001 8002")
        )
        assert verdict(found, "server port") == "ok"
        trainer = found.programs[2]
        ports = [p.value.text for p in trainer.ports if p.purpose == "weight-exchange"]
        assert ports == ["51216", "51217"]

    def test_two_trainers_share_the_weight_exchange_port(self) -> None:
        one = self.SERVER.format(8001) + self.TRAINER.format("127.0.0.1", 8001).replace(
            "\n", " &\n"
        )
        two = self.SERVER.format(8002).replace("=0", "=3") + self.TRAINER.format(
            "127.0.0.1", 8002
        ).replace("=1,2", "=4,5")
        found = plan(one + two)
        row = judgements(found, "weight-exchange port")[0]
        assert row.judgement == "conflict"
        assert row.correction == "--vllm_server_group_port 51226"

    def test_a_server_that_nothing_starts(self) -> None:
        trainer = self.TRAINER.format("127.0.0.1", 8001)
        # a script of its own for each program is how most start them
        assert verdict(plan(trainer), "server port") == "ok"
        other = "CUDA_VISIBLE_DEVICES=7 python judge.py --port 9000 &\ntorchrun other_train.py &\n"
        assert verdict(plan(other + trainer), "server port") == "suspicious"

    def test_a_server_elsewhere_is_not_missed(self) -> None:
        assert verdict(plan(self.TRAINER.format("10.0.0.9", 8001)), "server port") == "ok"

    def test_nccl_variables_that_differ_within_one_communicator(self) -> None:
        found = plan(
            "NCCL_P2P_DISABLE=1 "
            + self.SERVER.format(8001)
            + self.TRAINER.format("127.0.0.1", 8001)
        )
        assert verdict(found, "NCCL_P2P_DISABLE") == "suspicious"

    def test_a_proxy_that_does_not_spare_this_machine(self) -> None:
        pair = self.SERVER.format(8001) + self.TRAINER.format("127.0.0.1", 8001)
        proxy = "export http_proxy=http://p:1\n"
        assert verdict(plan(proxy + pair), "http_proxy") == "conflict"
        spared = plan(proxy + "export no_proxy=localhost,127.0.0.1\n" + pair)
        assert judgements(spared, "http_proxy") == []

    def test_a_loop_of_questions_is_no_bad_habit(self) -> None:
        pair = self.SERVER.format(8001) + "{}\n" + self.TRAINER.format("127.0.0.1", 8001)
        assert verdict(plan(pair.replace("{}", "sleep 60")), "readiness") == "suspicious"
        asked = pair.replace("{}", "until curl -sf 127.0.0.1:8001/health; do sleep 3; done")
        assert judgements(plan(asked), "readiness") == []


class TestBatches:
    @pytest.mark.parametrize(("each", "expected"), [(4, "ok"), (3, "conflict")])
    def test_groups_of_generations(self, each: int, expected: str) -> None:
        # 2 processes × each × 1 step, in groups of 4
        found = plan(
            "NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model m --num_generations 4 "
            f"--per_device_train_batch_size {each}\n"
        )
        assert verdict(found, "num_generations") == expected

    @pytest.mark.parametrize(("batch", "expected"), [(32, "ok"), (30, "conflict")])
    def test_verl(self, batch: int, expected: str) -> None:
        found = plan(
            f"python3 -m verl.trainer.main_ppo data.train_batch_size={batch} "
            "actor_rollout_ref.rollout.n=2 trainer.n_gpus_per_node=8 trainer.nnodes=1\n"
        )
        assert verdict(found, "train batch size") == expected


class TestContainersAndNetwork:
    @pytest.mark.parametrize(
        ("flags", "expected"),
        [
            ("", "conflict"),
            ("--shm-size 16g", "ok"),
            ("--shm-size=8192m", "ok"),
            ("--ipc=host", "ok"),
            ("--shm-size=64m", "conflict"),
        ],
    )
    def test_shared_memory(self, flags: str, expected: str) -> None:
        found = plan(f"docker run --gpus all --rm {flags} image torchrun --nproc_per_node 4 a.py\n")
        assert verdict(found, "shared memory") == expected

    def test_the_shells_variables_do_not_enter_a_container(self) -> None:
        found = plan(
            "export NCCL_DEBUG=INFO NCCL_ALGO=Ring\n"
            "docker run -e NCCL_ALGO --ipc=host image torchrun --nproc_per_node 2 a.py\n"
        )
        assert list(only(found).environment) == ["NCCL_ALGO"]
        assert "NCCL_DEBUG" in only(found).not_exported

    @pytest.mark.parametrize("name", ["^docker0", "=eth0"])
    def test_signs_that_gloo_does_not_know(self, name: str) -> None:
        found = plan(f"export GLOO_SOCKET_IFNAME={name}\ntorchrun --nproc_per_node 2 a.py\n")
        assert verdict(found, "GLOO_SOCKET_IFNAME") == "conflict"

    def test_nccl_knows_them(self) -> None:
        found = plan("export NCCL_SOCKET_IFNAME=^docker0\ntorchrun --nproc_per_node 2 a.py\n")
        assert verdict(found, "NCCL_SOCKET_IFNAME") == "ok"


def test_flight_recorder() -> None:
    text = "{}torchrun --nproc_per_node 2 a.py\n"
    assert verdict(plan(text.format("")), "Flight Recorder") == "ok"
    on = "export TORCH_NCCL_TRACE_BUFFER_SIZE=2000\n"
    row = judgements(plan(text.format(on)), "Flight Recorder")[0]
    assert (row.judgement, lines(row)) == ("ok", [1])
    off = "export TORCH_NCCL_TRACE_BUFFER_SIZE=0\n"
    assert verdict(plan(text.format(off)), "Flight Recorder") == "suspicious"


def test_a_comment_tells_what_the_script_is() -> None:
    found = plan(
        'CUDA_VISIBLE_DEVICES=2 python go.py  # GRPOConfig(use_vllm=True, vllm_mode="server")\n'
    )
    program = only(found)
    assert (program.software, program.role) == ("trl", "trainer")
    assert [p.purpose for p in program.ports] == ["http", "weight-exchange"]


def test_configuration_files_that_a_command_names() -> None:
    found = plan(
        "accelerate launch --config_file acc.yaml x.py --deepspeed ds.json\n",
        configs={
            "acc.yaml": """
                compute_environment: LOCAL_MACHINE
                distributed_type: MULTI_GPU
                num_machines: 1
                num_processes: 4
                main_process_port: 29700
                gpu_ids: 0,1,2,3
                """,
            "ds.json": '{"zero_optimization": {"stage": 3}}',
        },
    )
    program = only(found)
    assert (program.processes, program.devices) == (4, (0, 1, 2, 3))
    assert program.ports[0].value.text == "29700"
    place = program.ports[0].value.place
    assert place is not None
    assert (place.source, place.line) == ("acc.yaml", 5)
    stage = judgements(found, "ZeRO stage")[0]
    assert stage.values == {"trainer": "3"}


def test_a_command_told_twice_is_one_program() -> None:
    first = "NPROC_PER_NODE=2 swift sft --model m --lr 1e-4 --max_length 512\n"
    printed = (
        "python -m torch.distributed.run --nproc_per_node 2 /x/swift/cli/sft.py "
        "--model m --lr 1e-4 --max_length 512\n"
    )
    from unstall.launch import read_plan
    from unstall.launch.texts import Script
    from unstall.model.facts import Place

    found = read_plan([Script(Place("r.txt", 3), first), Script(Place("r.txt", 90), printed)])
    assert only(found).processes == 2


def _started(*parts: tuple[str, str, bool]) -> list[str]:
    from unstall.launch import read_plan
    from unstall.launch.texts import Script
    from unstall.model.facts import Place

    scripts = [Script(Place(source, 1), text, echo) for source, text, echo in parts]
    return [f"{one.label} {one.place.source}" for one in read_plan(scripts).programs]


@pytest.mark.parametrize("there", ["ssh -p 22 node1", "pdsh -w node1"])
def test_another_machines_shell_has_none_of_this_ones_variables(there: str) -> None:
    script = (
        "export NCCL_DEBUG=INFO\n"
        f'MASTER_PORT=29511 {there} "WANDB_MODE=offline torchrun --nproc_per_node 2 a.py"\n'
        "torchrun --nproc_per_node 2 b.py\n"
    )
    far, near = plan(script).programs
    assert set(far.environment) == {"WANDB_MODE"}
    assert set(near.environment) == {"NCCL_DEBUG"}


def test_what_a_script_starts_and_a_log_shows_is_one_program() -> None:
    """The script tells more (its variables), whichever comes first."""
    script = (
        "export CUDA_VISIBLE_DEVICES=4,5\n"
        "trl vllm-serve --model m --port 8111 &\n"
        "trl vllm-serve --model m --port 8222 &\n"
    )
    log = "python /x/trl/scripts/vllm_serve.py --model m --port 8222\n"
    both = ["rollout server 1 run.sh", "rollout server 2 run.sh"]
    assert _started(("run.sh", script, False), ("run.log", log, True)) == both
    log = "trl vllm-serve --model m --port 8222\n"
    assert sorted(_started(("a.log", log, True), ("run.sh", script, False))) == both


def test_two_scripts_and_two_logs_are_two_programs() -> None:
    command = "torchrun --nproc_per_node 2 train.py --lr 1e-4 --model m\n"
    assert len(_started(("a.sh", command, False), ("b.sh", command, False))) == 2
    assert len(_started(("a.log", command, True), ("b.log", command, True))) == 2


def test_a_log_that_shows_other_flags_is_another_program() -> None:
    script = "torchrun --nproc_per_node 2 train.py --lr 1e-4 --model m\n"
    log = "torchrun --nproc_per_node 2 train.py --lr 5e-4 --model m\n"
    assert len(_started(("a.sh", script, False), ("a.log", log, True))) == 2


def test_a_host_file_tells_nodes_and_processes() -> None:
    from unstall.launch import read_plan
    from unstall.launch.texts import Config, Script
    from unstall.model.facts import Place

    hosts = Config(Place("hosts", 1), "w-1 slots=4\nw-2 slots=4  # second\n\n", "hostfile")
    deepspeed = Script(Place("a.sh", 1), "deepspeed --hostfile ./hosts --master_addr w-1 a.py\n")
    program = only(read_plan([deepspeed], [hosts]))
    assert (program.nodes, program.processes) == (2, 8)
    mpi = Script(Place("a.sh", 1), "mpirun --hostfile hosts -np 6 python train.py\n")
    program = only(read_plan([mpi], [hosts]))
    assert (program.nodes, program.processes) == (2, 6)
