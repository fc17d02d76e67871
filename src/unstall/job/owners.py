"""Which program said a line. Two programs on one terminal share their rank numbers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from unstall.model.facts import (
    EngineLoad,
    EngineNotice,
    Fact,
    GroupCreated,
    Identity,
    Mention,
    ProcessEnd,
    ProcessStack,
    PythonException,
)
from unstall.model.plan import Parallel, Plan, Program
from unstall.programs.speakers import TRAINING, by_name, by_path

LABELS = {
    "trainer": "trainer",
    "rollout": "rollout server",
    "inference": "inference server",
    "reward": "reward server",
}


#: Names of services, pods and joined outputs that say what runs in them.
_TRAINS = re.compile(r"(?:^|[-_./])(?:trainer|training|learner|train)(?:$|[-_./ \d])", re.ASCII)


def implied_programs(facts: Sequence[Fact], plan: Plan) -> tuple[Program, ...]:
    """The plan's programs, and those that the log shows and the plan lacks.

    A log that was pasted without its launch script still names its software: by its own lines, by
    the names of its processes, by the paths of its stack frames.
    """
    programs = list(plan.programs)
    evidence: dict[tuple[str, str], int] = defaultdict(int)
    settings: dict[str, dict[str, str]] = defaultdict(dict)
    versions: dict[str, str] = dict(plan.versions)
    for fact in facts:
        for software, role, weight in _shown_by(fact):
            evidence[(software, role)] += weight
        if isinstance(fact, Identity):
            settings[fact.software].update(fact.settings)
            if fact.version:
                versions.setdefault(fact.software, fact.version)
    for software in [software for software, role in evidence if role == "rollout"]:
        # an engine that is given a trainer's weights shows itself as any inference engine, too
        evidence[(software, "rollout")] += evidence.pop((software, "inference"), 0)
    for (software, role), weight in sorted(evidence.items(), key=lambda item: (-item[1], item[0])):
        if weight < 2 or any(_is(program, software, role) for program in programs):
            continue
        taken = {program.label for program in programs}
        label = LABELS.get(role, role)
        if label in taken:
            label = f"{label} ({software})"
        if label in taken:
            continue
        programs.append(
            Program(
                label=label,
                role=role,
                software=software,
                parallel=_parallel(settings[software]),
                versions=versions,
                processes=_processes(_parallel(settings[software])),
            )
        )
    return tuple(programs) or _mentioned(facts, versions)


def _mentioned(facts: Sequence[Fact], versions: Mapping[str, str]) -> tuple[Program, ...]:
    """The one program that only links to its tracker name.

    A link says where a report was posted, not who said its lines: it counts only where neither a
    script nor any line names a program, and where all links that tell a role tell the same one.
    """
    told = {(f.software, f.role) for f in facts if isinstance(f, Mention) and f.role is not None}
    if len(told) != 1:
        return ()
    software, role = told.pop()
    if software == TRAINING:
        return ()
    label = LABELS.get(role or "", role or "")
    return (Program(label=label, role=role or "", software=software, versions=dict(versions)),)


def _is(program: Program, software: str, role: str) -> bool:
    """Whether a program of the plan is the one that shows itself so."""
    if software in (program.software, program.engine):
        return True
    serving = ("rollout", "inference")
    if role in serving and program.role in serving and software == "vllm":
        return program.engine in (None, "vllm") and program.software not in ("sglang",)
    return role == "trainer" and program.role == "trainer"


def _shown_by(fact: Fact) -> Iterable[tuple[str, str, int]]:
    """(software, role, weight) that a fact shows."""
    sign = by_name(fact.speaker.name)
    if sign is not None and sign.role is not None:
        yield sign.software, sign.role, 2
    elif fact.speaker.container is not None and _TRAINS.search(fact.speaker.container):
        yield "python", "trainer", 2
    if isinstance(fact, Identity):
        if fact.role is not None:
            yield fact.software, fact.role, 3
    elif isinstance(fact, (EngineLoad, EngineNotice)):
        if sign is None:
            # SGLang's scheduler and TensorRT-LLM's executor have a watchdog of their own
            watchdog = isinstance(fact, EngineNotice) and fact.kind == "watchdog"
            executor = watchdog and "PyExecutor" in fact.quote
            yield "tensorrt-llm" if executor else "sglang" if watchdog else "vllm", "inference", 1
    elif isinstance(fact, PythonException) and fact.frames_from != "launcher":
        for frame in reversed(fact.frames[-40:]):
            found = by_path(frame.file)
            if found is not None and found.role is not None:
                yield found.software, found.role, 2
                break
    elif isinstance(fact, ProcessStack):
        for thread in fact.threads[:1]:
            for frame in thread.frames[:40]:
                found = by_path(frame.file)
                if found is not None and found.role is not None:
                    yield found.software, found.role, 2
                    break
    elif isinstance(fact, ProcessEnd) and fact.reporter in ("torchrun", "deepspeed", "accelerate"):
        yield fact.reporter, "trainer", 2


def _parallel(settings: Mapping[str, str]) -> Parallel:
    def number(*names: str) -> int | None:
        for name in names:
            value = settings.get(name, "")
            if value.isdigit() and 0 < int(value) <= 65536:
                return int(value)
        return None

    return Parallel(
        tensor=number("tensor_parallel_size", "tp_size"),
        data=number("data_parallel_size", "dp_size"),
        pipeline=number("pipeline_parallel_size", "pp_size"),
    )


def _processes(parallel: Parallel) -> int | None:
    sizes = (parallel.tensor, parallel.data, parallel.pipeline)
    if all(size is None for size in sizes):
        return None
    product = 1
    for size in sizes:
        product *= size or 1
    return product


class Owners(msgspec.Struct):
    """Answers which program a fact belongs to."""

    programs: tuple[Program, ...]
    by_source: dict[str, Program]
    by_pid: dict[int, Program]

    @classmethod
    def of(cls, facts: Sequence[Fact], programs: tuple[Program, ...]) -> Owners:
        """Learn from all facts which sources and processes belong to which program."""
        owners = cls(programs, {}, {})
        votes: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for fact in facts:
            for software, role, weight in _shown_by(fact):
                program = owners.program_of(software, role)
                if program is None:
                    continue
                votes[fact.place.source][program.label] += weight
                if fact.speaker.pid is not None and weight > 1:
                    owners.by_pid.setdefault(fact.speaker.pid, program)
            if isinstance(fact, GroupCreated) and fact.roles:
                sign = by_name(fact.speaker.name)
                program = owners.program_of(sign.software, sign.role or "") if sign else None
                if program is not None and fact.speaker.pid is not None:
                    owners.by_pid.setdefault(fact.speaker.pid, program)
        labels = {program.label: program for program in programs}
        for source, counted in votes.items():
            ranked = sorted(counted.items(), key=lambda item: -item[1])
            if len(ranked) == 1 and len(programs) > 0:
                owners.by_source[source] = labels[ranked[0][0]]
        return owners

    def program_of(self, software: str, role: str) -> Program | None:
        """The one program that shows itself by this software and role."""
        exact = [p for p in self.programs if software in (p.software, p.engine) and p.role == role]
        if len(exact) == 1:
            return exact[0]
        same = [p for p in self.programs if software in (p.software, p.engine)]
        if len(same) == 1:
            return same[0]
        fitting = [p for p in self.programs if _is(p, software, role)]
        return fitting[0] if len(fitting) == 1 else None

    def _elsewhere(self, fact: Fact) -> bool:
        """Whether a file in which the one engine never shows itself tells it, beside its own."""
        return (
            self.programs[0].role in ("rollout", "inference", "reward")
            and bool(self.by_source)
            and fact.place.source not in self.by_source
            and by_name(fact.speaker.name) is None
        )

    def owner(self, fact: Fact) -> Program | None:
        """The program that said it, or ``None`` where the input does not tell."""
        if len(self.programs) == 1:
            return None if self._elsewhere(fact) else self.programs[0]
        for software, role, _ in _shown_by(fact):
            program = self.program_of(software, role)
            if program is not None:
                return program
        if fact.speaker.pid is not None and fact.speaker.pid in self.by_pid:
            return self.by_pid[fact.speaker.pid]
        rank = fact.speaker.rank
        if rank is not None:
            able = [p for p in self.programs if p.processes is None or rank < p.processes]
            if len(able) == 1:
                return able[0]
        # one source of several programs tells nothing; one that only one program wrote does
        if (
            len({program.label for program in self.by_source.values()}) > 1
            or len(self.by_source) > 1
        ):
            return self.by_source.get(fact.place.source)
        return None
