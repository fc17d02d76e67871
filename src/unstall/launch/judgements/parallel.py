"""Parallel sizes against devices, and ZeRO stage."""

from __future__ import annotations

from collections.abc import Iterator

from unstall.launch.judgements.context import Context, base_gpu, places, show
from unstall.model.plan import Judgement
from unstall.model.text import Text, say
from unstall.programs.base import Launch

_BY_FLAG_SINCE = (0, 11, 1)


def judge(context: Context) -> Iterator[Judgement]:
    """Rows for the tensor, data and pipeline parallel sizes, and the ZeRO stage."""
    verdicts = {la.label: _verdict(la, context) for la in context.launches}
    names = dict.fromkeys(
        name for la in context.launches for name in la.settings if name.endswith("parallel size")
    )
    bad = {label: v for label, v in verdicts.items() if v is not None and v[0] != "ok"}
    said = {
        name
        for la in context.launches
        if la.label in bad
        for name, value in la.settings.items()
        if name.endswith("parallel size") and not value.default
    }
    for name in names:
        having = [la for la in context.launches if name in la.settings]
        values = {la.label: show(la.settings.get(name)) for la in context.launches}
        worst = next((verdicts[la.label] for la in having if la.label in bad), None)
        chosen = worst or next((verdicts[la.label] for la in having if verdicts[la.label]), None)
        if chosen is None:
            continue
        judgement, why = chosen
        if judgement != "ok" and name not in said and said:
            continue  # a default beside a size that was given: the doubt is told there
        yield Judgement(
            name,
            values,
            judgement,
            why,
            places(*(la.settings[name] for la in having), *(la.device_place for la in having)),
            None,
            ("device-overlap",) if judgement == "conflict" else (),
        )
    processes = [la for la in context.launches if "processes per node" in la.settings]
    given = [la for la in processes if not la.settings["processes per node"].default]
    for launch in given:
        if launch.per_node is None or launch.visible is None or launch.per_node != launch.visible:
            continue
        variable = launch.environment.get("NPROC_PER_NODE")
        name = "NPROC_PER_NODE" if variable is not None else "processes per node"
        values = {
            la.label: show(la.environment.get("NPROC_PER_NODE"))
            if variable is not None
            else show(la.settings.get("processes per node"))
            for la in context.launches
        }
        yield Judgement(
            name,
            values,
            "ok",
            say(
                "{program} starts {count} processes for its {count} devices",
                program=launch.label,
                count=launch.per_node,
            ),
            places(launch.settings["processes per node"], launch.device_place),
        )
    staged = [la for la in context.launches if "ZeRO stage" in la.settings]
    if staged:
        values = {la.label: show(la.settings.get("ZeRO stage")) for la in context.launches}
        stage = staged[0].settings["ZeRO stage"].text
        yield Judgement(
            "ZeRO stage",
            values,
            "ok",
            _stage(stage, staged[0].label),
            places(*(la.settings["ZeRO stage"] for la in staged)),
        )


def _stage(stage: str, program: str) -> Text:
    if stage == "3":
        return say(
            "{program} gathers its parameters over the default process group in every forward and "
            "backward pass: all its ranks have to run the same number of them",
            program=program,
        )
    return say("concerns {program} alone", program=program)


def _over_ray(launch: Launch, context: Context) -> int | None:
    """Nodes over which Ray may spread a vLLM server: 0 unknown, ``None`` it does not.

    Source: ``vllm/config/parallel.py``: to 0.11.0 Ray is taken where more devices are needed than
    the node has, since 0.11.1 only with the flag (vLLM pull request 25775).
    """
    if launch.engine != "vllm" or launch.nodes not in (None, 1):
        return None
    backend = launch.flag("distributed_executor_backend")
    version = launch.version("vllm")
    if backend is not None and backend.text != "ray":
        return None
    if backend is None and version is not None and version >= _BY_FLAG_SINCE:
        return None
    pods = (launch.container or {}).get("pods", "")
    if pods.isdigit() and int(pods) > 1:
        return int(pods)
    ray = any(la.software == "ray" for la in context.launches)
    return 0 if ray or backend is not None else None


def _by_ray(launch: Launch, need: int, visible: int) -> tuple[str, Text]:
    if launch.flag("distributed_executor_backend") is None and launch.version("vllm") is None:
        return "suspicious", say(
            "{program} needs {need} devices and sees {visible}: to vLLM 0.11.0 it takes the "
            "other nodes' through Ray by itself, since 0.11.1 only with "
            "--distributed-executor-backend ray",
            program=launch.label,
            need=need,
            visible=visible,
        )
    return "ok", say("{program} needs {need} devices", program=launch.label, need=need)


def _verdict(launch: Launch, context: Context) -> tuple[str, Text] | None:
    sizes = launch.parallel
    if launch.server or (launch.engine is not None and launch.role != "trainer"):
        need = launch.per_node
        if need is None:
            return None
        visible = launch.visible
        if not visible:
            return "ok", say("{program} needs {need} devices", program=launch.label, need=need)
        visible -= base_gpu(launch)
        over = _over_ray(launch, context)
        if need > visible and over is not None:
            # vLLM's Ray back end takes the devices of the whole cluster
            if over == 0 or need <= visible * over:
                return _by_ray(launch, need, visible)
            visible *= over
        product = say(
            "tensor {tensor} × data {data} × pipeline {pipeline} = {need}",
            tensor=sizes.tensor or 1,
            data=sizes.data or 1,
            pipeline=sizes.pipeline or 1,
            need=need,
        )
        if need > visible:
            return "conflict", say(
                "{product}, but {program} sees {visible} devices",
                product=product,
                program=launch.label,
                visible=visible,
            )
        if need < visible:
            return "suspicious", say(
                "{product}, but {program} sees {visible} devices: the others stay idle",
                product=product,
                program=launch.label,
                visible=visible,
            )
        return "ok", say(
            "{product}, as many as {program} has devices", product=product, program=launch.label
        )
    model = (sizes.tensor or 1) * (sizes.pipeline or 1) * (sizes.context or 1)
    world = launch.processes
    if launch.software == "verl":
        model = sizes.tensor or 1
    if launch.software == "openrlhf" or world is None:
        return ("ok", say("set for {program}", program=launch.label)) if model > 1 else None
    if model > 1 and world % model:
        return "conflict", say(
            "{world} processes are no multiple of tensor × pipeline × context parallel size = "
            "{model}",
            world=world,
            model=model,
        )
    return "ok", say(
        "{world} processes are a multiple of the parallel size {model}", world=world, model=model
    )
