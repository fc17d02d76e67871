"""Variables that Kubernetes' operators set in each pod, and how many pods of one kind there are.

Sources: Kubeflow training operator 1.7 to 1.9 ``pkg/controller.v1/pytorch/envvar.go``,
``master.go``, ``elastic.go`` and ``pkg/apis/kubeflow.org/v1/pytorch_defaults.go`` (with a Master:
MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and their ``PET_`` names; port ``pytorchjob-port``,
23456; ``nprocPerNode`` ``auto`` unless given; with ``elasticPolicy`` a c10d endpoint on the first
worker; they stand behind the manifest's own variables, so that they win), Kubeflow Trainer 2.3
``pkg/runtime/framework/plugins/torch/torch.go`` (TrainJob: ``PET_`` variables, port 29500, one
process for each device unless ``numProcPerNode``), LeaderWorkerSet 0.10
``pkg/utils/pod/pod_utils.go`` (LWS_LEADER_ADDRESS, LWS_GROUP_SIZE, LWS_WORKER_INDEX; ``size`` 1
unless given), Kubernetes 1.31 "Indexed Job" (JOB_COMPLETION_INDEX), JobSet 0.12 (its Jobs are
indexed; each has ``parallelism`` pods and stands there ``replicas`` times).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from unstall.launch.calls import Variable
from unstall.launch.strings import Unknown
from unstall.model.facts import Place

MOST_PODS = 64
DEEPEST = 16
_PYTORCHJOB_PORT = 23456
_TRAINJOB_PORT = 29500
_TYPES = ("torch",)
Pod: TypeAlias = dict[str, object]


class Pods(msgspec.Struct, frozen=True):
    """Pods that run one thing.

    Attributes:
        spec: the mapping that holds their ``containers``.
        kind: what they are, for a label.
        given: variables that an operator sets.
        count: pods that work together, this one included; ``None`` unknown.
        wins: the operator's variables win over the manifest's.
    """

    spec: dict[str, object]
    kind: str
    given: Mapping[str, Variable] = {}
    count: int | None = None
    wins: bool = False


def pods(document: dict[str, object], place: Place) -> Iterator[Pods]:
    """The pods of a manifest, each kind once."""
    spec = _mapping(document.get("spec"))
    kind = str(document.get("kind", ""))
    if isinstance(spec.get("pytorchReplicaSpecs"), dict):
        yield from _pytorch_job(document, spec, place)
    elif kind == "TrainJob":
        yield from _train_job(document, spec, place)
    elif isinstance(spec.get("leaderWorkerTemplate"), dict):
        yield from _leader_worker_set(spec, place)
    elif isinstance(spec.get("replicatedJobs"), list):
        yield from _job_set(spec, place)
    else:
        indexed = spec.get("completionMode") == "Indexed"
        given = _indexed(place) if indexed else {}
        # other Jobs of the same file may hold the other nodes of one that numbers no pods
        count = _count(spec, "parallelism") if kind == "Job" and indexed else None
        for inner in _inside(document):
            yield Pods(inner, kind, given, count)


def _pytorch_job(
    document: dict[str, object], spec: dict[str, object], place: Place
) -> Iterator[Pods]:
    replicas = {
        str(name): replica
        for name, replica in _mapping(spec.get("pytorchReplicaSpecs")).items()
        if isinstance(replica, dict)
    }
    counts = [_count(replica, "replicas") for replica in replicas.values()]
    nodes = None if None in counts else sum(c for c in counts if c is not None)
    elastic = spec.get("elasticPolicy")
    count = nodes
    if isinstance(elastic, dict):  # an autoscaler may start more
        most = whole(elastic.get("maxReplicas"), None)
        count = max(nodes, most) if nodes is not None and most is not None else None
    master = any(name.lower() == "master" for name in replicas)
    seen: list[object] = []
    for name, replica in replicas.items():
        for inner in _inside(replica):
            run = [(c.get("command"), c.get("args")) for c in containers(inner)]
            if run in seen:
                continue  # the workers run what the master runs
            seen.append(run)
            port = str(_port(inner))
            given = _pytorch_given(spec, nodes, port, place, master=master)
            if isinstance(elastic, dict):
                job = _name(document)
                given.update(_elastic(elastic, replicas, job, port, place))
            yield Pods(inner, name, given, count, wins=True)


def _pytorch_given(
    spec: dict[str, object], nodes: int | None, port: str, place: Place, *, master: bool
) -> dict[str, Variable]:
    each = spec.get("nprocPerNode")
    per_node = str(each) if isinstance(each, int | str) and str(each) else "auto"
    found = {"PET_NPROC_PER_NODE": _known(per_node, place), "PET_NNODES": _number(nodes, place)}
    if master:
        address = _unknown("$MASTER_ADDR", "env:MASTER_ADDR", place)
        rank = _unknown("$(number of the pod)", "env:RANK", place)
        world = None if nodes is None else nodes * (int(per_node) if per_node.isdigit() else 1)
        found |= {
            "MASTER_ADDR": address,
            "MASTER_PORT": _known(port, place),
            "RANK": rank,
            "WORLD_SIZE": _number(world, place, "WORLD_SIZE"),
            "PET_NODE_RANK": rank,
            "PET_MASTER_ADDR": address,
            "PET_MASTER_PORT": _known(port, place),
        }
    return found


def _elastic(
    policy: dict[str, object],
    replicas: dict[str, dict[str, object]],
    job: str,
    port: str,
    place: Place,
) -> dict[str, Variable]:
    """``elasticPolicy``: the least and the greatest number of nodes, and a c10d endpoint."""
    workers = next((r for n, r in replicas.items() if n.lower() == "worker"), {})
    least, most = (policy.get(n) for n in ("minReplicas", "maxReplicas"))
    if least is None and most is None:
        nodes = _number(_count(workers, "replicas"), place)
    else:
        nodes = _known(f"{least if least is not None else most}:{most or least}", place)
    host = str(policy.get("rdzvHost") or f"{job}-worker-0")
    found = {
        "PET_NNODES": nodes,
        "PET_RDZV_BACKEND": _known(str(policy.get("rdzvBackend") or "c10d"), place),
        "PET_RDZV_ENDPOINT": _known(f"{host}:{policy.get('rdzvPort') or port}", place),
    }
    for key, name in (
        ("maxRestarts", "PET_MAX_RESTARTS"),
        ("nProcPerNode", "PET_NPROC_PER_NODE"),
        ("rdzvId", "PET_RDZV_ID"),
    ):
        if policy.get(key) is not None:
            found[name] = _known(str(policy[key]), place)
    return found


def _train_job(
    document: dict[str, object], spec: dict[str, object], place: Place
) -> Iterator[Pods]:
    """A TrainJob's trainer as one container; the rest of its pods is the runtime's."""
    trainer = _mapping(spec.get("trainer"))
    if not trainer.get("command") and not trainer.get("args"):
        return
    nodes = _count(trainer, "numNodes", otherwise=None)
    runtime = str(_mapping(spec.get("runtimeRef")).get("name", ""))
    given: dict[str, Variable] = {}
    if any(mark in runtime for mark in _TYPES):
        job = _name(document)
        each = trainer.get("numProcPerNode")
        given = {
            "PET_NNODES": _number(nodes, place),
            "PET_NPROC_PER_NODE": _known(str(each) if each is not None else "auto", place),
            "PET_NODE_RANK": _unknown("$(number of the pod)", "env:PET_NODE_RANK", place),
            "PET_MASTER_ADDR": _known(f"{job}-node-0-0.{job}", place),
            "PET_MASTER_PORT": _known(str(_TRAINJOB_PORT), place),
        }
    container = {"name": "node", **trainer, "resources": trainer.get("resourcesPerNode")}
    # the runtime decides what stands at /dev/shm
    shared = {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108 - a path in a pod
    container["volumeMounts"] = [shared]
    yield Pods({"containers": [container]}, "TrainJob", given, nodes, wins=True)


def _leader_worker_set(spec: dict[str, object], place: Place) -> Iterator[Pods]:
    template = _mapping(spec.get("leaderWorkerTemplate"))
    size = _count(template, "size")
    leader = isinstance(template.get("leaderTemplate"), dict)
    for name, kind in (("leaderTemplate", "leader"), ("workerTemplate", "worker")):
        index = (
            _known("0", place)
            if kind == "leader"
            else _unknown("$LWS_WORKER_INDEX", "env:LWS_WORKER_INDEX", place)
        )
        given = {
            "LWS_LEADER_ADDRESS": _unknown("$LWS_LEADER_ADDRESS", "env:LWS_LEADER_ADDRESS", place),
            "LWS_GROUP_SIZE": _number(size, place, "LWS_GROUP_SIZE"),
            "LWS_WORKER_INDEX": index,
        }
        for inner in _inside(template.get(name)):
            yield Pods(inner, kind if leader else "leaderworkerset", given, size, wins=True)


def _job_set(spec: dict[str, object], place: Place) -> Iterator[Pods]:
    jobs = spec.get("replicatedJobs")
    listed = [j for j in jobs[:MOST_PODS] if isinstance(j, dict)] if isinstance(jobs, list) else []
    counts: list[int | None] = []
    for job in listed:
        inner = _mapping(_mapping(job.get("template")).get("spec"))
        parts = _count(job, "replicas"), _count(inner, "parallelism")
        counts.append(None if None in parts else (parts[0] or 0) * (parts[1] or 0))
    total = None if None in counts else sum(c for c in counts if c is not None)
    for job in listed:
        for pod in _inside(job):
            yield Pods(pod, str(job.get("name", "job")), _indexed(place), total)


def _indexed(place: Place) -> dict[str, Variable]:
    name = "JOB_COMPLETION_INDEX"
    return {name: _unknown(f"${name}", f"env:{name}", place)}


def containers(pod: Mapping[str, object]) -> list[dict[str, object]]:
    """A pod's containers."""
    listed = pod.get("containers")
    if not isinstance(listed, list):
        return []
    return [c for c in listed[:MOST_PODS] if isinstance(c, dict)]


def _inside(node: object, depth: int = 0, seen: set[int] | None = None) -> Iterator[Pod]:
    """Every mapping with a list of containers, each once, however often an alias repeats it."""
    seen = set() if seen is None else seen
    if depth > DEEPEST or not isinstance(node, dict | list) or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, dict) and isinstance(node.get("containers"), list):
        yield node
        return
    for inner in node.values() if isinstance(node, dict) else node[:MOST_PODS]:
        yield from _inside(inner, depth + 1, seen)


def _port(pod: dict[str, object]) -> int:
    """The port named ``pytorchjob-port`` of the container named ``pytorch``."""
    for container in containers(pod):
        listed = container.get("ports")
        if container.get("name") != "pytorch" or not isinstance(listed, list):
            continue
        for port in listed[:MOST_PODS]:
            if isinstance(port, dict) and port.get("name") == "pytorchjob-port":
                return whole(port.get("containerPort"), _PYTORCHJOB_PORT) or _PYTORCHJOB_PORT
    return _PYTORCHJOB_PORT


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _name(document: dict[str, object]) -> str:
    return str(_mapping(document.get("metadata")).get("name") or "job")


def _count(node: dict[str, object], key: str, otherwise: int | None = 1) -> int | None:
    """A number of pods; ``None`` where something else stands there (``$NODES``)."""
    value = node.get(key)
    return otherwise if value is None else whole(value, None)


def whole(value: object, otherwise: int | None) -> int | None:
    """A small whole number."""
    text = str(value)
    return int(text) if text.isdigit() and len(text) < 7 else otherwise


def _known(text: str, place: Place) -> Variable:
    if text.startswith("$"):
        return _unknown(text, f"manifest:{text}", place)
    return Variable((text,), False, True, place)


def _number(value: int | None, place: Place, name: str = "PET_NNODES") -> Variable:
    if value is None:
        return _unknown(f"${name}", f"env:{name}", place)
    return Variable((str(value),), False, True, place)


def _unknown(text: str, token: str, place: Place) -> Variable:
    return Variable((Unknown(text, token, "environment"),), False, True, place)
