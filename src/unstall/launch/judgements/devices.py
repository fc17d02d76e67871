"""Devices: who may use which, who shares them, and whether there are enough."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import (
    Context,
    base_gpu,
    listed,
    places,
    same_host,
    used_devices,
)
from unstall.model.plan import Judgement
from unstall.model.text import say
from unstall.programs.base import Launch


def judge(context: Context) -> Iterator[Judgement]:
    """One row for the devices, one more for each program that starts too many processes."""
    launches = [la for la in context.launches if la.role != "node" or la.devices is not None]
    if not launches:
        return
    values = {la.label: _shown(la) for la in launches}
    name = (
        "CUDA_VISIBLE_DEVICES"
        if any("CUDA_VISIBLE_DEVICES" in la.environment for la in launches)
        else "devices"
    )
    rows = [*_overlaps(context, name, values), *_too_many(launches, name)]
    ignored = [
        la
        for la in launches
        if "CUDA_VISIBLE_DEVICES" in la.ignores and "CUDA_VISIBLE_DEVICES" in la.environment
    ]
    for launch in ignored:
        value = launch.environment["CUDA_VISIBLE_DEVICES"]
        rows.append(
            Judgement(
                "CUDA_VISIBLE_DEVICES",
                {launch.label: value.text},
                "no effect",
                launch.ignores["CUDA_VISIBLE_DEVICES"],
                places(value, launch.device_place),
            )
        )
    for launch in launches:
        lost = launch.not_exported.get("CUDA_VISIBLE_DEVICES")
        if lost is not None and "CUDA_VISIBLE_DEVICES" not in launch.environment:
            rows.append(
                Judgement(
                    "CUDA_VISIBLE_DEVICES",
                    {launch.label: f"{lost.text} (not exported)"},
                    "no effect",
                    say(
                        "the assignment is not exported, so {program} sees every device",
                        program=launch.label,
                    ),
                    places(lost, launch.place),
                    f"export CUDA_VISIBLE_DEVICES={lost.text}",
                    ("device-overlap",),
                )
            )
    if rows:
        yield from rows
        return
    known = [la for la in launches if used_devices(la) is not None]
    if len(known) > 1:
        why = say(
            "the programs use different devices: {lists}",
            lists="; ".join(f"{la.label} {listed(used_devices(la) or ())}" for la in known),
        )
        concerns: tuple[str, ...] = ("device-overlap",)
    elif known:
        launch = known[0]
        if launch.processes is not None and launch.visible is not None:
            why = say(
                "{count} processes on a node for {visible} visible devices",
                count=launch.per_node or launch.processes,
                visible=launch.visible,
            )
        else:
            why = say("one program uses these devices")
        concerns = ("device-overlap",)
    else:
        return
    where = [la.device_place or la.place for la in known]
    yield Judgement(name, values, "ok", why, places(*where), None, concerns)


def _shown(launch: Launch) -> str:
    if launch.devices is not None:
        return ",".join(map(str, launch.devices)) or "none"
    value = launch.environment.get("CUDA_VISIBLE_DEVICES")
    if value is not None:
        return value.text or "none"
    used = used_devices(launch)
    if used:
        return f"not set: {listed(used)}"
    if launch.visible is not None:
        return f"{launch.visible} devices"
    return "not set"


def _overlaps(context: Context, name: str, values: dict[str, str]) -> list[Judgement]:
    found: list[Judgement] = []
    for one, other in context.pairs():
        first, second = used_devices(one), used_devices(other)
        if first is None or second is None or not same_host(one, other):
            continue
        shared = sorted(set(first) & set(second))
        if not shared:
            continue
        where = places(one.device_place or one.place, other.device_place or other.place)
        where = places(*where, one.place, other.place)
        if context.communicates(one, other) or _coupled(one, other):
            why = say(
                "{one} and {other} run at the same time and both use device {devices}; they form "
                "one NCCL "
                "communicator for the weights, and NCCL refuses two ranks of a communicator on one "
                "device (invalid usage, Duplicate GPU)",
                one=one.label,
                other=other.label,
                devices=listed(shared),
            )
            verdict = "conflict"
        elif one.role == other.role == "inference" or "node" in (one.role, other.role):
            why = say(
                "{one} and {other} run at the same time and share device {devices}: only as much "
                "memory "
                "as each leaves the other is there",
                one=one.label,
                other=other.label,
                devices=listed(shared),
            )
            verdict = "suspicious"
        else:
            why = say(
                "{one} and {other} run at the same time and both use device {devices}: they "
                "compete for "
                "its memory, and a communicator over both would have two ranks on one device",
                one=one.label,
                other=other.label,
                devices=listed(shared),
            )
            verdict = "conflict"
        taken = {d for la in context.launches for d in used_devices(la) or ()}
        free = next(n for n in range(1000) if n not in taken)
        found.append(
            Judgement(
                name,
                {one.label: values[one.label], other.label: values[other.label]},
                verdict,
                why,
                where,
                f"CUDA_VISIBLE_DEVICES={free} {other.call.words[0].text} … "
                if len(second) == 1
                else None,
                ("device-overlap",),
            )
        )
    return found


def _coupled(one: Launch, other: Launch) -> bool:
    """A rollout server and a trainer, of which the script does not say how they connect."""
    roles = {one.role, other.role}
    return roles == {"rollout", "trainer"}


def _leaves_idle(launch: Launch, need: int) -> bool:
    """Whether a program with fewer ranks than devices uses one device for each rank."""
    starters = [n for n in launch.launchers if n not in ("ray", "ray job")]
    if not starters or "ray" in launch.launchers:
        return False
    if starters[-1] in ("srun", "mpirun") and need == 1:
        return False  # one task for each node may be a launcher of its own
    # ms-swift spreads each rank's model over several devices unless DeepSpeed or FSDP shards it
    sharded = any(n in launch.flags for n in ("deepspeed", "fsdp")) or "megatron" in launch.label
    return launch.software != "ms-swift" or sharded


def _too_many(launches: list[Launch], name: str) -> list[Judgement]:
    found: list[Judgement] = []
    for launch in launches:
        need = launch.per_node
        visible = launch.visible
        if need is None or not visible or launch.role == "node":
            continue  # no device at all is meant for the processor
        visible -= base_gpu(launch)
        if launch.parallel.tensor is not None and launch.server:
            continue  # judged with its parallel sizes
        if need > visible:
            found.append(
                Judgement(
                    name,
                    {launch.label: _shown(launch)},
                    "conflict",
                    say(
                        "{program} starts {need} processes on a node for {visible} visible "
                        "devices: two "
                        "ranks would share a device, or one would have none",
                        program=launch.label,
                        need=need,
                        visible=visible,
                    ),
                    places(
                        launch.device_place,
                        launch.settings.get("processes per node"),
                        launch.settings.get("processes"),
                        launch.place,
                    ),
                    None,
                    ("device-overlap",),
                )
            )
        elif need < visible and _leaves_idle(launch, need):
            found.append(
                Judgement(
                    name,
                    {launch.label: _shown(launch)},
                    "suspicious",
                    say(
                        "{program} starts {need} processes on a node, but {visible} devices are "
                        "visible: "
                        "the others stay idle",
                        program=launch.label,
                        need=need,
                        visible=visible,
                    ),
                    places(
                        launch.device_place,
                        launch.settings.get("processes per node"),
                        launch.settings.get("processes"),
                        launch.place,
                    ),
                )
            )
    return found
