"""What operators set in pods, and that no manifest is too strange."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.launch.plans import only, plan
from unstall.launch.configs import Keys
from unstall.launch.operators import MOST_PODS, pods
from unstall.launch.texts import Config
from unstall.model.facts import Place

KEYS = (
    "kind", "spec", "template", "containers", "replicas", "parallelism", "size", "metadata", "name",
    "pytorchReplicaSpecs", "Master", "Worker", "elasticPolicy", "minReplicas", "maxReplicas",
    "nprocPerNode", "trainer", "numNodes", "numProcPerNode", "command", "runtimeRef", "ports",
    "leaderWorkerTemplate", "leaderTemplate", "workerTemplate", "replicatedJobs", "completionMode",
    "resourcesPerNode", "containerPort",
)  # fmt: skip
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**9),
    st.sampled_from(["TrainJob", "Job", "Indexed", "torch-x", "$N", "pytorch", "", "2:4"]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(KEYS), TREES, max_size=6))
def test_any_tree_is_read(document: dict[str, object]) -> None:
    found = list(pods(document, Place("m.yaml", 1)))
    assert len(found) <= MOST_PODS**2
    assert all(isinstance(pod.spec.get("containers"), list) for pod in found)
    plan(configs={"m.yaml": json.dumps({"apiVersion": "v1", **document})})


def test_aliases_of_aliases_cost_no_more_than_their_lines() -> None:
    lines = ["apiVersion: v1", "kind: Job", "spec:", "  a0: &a0 {containers: [{name: x}]}"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    text = "\n".join(lines) + "\n"
    (document,) = Keys(Config(Place("m.yaml", 1), text, "yaml")).documents
    assert isinstance(document, dict)
    assert len(list(pods(document, Place("m.yaml", 1)))) == 1


TRAIN_JOB = """
    apiVersion: trainer.kubeflow.org/v1alpha1
    kind: TrainJob
    metadata: {{name: fit}}
    spec:
      runtimeRef: {{name: {runtime}}}
      trainer:
        numNodes: 3
        {each}
        command: [torchrun, fit.py]
        resourcesPerNode: {{limits: {{nvidia.com/gpu: 4}}}}
"""


@pytest.mark.parametrize(
    ("runtime", "each", "ranks", "host"),
    [
        ("torch-distributed", "", 12, "fit-node-0-0.fit"),
        ("torch-distributed", "numProcPerNode: 2", 6, "fit-node-0-0.fit"),
        # no other runtime sets PET_ variables
        ("mine", "", 1, "127.0.0.1"),
    ],
)
def test_a_train_job(runtime: str, each: str, ranks: int, host: str) -> None:
    program = only(plan(configs={"job.yaml": TRAIN_JOB.format(runtime=runtime, each=each)}))
    assert program.processes == ranks
    (port,) = program.ports
    assert port.host is not None
    assert (port.host.text, port.value.text) == (host, "29500")


PYTORCH_JOB = """
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata: {{name: fit}}
    spec:
      pytorchReplicaSpecs:
        Master:
          template:
            spec:
              containers:
                - name: pytorch
                  command: [{command}]
                  env: [{{name: MASTER_PORT, value: "4711"}}]
                  ports: [{{name: {port}, containerPort: 4000}}]
                  resources: {{limits: {{nvidia.com/gpu: 4}}}}
        Worker:
          replicas: 2
          template:
            spec:
              containers:
                - name: pytorch
                  command: [{command}]
                  ports: [{{name: {port}, containerPort: 4000}}]
                  resources: {{limits: {{nvidia.com/gpu: 4}}}}
"""


@pytest.mark.parametrize(("name", "port"), [("pytorchjob-port", "4000"), ("other", "23456")])
def test_a_pytorch_job_without_a_number_of_processes(name: str, port: str) -> None:
    """One rank for each device (``auto``); the operator's port wins over the manifest's."""
    text = PYTORCH_JOB.format(command="torchrun, fit.py", port=name)
    program = only(plan(configs={"job.yaml": text}))
    assert (program.nodes, program.processes) == (3, 12)
    assert [p.value.text for p in program.ports] == [port]
    assert program.environment["MASTER_PORT"].text == port


def test_a_group_of_a_leader_and_workers_is_one_program() -> None:
    pod = """
            spec:
              containers:
                - name: serve
                  command: [python3, -m, sglang.launch_server, --model-path, m, --tp, "16",
                    --dist-init-addr, $(LWS_LEADER_ADDRESS):20000, --nnodes, $(LWS_GROUP_SIZE),
                    --node-rank, $(LWS_WORKER_INDEX)]
                  resources: {limits: {nvidia.com/gpu: 8}}
                  volumeMounts: [{name: d, mountPath: /dev/shm}]
              volumes: [{name: d, emptyDir: {medium: Memory}}]
"""
    text = (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nspec:\n"
        "      leaderWorkerTemplate:\n          size: 2\n          leaderTemplate:"
        + pod + "          workerTemplate:" + pod
    )  # fmt: skip
    found = plan(configs={"lws.yaml": text})
    assert (only(found).nodes, only(found).processes) == (2, 16)
    assert [j.name for j in found.judgements if j.judgement != "ok"] == []
