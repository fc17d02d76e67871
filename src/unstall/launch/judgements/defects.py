"""Releases in the range of a defect that the maintainers know (``programs/known_bugs.toml``).

Before a run there are no symptoms, so a defect is told where the plan shows what it needs (a
program, a variable, a group of several ranks), or where it needs nothing and its range is closed on
both sides. Unknown versions tell nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from unstall.launch.judgements.context import Context, places
from unstall.model.plan import Judgement
from unstall.model.text import say
from unstall.programs.base import Launch
from unstall.programs.known_bugs import KnownBug, Sign, known_bugs

_ELSEWHERE = ("swift-rollout-wave-race", "vllm-dense-data-parallel")
"""Judged by their settings in :mod:`unstall.launch.judgements.releases`."""

_CURES: Mapping[str, tuple[str, str, str]] = {
    "torch-270-device-id": (
        "TORCH_NCCL_USE_COMM_NONBLOCKING",
        "0",
        "export TORCH_NCCL_USE_COMM_NONBLOCKING=0",
    ),
    "nccl-launch-blocking": ("CUDA_LAUNCH_BLOCKING", "0", "unset CUDA_LAUNCH_BLOCKING"),
}
"""Defects that a variable cures: its name, the value that does, and the line to write."""

_TRANSFORMERS = ("ms-swift", "trl", "llamafactory", "axolotl")
_EVERYONES = ("torch", "nccl", "nvidia-driver")


def judge(context: Context) -> Iterator[Judgement]:
    """A row for each known defect in whose range a version lies."""
    for bug in known_bugs():
        if bug.id in _ELSEWHERE:
            continue
        version = _version(bug.framework, context.versions)
        if version is None or bug.standing(version) != "inside":
            continue
        concerned = [la for la in context.launches if _concerns(bug, la) and _shows(bug, la)]
        concerned = [la for la in concerned if not _cured(bug, la)]
        if not concerned:
            continue
        yield Judgement(
            "known defect",
            {la.label: f"{bug.framework} {version}" for la in concerned},
            "suspicious",
            say(
                "{package} {version}: {what} ({link}). What helps: {advice}",
                package=bug.framework,
                version=version,
                what=bug.said(),
                link=bug.links[0],
                advice=bug.advised(),
            ),
            places(*(la.place for la in concerned)),
            _CURES[bug.id][2] if bug.id in _CURES else None,
            (bug.cause,) if bug.cause != "unknown" else (),
        )


def _version(framework: str, versions: Mapping[str, str]) -> str | None:
    names = [framework]
    if framework == "nccl":
        names += [n for n in versions if n.startswith("nvidia-nccl-cu")]
    return next((versions[n] for n in names if n in versions), None)


def _concerns(bug: KnownBug, launch: Launch) -> bool:
    """Whether a program uses the package."""
    if launch.role == "node" or not launch.distributed:
        return False
    if bug.framework in _EVERYONES:
        return launch.processes is None or launch.processes > 1
    if bug.framework == "ray":
        return any(n in launch.launchers for n in ("ray", "ray job"))
    if bug.framework == "transformers":
        return launch.role == "trainer" and launch.software in _TRANSFORMERS
    if bug.framework == "deepspeed":
        return "deepspeed" in launch.launchers or "ZeRO stage" in launch.settings
    return bug.framework in (launch.software, launch.engine)


def _shows(bug: KnownBug, launch: Launch) -> bool:
    """Whether the plan shows what the defect needs."""
    answers = [_needs(sign, launch) for sign in bug.signs]
    if any(answer is False for answer in answers):
        return False
    return any(answers) or (bug.since is not None and bug.fixed is not None)


def _needs(sign: Sign, launch: Launch) -> bool | None:
    """Whether a sign is seen in the settings; ``None`` for a symptom, which only a run shows."""
    if sign.software is not None:
        named = sign.software in (launch.software, launch.engine)
        return named and sign.role in (None, launch.role)
    if sign.variable is not None:
        value = launch.environment.get(sign.variable)
        return value is not None and sign.value in (None, value.text)
    if sign.word is not None:
        wanted = sign.word.lower()
        return any(wanted in w.text.lower() for w in launch.call.words[:400])
    if sign.stall is not None:
        sizes = launch.parallel
        size = {"dp": sizes.data, "tp": sizes.tensor, "pp": sizes.pipeline}.get(sign.group or "")
        if sign.stall not in (launch.software, launch.engine):
            return False
        return None if size is None else size > 1
    if sign.stack is not None and sign.stack not in (launch.software, launch.engine):
        return False
    return None


def _cured(bug: KnownBug, launch: Launch) -> bool:
    if bug.id not in _CURES:
        return False
    name, cure, _ = _CURES[bug.id]
    value = launch.environment.get(name)
    return value is not None and value.text == cure
