"""What each framework's launch knowledge makes of its own flags."""

from __future__ import annotations

import pytest

from tests.launch.plans import only, plan, verdict
from unstall.model.plan import Value
from unstall.programs.base import number, ordinals, overrides, parse_flags, release, seconds, truth


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
