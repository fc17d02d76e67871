"""Devices that are asked for against those that are there; each conflict beside its neighbour."""

from __future__ import annotations

import pytest

from tests.launch.plans import judgements, lines, only, plan, verdict, wrong
from unstall.launch import read_plan
from unstall.launch.texts import Config, Script
from unstall.model.facts import Place
from unstall.model.plan import Plan


def read(text: str, hosts: str) -> Plan:
    """The plan of a script beside a host file named ``hosts``."""
    return read_plan(
        [Script(Place("a.sh", 1), text)], [Config(Place("hosts", 1), hosts, "hostfile")]
    )


class TestHostFiles:
    HOSTS = "a slots=4\nb slots=4\n"

    @pytest.mark.parametrize(("gpus", "bad"), [(4, False), (8, True), (2, False)])
    def test_deepspeed(self, gpus: int, bad: bool) -> None:
        text = f"deepspeed --hostfile hosts --num_gpus {gpus} fit.py\n"
        found = read(text, self.HOSTS)
        assert (wrong(found) == {"num_gpus"}) == bad
        if bad:
            (row,) = judgements(found, "num_gpus")
            assert {p.source for p in row.places} == {"a.sh", "hosts"}

    @pytest.mark.parametrize(
        ("flags", "bad"), [("-np 8", False), ("-np 16", True), ("-np 16 --oversubscribe", False)]
    )
    def test_mpirun(self, flags: str, bad: bool) -> None:
        found = read(f"mpirun {flags} --hostfile hosts python train.py\n", self.HOSTS)
        assert ("processes" in wrong(found)) == bad


class TestOpenRlhf:
    RUN = "python3 -m openrlhf.cli.train_ppo_ray {} --advantage_estimator rloo --remote_rm_url u\n"

    @pytest.mark.parametrize(
        ("flags", "expected"),
        [
            ("--colocate_all_models --vllm_num_engines 4 --vllm_tensor_parallel_size 2", set()),
            ("--colocate_all_models --vllm_num_engines 2 --vllm_tensor_parallel_size 2",
             {"vLLM engines"}),
            ("--colocate_all_models --async_train --vllm_num_engines 2", set()),
            ("--colocate_actor_ref --actor_num_gpus_per_node 4", {"ref devices per node"}),
            ("--colocate_actor_ref --actor_num_gpus_per_node 4 --init_kl_coef 0", set()),
            ("--actor_num_gpus_per_node 4", set()),
        ],
    )  # fmt: skip
    def test_sizes_that_it_asserts(self, flags: str, expected: set[str]) -> None:
        assert wrong(plan(self.RUN.format(flags))) == expected

    @pytest.mark.parametrize(("offered", "doubt"), [(8, True), (32, False)])
    def test_devices_that_ray_does_not_have(self, offered: int, doubt: bool) -> None:
        text = f"ray start --head --num-gpus {offered}\nray job submit -- " + self.RUN.format("")
        assert bool(judgements(plan(text), "devices in all")) == doubt
        several = text.replace("train_ppo_ray", "train_ppo_ray --actor_num_nodes 4")
        assert judgements(plan(several), "devices in all") == []


class TestAxolotl:
    RUN = "axolotl train a.yml --launcher torchrun -- --nnodes {} --nproc_per_node 8 {}\n"
    MEET = "--rdzv_backend c10d --rdzv_endpoint h:77"

    @pytest.mark.parametrize(
        ("nodes", "flags", "bad"),
        [(2, MEET, True), (2, MEET + " --rdzv_id j", False), (1, MEET, False)],
    )
    def test_a_name_that_each_node_draws(self, nodes: int, flags: str, bad: bool) -> None:
        assert (wrong(plan(self.RUN.format(nodes, flags))) == {"rdzv_id"}) == bad


class TestVllmOverRay:
    SERVE = "vllm serve m -tp 8 -pp 2 {}\n"

    @pytest.mark.parametrize(
        ("before", "flag", "version", "expected"),
        [
            ("", "", None, "conflict"),
            ("ray start --head\n", "", None, "suspicious"),
            ("ray start --head\n", "", "0.11.0", "ok"),
            ("ray start --head\n", "", "0.11.1", "conflict"),
            ("ray start --head\n", "ray", "0.11.1", "ok"),
            ("", "ray", None, "ok"),
            ("ray start --head\n", "mp", None, "conflict"),
        ],
    )
    def test_devices_of_other_nodes(
        self, before: str, flag: str, version: str | None, expected: str
    ) -> None:
        given = f"--distributed-executor-backend {flag}" if flag else ""
        text = f"export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7\n{before}" + self.SERVE.format(given)
        found = plan(text, versions={"vllm": version} if version else {})
        assert verdict(found, "tensor parallel size") == expected
        # told where sizes were given, not again for the default beside them
        assert len(judgements(found, "data parallel size")) == (expected == "ok")

    @pytest.mark.parametrize(("size", "bad"), [(2, False), (1, True)])
    def test_pods_of_a_group(self, size: int, bad: bool) -> None:
        manifest = f"""
            apiVersion: leaderworkerset.x-k8s.io/v1
            kind: LeaderWorkerSet
            spec:
              leaderWorkerTemplate:
                size: {size}
                workerTemplate:
                  spec:
                    hostIPC: true
                    containers:
                      - name: serve
                        command: [vllm, serve, m, -tp, "8", -pp, "2"]
                        resources: {{limits: {{nvidia.com/gpu: 8}}}}
        """
        found = plan(configs={"lws.yaml": manifest})
        assert only(found).processes == 16
        assert ("tensor parallel size" in wrong(found)) == bad


def test_a_port_that_each_node_takes_for_itself() -> None:
    text = "FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=$R MASTER_ADDR=h {} llamafactory-cli train a.yml\n"
    assert wrong(plan(text.format(""))) == {"rendezvous port"}
    assert wrong(plan(text.format("MASTER_PORT=77"))) == set()
    outside = text.replace("MASTER_ADDR=h", "MASTER_ADDR=$ADDR").format("")
    assert [j.judgement for j in judgements(plan(outside), "rendezvous port")] == ["suspicious"]
    outside = outside.replace("NNODES=2", "NNODES=$NODES")
    assert judgements(plan(outside), "rendezvous port") == []
    torchrun = "torchrun --nnodes {} --node_rank $R --master_addr h --master_port 0 fit.py\n"
    assert wrong(plan(torchrun.format(2))) == {"rendezvous port"}
    assert wrong(plan(torchrun.format(1))) == set()


class TestPortsOfRay:
    RUN = "python3 -m openrlhf.cli.train_ppo_ray --train.colocate_all --vllm.num_engines 8\n"

    @pytest.mark.parametrize(("port", "bad"), [("6379", False), ("6380", True)])
    def test_a_node_that_asks_another_port(self, port: str, bad: bool) -> None:
        text = f"ssh n0 ray start --head --port 6379\nssh n1 ray start --address n0:{port}\n"
        found = plan(text)
        assert (wrong(found) == {"ray port"}) == bad
        if bad:
            assert lines(judgements(found, "ray port")[0])[:2] == [2, 1]

    @pytest.mark.parametrize(
        ("address", "bad"),
        [
            ("http://127.0.0.1:8265", False),
            ("http://127.0.0.1:8266", True),
            ("http://other-cluster:80", False),
            ("$RAY", False),
        ],
    )
    def test_a_submission_that_asks_another_port(self, address: str, bad: bool) -> None:
        text = f"ray start --head\nray job submit --address {address} -- " + self.RUN
        assert ("dashboard port" in wrong(plan(text))) == bad


@pytest.mark.parametrize(("second", "bad"), [("4000", False), ("4001", True)])
def test_nodes_of_one_job_meet_at_one_port(second: str, bad: bool) -> None:
    run = "python fit.py --devices 4 --num_nodes 2 --accelerator gpu --strategy ddp"
    text = (
        f"MASTER_ADDR=10.0.0.7 MASTER_PORT=4000 NODE_RANK=0 {run} &\n"
        f'ssh n1 "MASTER_ADDR=10.0.0.7 MASTER_PORT={second} NODE_RANK=1 {run}" &\nwait\n'
    )
    found = plan(text)
    assert len(found.programs) == (2 if bad else 1)
    assert (wrong(found) == {"rendezvous port"}) == bad


@pytest.mark.parametrize(("limit", "doubt"), [("120", True), ("7200", False)])
def test_a_server_that_is_waited_for_longer_than_a_collective(limit: str, doubt: bool) -> None:
    text = (
        "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 fit.py --use_vllm true "
        "--vllm_mode server --num_generations 2 --vllm_server_host 127.0.0.1 "
        f"--vllm_server_timeout 3600 --ddp_timeout {limit}\n"
    )
    assert bool(judgements(plan(text), "ddp_timeout")) == doubt
