"""Devices that a launcher or Ray is asked for, against those that hosts and nodes offer.

Sources: DeepSpeed 0.19.5 ``launcher/runner.py`` (``--num_gpus`` replaces the host file's slots
unseen), Open MPI 5 ``mpirun(1)`` (no more ranks than slots without ``--oversubscribe`` or
``--map-by :OVERSUBSCRIBE``), OpenRLHF 0.5.9 to 0.11.0 ``cli/train_ppo_ray.py`` (assertions; its
placement groups wait until Ray has the devices).
"""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places, show, together
from unstall.model.plan import Judgement, Value
from unstall.model.text import Text, say
from unstall.programs.base import Launch, number
from unstall.programs.openrlhf import launch as openrlhf


def judge(context: Context) -> Iterator[Judgement]:
    """Rows only where something does not fit."""
    for launch in context.launches:
        yield from _slots(launch)
        if launch.software == "openrlhf" and "devices in all" in launch.settings:
            yield from _openrlhf(launch)
            yield from _offered(context, launch)


def _conflict(
    launch: Launch, name: str, value: Value | None, why: Text, cause: str, *more: Value | None
) -> Judgement:
    return Judgement(
        name,
        {launch.label: show(value)},
        "conflict",
        why,
        places(value, *more, launch.place),
        None,
        (cause,),
    )


def _slots(launch: Launch) -> Iterator[Judgement]:
    """More ranks on a host than its line of the host file has slots."""
    least = launch.settings.get("fewest slots")
    slots = number(least)
    if slots is None:
        return
    gpus = launch.flag("num_gpus")
    asked = number(gpus)
    if launch.launchers[:1] == ["deepspeed"] and asked is not None and asked > slots:
        yield _conflict(
            launch,
            "num_gpus",
            gpus,
            say(
                "the deepspeed launcher starts {asked} ranks on every host, whatever the host file "
                "says, and a host has {slots} slots: two ranks would share a device, or one would "
                "have none",
                asked=asked,
                slots=slots,
            ),
            "device-overlap",
            least,
        )
    total = number(launch.settings.get("slots"))
    loose = "oversubscribe" in launch.flags or any(
        "oversubscribe" in v.text.lower() for n, v in launch.flags.items() if n == "map_by"
    )
    ranks = launch.processes
    if launch.launchers[:1] != ["mpirun"] or total is None or ranks is None or loose:
        return
    if ranks > total:
        yield _conflict(
            launch,
            "processes",
            launch.settings.get("processes"),
            say(
                "mpirun is asked for {ranks} ranks, but the host file has {slots} slots: it "
                "refuses to start",
                ranks=ranks,
                slots=total,
            ),
            "device-overlap",
            least,
        )


def _openrlhf(launch: Launch) -> Iterator[Judgement]:
    found = openrlhf.sizes(launch)
    actor = found.of("actor")
    engines = found.engines or 0
    tensor = found.tensor
    if found.together and not found.background and engines and None not in (actor, tensor):
        asked = engines * (tensor or 1)
        if actor != asked:
            yield _conflict(
                launch,
                "vLLM engines",
                launch.settings.get("vLLM engines"),
                say(
                    "the actor has {actor} devices and the engines have {engines} × {tensor}: "
                    "with all models on the same devices OpenRLHF refuses to start unless both are "
                    "equal",
                    actor=actor or 0,
                    engines=engines,
                    tensor=tensor or 1,
                ),
                "device-overlap",
                launch.settings.get("tensor parallel size"),
                launch.settings.get("actor devices per node"),
            )
    shared = [("actor", "ref")] if found.together or found.actor_ref else []
    if found.critic_reward and "reward" in found.roles:
        shared.append(("critic", "reward"))
    for one, other in shared:
        if one not in found.roles or other not in found.roles:
            continue
        first, second = found.roles[one], found.roles[other]
        if None in (*first, *second) or first == second:
            continue
        yield _conflict(
            launch,
            f"{other} devices per node",
            launch.settings.get(f"{other} devices per node"),
            say(
                "{one} and {other} are to share devices, and OpenRLHF refuses to start unless both "
                "have the same nodes and devices: {first} and {second}",
                one=one,
                other=other,
                first=f"{first[0]} × {first[1]}",
                second=f"{second[0]} × {second[1]}",
            ),
            "device-overlap",
            launch.settings.get(f"{one} devices per node"),
        )


def _offered(context: Context, launch: Launch) -> Iterator[Judgement]:
    """What the plan's only Ray node offers."""
    nodes = [la for la in context.launches if la.software == "ray" and together(la, launch)]
    if len(nodes) != 1 or "head" not in nodes[0].flags or launch.processes is None:
        return
    offered = number(nodes[0].settings.get("devices offered"))
    if offered is None or launch.processes <= offered:
        return
    if any(count != 1 for count, _ in openrlhf.sizes(launch).roles.values()):
        return  # meant for several nodes, which join from elsewhere
    yield Judgement(
        "devices in all",
        {launch.label: str(launch.processes), nodes[0].label: str(offered)},
        "suspicious",
        say(
            "{program} asks Ray for {asked} devices and this script's Ray offers {offered}: unless "
            "other nodes join it, it waits for them without end",
            program=launch.label,
            asked=launch.processes,
            offered=offered,
        ),
        places(launch.place, nodes[0].settings.get("devices offered")),
    )
