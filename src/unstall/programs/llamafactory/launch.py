"""LLaMA-Factory: ``llamafactory-cli train FILE``, ``lmf`` and scripts with its flags.

Sources, read in LLaMA-Factory 0.8.3 to 0.9.5 (``cli.py``, since 0.9.4 ``launcher.py``): ``train``
starts torchrun where FORCE_TORCHRUN is set or more than one device is visible, with NNODES,
NODE_RANK (before 0.9.1 RANK), NPROC_PER_NODE (all visible devices), MASTER_ADDR (127.0.0.1) and
MASTER_PORT from the environment. Without MASTER_PORT each start takes a port of its own: drawn from
20001 to 29999, since 0.9.3 asked of the system. RDZV_ID, MIN_NNODES, MAX_NNODES and MAX_RESTARTS
make the start elastic since 0.9.3. USE_RAY (since 0.9.2) and USE_KT (since 0.9.4) keep it from
starting torchrun unless it is forced; USE_MCA forces it (since 0.9.4). PYTORCH_CUDA_ALLOC_CONF is
overwritten since 0.9.3 unless OPTIM_TORCH=0. ``api/app.py``: API_HOST, API_PORT 8000.
``train/tuner.py``: with Ray, ``ray_num_workers`` workers at ``master_addr`` and ``master_port`` of
the file. ``ddp_timeout`` is transformers' 1800 s unless the file sets it (its examples set
180000000).
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Port, Value
from unstall.model.text import say
from unstall.programs import torchrun, training
from unstall.programs.base import (
    Launch,
    default,
    number,
    overrides,
    parse_flags,
    picked,
    truth,
)

NAME = "llama-factory"
_VARIABLES = ("NNODES", "NODE_RANK", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT")
_ELASTIC = ("RDZV_ID", "MIN_NNODES", "MAX_NNODES", "MAX_RESTARTS")
_NAMES = ("llamafactory-cli", "lmf")
_TRAINING = ("train", "sft", "dpo", "rm")
"""``sft``, ``dpo`` and ``rm`` are commands of USE_V1=1 (0.9.5)."""
_SERVING = ("api", "chat", "webchat", "webui")


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is LLaMA-Factory's."""
    texts = [w.text for w in words[:6]]
    name = texts[0].rsplit("/", 1)[-1]
    if name in _NAMES:
        return True
    return (
        name.startswith("python")
        and any(
            t.startswith("llamafactory.")
            or t.endswith(("src/train_bash.py", "llamafactory/launcher.py"))
            for t in texts
        )
    ) or ("--finetuning_type" in {w.text for w in words} and name.startswith("python"))


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, the file's keys, processes and ports."""
    texts = [w.text for w in launch.words]
    entry = texts.index("llamafactory.cli") if "llamafactory.cli" in texts[:6] else None
    if texts[0].rsplit("/", 1)[-1] in _NAMES:
        entry = 0
    named = entry is not None and len(texts) > entry + 1
    command = texts[entry + 1] if named and entry is not None else "train"
    flags, rest = parse_flags(launch.words[1:])
    keys, _ = overrides(rest)
    launch.take_config()
    launch.flags.update(flags)
    launch.flags.update(keys)
    launch.software = NAME
    launch.label = f"llamafactory {command}"
    if command in _SERVING:
        _serve(launch, origins, command)
        return
    launch.role = "trainer"
    if command not in _TRAINING:
        launch.role = "node"  # `export`, `env`, `version`: no ranks
        launch.distributed = False
        return
    if truth(launch.variable("USE_RAY")) and not _forced(launch):
        _with_ray(launch)
    elif entry is not None and not launch.launchers:
        _with_torchrun(launch, origins)
    elif not launch.launchers:
        launch.processes = launch.per_node = 1
    training.ddp_timeout(launch)
    training.deepspeed_stage(launch)
    training.batches(launch)


def _serve(launch: Launch, origins: dict[str, str], command: str) -> None:
    launch.role = "inference"
    launch.server = True
    launch.distributed = False
    if command == "api":
        port = launch.variable("API_PORT") or default(8000)
        host = launch.variable("API_HOST") or default("0.0.0.0")  # noqa: S104 - its default
        launch.ports.append(Port("http", port, host=host, picked=picked(port, origins)))
        for name in ("API_PORT", "API_HOST"):
            launch.reads[name] = say("LLaMA-Factory's HTTP server binds it")


def _forced(launch: Launch) -> bool:
    return any(truth(launch.variable(n)) for n in ("FORCE_TORCHRUN", "USE_MCA"))


def _with_ray(launch: Launch) -> None:
    launch.launchers.append("ray")
    workers = launch.flag("ray_num_workers") or default(1)
    launch.processes = number(workers)
    launch.settings["processes"] = workers
    for name in _VARIABLES:
        launch.ignores[name] = say(
            "LLaMA-Factory's workers are placed by Ray and get {name} from LLaMA-Factory", name=name
        )


def _with_torchrun(launch: Launch, origins: dict[str, str]) -> None:
    if not _forced(launch) and launch.visible == 1:
        launch.processes = launch.per_node = 1
        for name in _VARIABLES:
            launch.ignores[name] = say(
                "with one visible device LLaMA-Factory starts torchrun, which {name} is for, only "
                "where FORCE_TORCHRUN=1 is set",
                name=name,
            )
        return
    version = launch.version("llamafactory") or launch.version("llama-factory")
    old_rank = version is not None and version < (0, 9, 1)
    found: dict[str, Value] = {}
    for name in _VARIABLES:
        flag = name.lower()
        if name == "NODE_RANK" and old_rank:
            launch.ignores[name] = say("before 0.9.1 LLaMA-Factory takes RANK, not NODE_RANK")
            name = "RANK"
        given = launch.variable(name)
        if given is not None:
            found[flag] = given
        launch.reads[name] = say(
            "`{command}` passes it to torchrun as --{flag}",
            command="llamafactory-cli train",
            flag=flag,
        )
    elastic = launch.variable("RDZV_ID")
    for name in _ELASTIC:
        launch.reads[name] = say("LLaMA-Factory starts torchrun elastically with it")
    if "nproc_per_node" not in found:
        found["nproc_per_node"] = (
            default(launch.visible) if launch.visible is not None else default("gpu")
        )
    found.setdefault("master_port", default(0))
    if elastic is not None:
        _elastic(launch, found, elastic)
    torchrun.apply(launch, found, origins, "torchrun")
    for flag in found:
        if not flag.startswith("rdzv_"):
            launch.flags.pop(flag, None)
    if truth(launch.variable("OPTIM_TORCH")) is not False and (
        version is None or version >= (0, 9, 3)
    ):
        launch.ignores["PYTORCH_CUDA_ALLOC_CONF"] = say(
            "LLaMA-Factory overwrites PYTORCH_CUDA_ALLOC_CONF with expandable_segments:True unless "
            "OPTIM_TORCH=0 is set"
        )


def _elastic(launch: Launch, found: dict[str, Value], identifier: Value) -> None:
    """RDZV_ID turns the static rendezvous into a c10d one at the same address."""
    host = found.pop("master_addr", None) or default("127.0.0.1")
    port = found.pop("master_port")
    found.pop("node_rank", None)
    least, most = launch.variable("MIN_NNODES"), launch.variable("MAX_NNODES")
    if least is not None and most is not None:
        found["nnodes"] = Value(
            f"{least.text}:{most.text}", known=most.known, place=most.place, token=most.token
        )
    known = host.known and port.known
    found["rdzv_backend"] = default("c10d")
    found["rdzv_id"] = identifier
    found["rdzv_endpoint"] = Value(
        f"{host.text}:{port.text}",
        known=known,
        place=host.place or port.place,
        token=None if known else f"{host.token or host.text}:{port.token or port.text}",
        default=host.default,
    )
