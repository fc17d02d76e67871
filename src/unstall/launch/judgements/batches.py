"""Batch sizes that groups of generations, or devices, must divide."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, places, show
from unstall.model.plan import Judgement
from unstall.model.text import say
from unstall.programs.base import Launch, number


def judge(context: Context) -> Iterator[Judgement]:
    """Rows for GRPO's groups and for verl's batch."""
    for launch in context.launches:
        if "num_generations" in launch.settings:
            row = _groups(launch)
        elif launch.software == "verl" and "train batch size" in launch.settings:
            row = _verl(launch)
        elif launch.software == "megatron" and "global batch size" in launch.settings:
            row = _megatron(launch)
        else:
            continue
        if row is not None:
            yield row


def _groups(launch: Launch) -> Judgement | None:
    settings = launch.settings
    generations = number(settings["num_generations"])
    each = number(settings["per_device_train_batch_size"])
    steps = number(settings.get("steps_per_generation") or settings["gradient_accumulation_steps"])
    world = launch.processes
    whole = number(settings.get("generation_batch_size"))
    if generations is None or generations < 1:
        return None
    if whole is None:
        if each is None or steps is None or world is None:
            return None
        whole = each * steps * world
        how = say(
            "{each} × {world} processes × {steps} = {whole}",
            each=each,
            world=world,
            steps=steps,
            whole=whole,
        )
    else:
        how = say("generation_batch_size {whole}", whole=whole)
    where = places(
        settings["num_generations"],
        settings["per_device_train_batch_size"],
        settings.get("generation_batch_size"),
        settings["gradient_accumulation_steps"],
    ) or places(launch.place)
    values = {launch.label: show(settings["num_generations"])}
    if whole % generations:
        return Judgement(
            "num_generations",
            values,
            "conflict",
            say(
                "{how} is no multiple of {generations} generations: the trainer refuses to start, "
                "or the "
                "ranks get groups of different sizes",
                how=how,
                generations=generations,
            ),
            where,
            None,
            ("uneven-batches",),
        )
    return Judgement(
        "num_generations",
        values,
        "ok",
        say(
            "{how} holds {groups} groups of {generations} generations",
            how=how,
            groups=whole // generations,
            generations=generations,
        ),
        where,
    )


def _verl(launch: Launch) -> Judgement | None:
    batch = number(launch.settings["train batch size"])
    n = number(launch.settings["rollout n"])
    least = number(launch.settings.get("least batch"))
    if batch is None or n is None or not least:
        return None
    where = places(
        launch.settings["train batch size"],
        launch.settings["rollout n"],
        launch.settings["processes per node"],
    )
    values = {launch.label: show(launch.settings["train batch size"])}
    if (batch * n) % least:
        return Judgement(
            "train batch size",
            values,
            "conflict",
            say(
                "{batch} prompts × {n} = {whole} is no multiple of {least} (devices, or with "
                "Megatron data parallel size × micro batch): verl refuses it",
                batch=batch,
                n=n,
                whole=batch * n,
                least=least,
            ),
            where,
            None,
            ("uneven-batches",),
        )
    return Judgement(
        "train batch size",
        values,
        "ok",
        say(
            "{batch} prompts × {n} are a multiple of {least}, which verl asks for",
            batch=batch,
            n=n,
            least=least,
        ),
        where,
    )


def _megatron(launch: Launch) -> Judgement | None:
    whole = number(launch.settings["global batch size"])
    micro = number(launch.settings.get("micro batch size"))
    data = launch.parallel.data
    if whole is None or micro is None or not data:
        return None
    where = places(launch.settings["global batch size"], launch.settings.get("micro batch size"))
    values = {launch.label: show(launch.settings["global batch size"])}
    if whole % (micro * data):
        return Judgement(
            "global batch size",
            values,
            "conflict",
            say(
                "{whole} is no multiple of micro batch {micro} × data parallel size {data}",
                whole=whole,
                micro=micro,
                data=data,
            ),
            where,
            None,
            ("uneven-batches",),
        )
    return Judgement(
        "global batch size",
        values,
        "ok",
        say(
            "{whole} = {count} × micro batch {micro} × data parallel size {data}",
            whole=whole,
            count=whole // (micro * data),
            micro=micro,
            data=data,
        ),
        where,
    )
