"""A report's script without its backslashes and comment signs, prose between: the whole table."""

from __future__ import annotations

from tests.launch.plans import SCRIPTS, judgements, lines, plan, verdict
from unstall.model.plan import Plan

TEXT = (SCRIPTS / "grpo_server_lost_backslashes.sh").read_text(encoding="utf-8")
VERSIONS = {"ms-swift": "3.9.1", "vllm": "0.10.2", "torch": "2.8.0"}


def read() -> Plan:
    return plan(TEXT, versions=VERSIONS)


def line_of(text: str, nth: int = 0) -> int:
    return [n for n, line in enumerate(TEXT.split("\n"), 1) if text in line][nth]


def test_two_programs_with_role_software_devices_and_processes() -> None:
    server, trainer = read().programs
    assert (server.label, server.role, server.software, server.engine) == (
        "rollout server", "rollout", "ms-swift", "vllm",
    )  # fmt: skip
    assert (server.devices, server.processes, server.parallel.tensor, server.parallel.data) == (
        (3,), 1, 1, 1,
    )  # fmt: skip
    assert server.background
    assert (trainer.label, trainer.role, trainer.software) == ("trainer", "trainer", "ms-swift")
    assert (trainer.devices, trainer.processes, trainer.nodes) == ((0, 1, 2), 3, 1)
    assert not trainer.background


def test_the_command_stands_where_its_first_word_does() -> None:
    server, trainer = read().programs
    assert server.place is not None
    assert server.place.line == line_of("swift rollout")
    assert trainer.place is not None
    assert trainer.place.line == line_of("swift rlhf")
    port = server.flags["port"]
    assert port.place is not None
    assert port.place.line == line_of("--port $HTTP_AT")


def test_the_servers_port_is_one_unknown_in_both_programs() -> None:
    server, trainer = read().programs
    http = next(p for p in server.ports if p.purpose == "http")
    asked = next(p for p in trainer.ports if p.purpose == "http")
    assert (http.value.known, http.value.text, http.picked) == (
        False,
        "$(free_port)",
        "reserved-late",
    )
    assert http.listens
    assert not asked.listens
    assert http.value.same_as(asked.value) is True


def test_two_free_ports_are_told_apart() -> None:
    server, _ = read().programs
    http = next(p for p in server.ports if p.purpose == "http")
    assert server.environment["ENGINE_PORT"].same_as(http.value) is None
    assert server.environment["MASTER_PORT"].same_as(server.environment["ENGINE_PORT"]) is True


def test_the_trainers_master_port_comes_from_the_cluster() -> None:
    _, trainer = read().programs
    rendezvous = next(p for p in trainer.ports if p.purpose == "rendezvous")
    assert rendezvous.value.text == "$(echo $CLUSTER_PORTS | cut -d ',' -f 2)"
    assert not rendezvous.value.known
    assert "NPROC_PER_NODE" in trainer.environment
    assert "NPROC_PER_NODE" not in trainer.flags


def test_what_is_set_for_the_server_and_read_by_nothing_has_no_effect() -> None:
    found = read()
    assert verdict(found, "MASTER_PORT") == "no effect"
    assert verdict(found, "ENGINE_PORT") == "no effect"
    row = judgements(found, "MASTER_PORT")[0]
    assert line_of("MASTER_PORT=$ENGINE_PORT") in lines(row)
    assert "data-parallel rendezvous" in str(row.why)
    assert "port-collision" in row.concerns


def test_settings_that_agree_are_in_order() -> None:
    found = read()
    for name in (
        "CUDA_VISIBLE_DEVICES", "NPROC_PER_NODE", "MAX_PIXELS", "server port", "server host",
        "tensor parallel size", "data parallel size", "ZeRO stage", "collective time-out",
        "weight-exchange port",
    ):  # fmt: skip
        assert verdict(found, name) == "ok", name


def test_time_outs_of_the_groups_differ_and_reach_their_own_only() -> None:
    found = read()
    row = judgements(found, "collective time-out")[0]
    assert row.values == {
        "rollout server": "600 s (NCCL default)",
        "trainer": "18000000 s (ddp_timeout default)",
    }
    assert "600000 ms can only speak of a group of rollout server" in str(row.why)


def test_twelve_samples_are_no_multiple_of_eight_generations() -> None:
    # 4 on each device × 3 processes × 1 step = 12
    assert verdict(read(), "num_generations") == "conflict"


def test_bad_habits_are_suspicious_and_no_conflict() -> None:
    found = read()
    assert verdict(found, "HTTP_AT") == "suspicious"
    assert verdict(found, "readiness") == "suspicious"


def test_both_readings_are_told() -> None:
    notes = [str(n.text) for n in read().notes]
    lost = [n for n in notes if "trailing backslashes are lost" in n]
    assert len(lost) == 1
    assert "MASTER_PORT" in lost[0]
    assert "would not reach the program" in lost[0]
    assert any("taken for comments" in n for n in notes)


def test_data_parallel_engines_of_the_affected_releases_conflict() -> None:
    two = TEXT.replace("CUDA_VISIBLE_DEVICES=3", "CUDA_VISIBLE_DEVICES=3,4").replace(
        "--vllm_tensor_parallel_size 1 &",
        "--vllm_tensor_parallel_size 1\n--vllm_data_parallel_size 2 &",
    )
    assert verdict(plan(two, versions=VERSIONS), "data parallel engines") == "conflict"
    assert verdict(plan(two), "data parallel engines") == "suspicious"
    fixed = plan(two, versions={**VERSIONS, "ms-swift": "4.3.0"})
    assert judgements(fixed, "data parallel engines") == []
    asked = two.replace(
        "--vllm_data_parallel_size 2", "--vllm_data_parallel_size 2\n--vllm_use_async_engine true"
    )
    assert judgements(plan(asked, versions=VERSIONS), "data parallel engines") == []
