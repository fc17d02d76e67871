"""What each framework's launch knowledge makes of its own flags."""

from __future__ import annotations

import pytest

from tests.launch.plans import only, plan, verdict
from unstall.model.plan import Value
from unstall.programs.base import number, ordinals, overrides, parse_flags, release, seconds, truth
from unstall.programs.vllm.names import may_read


def words(text: str) -> list[Value]:
    return [Value(w) for w in text.split()]


class TestFlags:
    def test_spellings(self) -> None:
        flags, rest = parse_flags(
            words("a --one 1 --two-x=2 -dp 3 --on --neg -1 b"),
            short={"-dp": "data"},
            switches={"on"},
        )
        assert {k: v.text for k, v in flags.items()} == {
            "one": "1", "two_x": "2", "data": "3", "on": "true", "neg": "-1",
        }  # fmt: skip
        assert [w.text for w in rest] == ["a", "b"]

    def test_many_values(self) -> None:
        flags, _ = parse_flags(words("--hosts a b c --x"), many=True)
        assert flags["hosts"].text == "a b c"
        assert flags["x"].text == "true"

    def test_the_first_operand_ends_a_launchers_flags(self) -> None:
        flags, rest = parse_flags(words("--n 2 s.py --n 3"), stop=True)
        assert flags["n"].text == "2"
        assert [w.text for w in rest] == ["s.py", "--n", "3"]

    def test_the_last_one_wins(self) -> None:
        flags, _ = parse_flags(words("--n 2 --n 3"))
        assert flags["n"].text == "3"

    def test_hydra(self) -> None:
        keys, rest = overrides(words("a.b=1 +c.d=x ++e='q' --f=2 plain"))
        assert {k: v.text for k, v in keys.items()} == {"a.b": "1", "c.d": "x", "e": "q"}
        assert [w.text for w in rest] == ["--f=2", "plain"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", 3), (" 4 ", 4), ("2.0", 2), ("1e3", 1000), ("2.5", None), ("x", None), ("", None)],
)
def test_number(text: str, expected: int | None) -> None:
    assert number(Value(text)) == expected


def test_unknown_values_are_no_numbers() -> None:
    unknown = Value("$N", known=False, token="env:N")  # noqa: S106 - a token of a value
    assert number(unknown) is None
    assert seconds(unknown) is None
    assert truth(unknown) is None
    assert ordinals(unknown) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0,2", (0, 2)), ("4-6", (4, 5, 6)), ("", ()), ("GPU-ab", None), ("3", (3,))],
)
def test_ordinals(text: str, expected: tuple[int, ...] | None) -> None:
    assert ordinals(Value(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0.11.0", (0, 11, 0)), ("v2.9.0+cu128", (2, 9, 0)), ("0.8.5rc1", (0, 8, 5)), ("dev", None)],
)
def test_release(text: str, expected: tuple[int, ...] | None) -> None:
    assert release(text) == expected


@pytest.mark.parametrize(
    ("command", "processes", "nodes", "port"),
    [
        ("torchrun a.py", 1, 1, "29500"),
        ("torchrun --nproc-per-node=3 --nnodes=2 --node-rank 0 a.py", 6, 2, "29500"),
        ("python -m torch.distributed.launch --nproc_per_node 4 --master_port 12 a.py", 4, 1, "12"),
        ("python3 -m torch.distributed.run --nproc_per_node 4 -m pkg.train", 4, 1, "29500"),
        ("PET_NPROC_PER_NODE=2 torchrun a.py", 2, 1, "29500"),
        ("CUDA_VISIBLE_DEVICES=1,2,3 torchrun --nproc_per_node gpu a.py", 3, 1, "29500"),
        ("torchrun --nnodes 1:4 --rdzv-backend c10d --rdzv-endpoint h:29400 --nproc-per-node 8 a",
         32, 4, "29400"),
        ("accelerate launch --num_processes 4 a.py", 4, 1, "29500"),
        ("accelerate launch --multi_gpu --gpu_ids 1,3 a.py", 2, 1, "29500"),
        ("accelerate launch --num_machines 2 --num_processes 16 --main_process_ip h "
         "--main_process_port 777 --machine_rank $R a.py", 16, 2, "777"),
        ("deepspeed a.py", None, 1, "29500"),
        ("deepspeed --include localhost:1,2 --master_port 555 a.py", 2, 1, "555"),
        ("CUDA_VISIBLE_DEVICES=0,5 deepspeed a.py", 2, 1, "29500"),
        ("deepspeed --include 'a:0,1@b:0,1' --hostfile h a.py", None, 2, "29500"),
    ],
)  # fmt: skip
def test_launchers(command: str, processes: int | None, nodes: int, port: str) -> None:
    program = only(plan(command + "\n"))
    assert (program.processes, program.nodes) == (processes, nodes)
    assert [p.value.text for p in program.ports if p.purpose == "rendezvous"] == [port]


@pytest.mark.parametrize(
    ("command", "sizes", "processes"),
    [
        ("vllm serve m", (1, 1, 1), 1),
        ("vllm serve m -tp 4 -dp=2", (4, 2, 1), 8),
        ("vllm serve m --tensor-parallel-size 2 --pipeline_parallel_size 3", (2, 1, 3), 6),
        ("python -m vllm.entrypoints.openai.api_server --model m -tp 2", (2, 1, 1), 2),
        ("trl vllm-serve --model m --tensor_parallel_size 2 --data_parallel_size 2", (2, 2, 1), 4),
        ("swift rollout --model m --vllm_data_parallel_size 4", (1, 4, 1), 4),
        ("python -m sglang.launch_server --model-path m --tp 4 --dp 2", (4, 2, 1), 8),
        ("sglang serve m --tp 8 --dp 8 --enable-dp-attention", (8, 8, 1), 8),
    ],
)  # fmt: skip
def test_servers(command: str, sizes: tuple[int, int, int], processes: int) -> None:
    program = only(plan(command + "\n"))
    found = program.parallel
    assert (found.tensor, found.data, found.pipeline) == sizes
    assert program.processes == processes


@pytest.mark.parametrize(
    ("command", "port", "host"),
    [
        ("vllm serve m", "8000", "0.0.0.0"),  # noqa: S104
        ("vllm serve m --host h --port 1", "1", "h"),
        ("swift rollout --model m", "8000", "0.0.0.0"),  # noqa: S104
        ("swift deploy --model m --port 9", "9", "0.0.0.0"),  # noqa: S104
        ("trl vllm-serve --model m", "8000", "0.0.0.0"),  # noqa: S104
        ("python -m sglang.launch_server --model-path m", "30000", "127.0.0.1"),
    ],
)
def test_http_ports(command: str, port: str, host: str) -> None:
    program = only(plan(command + "\n"))
    http = next(p for p in program.ports if p.purpose == "http")
    assert http.host is not None
    assert (http.value.text, http.host.text) == (port, host)


def test_swift_without_processes_per_node_is_one_process() -> None:
    program = only(plan("CUDA_VISIBLE_DEVICES=0,1 swift sft --model m\n"))
    assert program.processes == 1
    assert program.ports == ()


def test_ports_and_time_outs_of_vllm_by_variable() -> None:
    found = plan(
        "export VLLM_PORT=9000 VLLM_MY_PORT=1 VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=60\nvllm serve m\n"
    )
    assert verdict(found, "VLLM_PORT") == "ok"
    assert verdict(found, "VLLM_MY_PORT") == "no effect"
    limits = {t.name: t.milliseconds for t in only(found).timeouts}
    assert limits["VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"] == 60_000


@pytest.mark.parametrize(
    "command",
    [
        "pip install vllm",
        "python -c 'print(1)'",
        "python download_model.py",
        "nvidia-smi",
        "swift",
        "accelerate config",
        "vllm bench serve",
        "ray status",
        "echo torchrun a.py",
        "git clone https://x/torchrun",
    ],
)
def test_no_program_of_a_job(command: str) -> None:
    assert plan(command + "\n").programs == ()


@pytest.mark.parametrize(
    "wrapper",
    [
        "nohup", "time", "env A=1", "sudo -E", "numactl --cpunodebind=0 --membind=0", "timeout 3h",
        "stdbuf -oL -eL", "setsid", "taskset -c 0-7", "nice -n 5", "uv run", "poetry run",
        "conda run -n env --no-capture-output", "nsys profile -o out -t cuda,nvtx", "exec",
        "singularity exec --nv image.sif", "bash -c 'exec \"$@\"' bash",
    ],
)  # fmt: skip
def test_wrappers(wrapper: str) -> None:
    program = only(plan(f"{wrapper} torchrun --nproc_per_node 3 a.py\n"))
    assert program.processes == 3


@pytest.mark.parametrize(
    "text",
    [
        "tmux new-session -d -s run 'torchrun --nproc_per_node 3 a.py'\n",
        "screen -dmS run bash -c 'torchrun --nproc_per_node 3 a.py'\n",
        "ssh -p 22 -o A=b user@host 'cd /x && torchrun --nproc_per_node 3 a.py'\n",
        "bash <<'EOF'\ntorchrun --nproc_per_node 3 a.py\nEOF\n",
        "cmd='torchrun --nproc_per_node 3 a.py'\neval $cmd\n",
        'cmd=(torchrun --nproc_per_node 3 a.py)\n"${cmd[@]}" 2>&1 | tee log\n',
        'run() { torchrun "$@"; }\nrun --nproc_per_node 3 a.py\n',
    ],
)
def test_commands_inside_of_texts(text: str) -> None:
    assert only(plan(text)).processes == 3


class TestVllmByVersion:
    """Hand-checked in vLLM's sources: names, defaults and since when."""

    @pytest.mark.parametrize(
        ("flags", "per_node", "processes"),
        [
            ("-dp 4 -dpl 2 -dpa 10.0.0.1 -dpp 13345", 2, 4),
            ("-dp 4 -dpn 1 -dpa 10.0.0.1", 1, 4),
            ("-dp 4 -dpe", 1, 4),
            ("-tp 8 -pp 2 -n 2 -r 1 --master-addr 10.0.0.1", 8, 16),
            ("-tp 2 -dp 2 -ep", 4, 4),
        ],
    )
    def test_short_forms(self, flags: str, per_node: int, processes: int) -> None:
        found = plan(f"vllm serve m {flags} --port 8003\n")
        program = only(found)
        assert program.processes == processes
        row = next(
            j for j in found.judgements if j.name in ("tensor parallel size", "data parallel size")
        )
        assert str(per_node) in str(row.why)

    def test_expert_parallel_by_its_short_form(self) -> None:
        assert only(plan("vllm serve m -dp 2 -ep\n")).parallel.expert_enabled

    def test_switches_take_no_value(self) -> None:
        program = only(plan("vllm serve --enforce-eager --no-enable-prefix-caching org/m\n"))
        assert program.flags["model"].text == "org/m"
        assert program.flags["no_enable_prefix_caching"].text == "true"

    def test_several_nodes_meet_at_29501(self) -> None:
        program = only(
            plan("vllm serve m -tp 16 --nnodes 2 --node-rank 0 --master-addr 10.1.1.1\n")
        )
        assert [(p.purpose, p.value.text) for p in program.ports if p.purpose == "rendezvous"] == [
            ("rendezvous", "29501")
        ]

    def test_messages_between_engines_need_a_port_only_across_nodes(self) -> None:
        def purposes(flags: str) -> set[str]:
            return {p.purpose for p in only(plan(f"vllm serve m {flags}\n")).ports if p.listens}

        assert "data-parallel messaging" not in purposes("-dp 2")
        assert "data-parallel messaging" not in purposes("-dp 2 -dpl 2")
        assert "data-parallel messaging" in purposes("-dp 4 -dpl 2 -dpa 10.0.0.1")
        assert "data-parallel messaging" not in purposes("-dp 4 -dpn 3 -dpa 10.0.0.1")

    @pytest.mark.parametrize(
        ("name", "version", "read"),
        [
            ("VLLM_PORT", "0.8.0", True),
            ("VLLM_DP_RANK_LOCAL", "0.8.0", False),
            ("VLLM_DP_RANK_LOCAL", "0.8.5", True),
            ("VLLM_RPC_TIMEOUT", "0.22.0", True),
            ("VLLM_RPC_TIMEOUT", "0.23.0", False),
            ("VLLM_RPC_TIMEOUT", None, True),
            ("VLLM_LOOPBACK_IP", "0.9.2", False),
            ("VLLM_HTTP_PORT", None, False),
            ("VLLM_USE_V1", "0.10.0", True),
        ],
    )
    def test_variables(self, name: str, version: str | None, read: bool) -> None:
        assert may_read(name, version) is read

    def test_a_variable_of_another_version_has_no_effect(self) -> None:
        text = "export VLLM_RPC_TIMEOUT=90000\nvllm serve m\n"
        assert verdict(plan(text, versions={"vllm": "0.11.0"}), "VLLM_RPC_TIMEOUT") == "ok"
        assert verdict(plan(text, versions={"vllm": "0.30.0"}), "VLLM_RPC_TIMEOUT") == "no effect"


class TestSglangByVersion:
    @pytest.mark.parametrize("name", ["--dist-init-addr", "--nccl-init-addr"])
    def test_two_names_of_the_rendezvous(self, name: str) -> None:
        text = f"python -m sglang.launch_server --model m --tp 4 --nnodes 2 {name} 10.1.1.1:77\n"
        program = only(plan(text))
        assert [(p.value.text) for p in program.ports if p.purpose == "rendezvous"] == ["77"]

    def test_switches_take_no_value(self) -> None:
        program = only(plan("sglang serve --enable-metrics org/m\n"))
        assert program.flags["model_path"].text == "org/m"

    def test_master_port_counts_with_the_override(self) -> None:
        text = "export MASTER_PORT=88 {}\npython -m sglang.launch_server --model-path m --tp 2\n"
        assert verdict(plan(text.format("")), "MASTER_PORT") == "no effect"
        override = "SGLANG_DISTRIBUTED_INIT_METHOD_OVERRIDE=env://"
        assert verdict(plan(text.format(override)), "MASTER_PORT") == "ok"


def test_srun_options_of_two_words() -> None:
    text = "srun --mem-per-cpu 4G --ntasks-per-core 1 --task-epilog e.sh -N 2 torchrun fit.py\n"
    program = only(plan(text))
    assert program.command[-2:] == ("torchrun", "fit.py")
    given = {name: program.flags[name].text for name in ("mem_per_cpu", "task_epilog")}
    assert given == {"mem_per_cpu": "4G", "task_epilog": "e.sh"}


def test_switches_of_accelerate() -> None:
    program = only(plan("accelerate launch --multi_gpu --same_network --num_processes 2 fit.py\n"))
    assert program.processes == 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("RANK=0 WORLD_SIZE=2", "ok"),
        ("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0", "ok"),
        ("RANK=0", "no effect"),
        ("OMP_NUM_THREADS=4", "no effect"),
    ],
)
def test_plain_python_with_a_rank_and_a_world_size_meets_the_others_at_the_address(
    given: str, expected: str
) -> None:
    found = plan(f"export MASTER_ADDR=10.0.0.4 MASTER_PORT=29611\n{given} python train.py\n")
    assert verdict(found, "MASTER_ADDR") == expected
    assert verdict(found, "MASTER_PORT") == expected
