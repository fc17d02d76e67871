"""The tables of docs/process-groups.md, made from the descriptions themselves.

``python -m unstall.programs.group_tables > docs/process-groups.md`` writes the page anew; a test
asks that the two agree.
"""

from __future__ import annotations

from unstall.programs.frameworks import FRAMEWORKS
from unstall.programs.groups import HASHED, Framework, Step, layout
from unstall.programs.timeouts import DEFAULTS, TORCH
from unstall.programs.vllm.groups import VLLM
from unstall.programs.vllm.stepping import dp_sync, startup, wave_interval

INTRODUCTION = """\
# Process groups, as frameworks make them

A watchdog's line names a group by numbers: `[PG ID 5 PG GUID 15 Rank 0]`. A framework makes its
groups in a fixed order, so the numbers say which group it was, and of which program. This page
shows the orders that `unstall` works with, so that someone who knows a framework can check them.
It is made from the code (`python -m unstall.programs.group_tables`); correct the code beside it,
`src/unstall/programs/<framework>/groups.py`, and make the page anew.

## What PyTorch counts

* **PG GUID** is the group's name: it counts the calls of `init_process_group` and `new_group` in
  this process, whether or not it is a member, whatever the back end. The default group is 0.
* **PG ID** counts the `ProcessGroupNCCL` objects of this process: groups that it is a member of
  and whose back end is NCCL. gloo groups take a GUID and no ID.
* `split_group` and `use_local_synchronization` name a group by the SHA-1 of its members and of
  the number of groups that the process had joined; such groups take an ID and no count.
* `Rank` inside the brackets is the rank within the group.
* PyTorch 2.3 prints `[PG <ID> Rank r]`, 2.4 `[PG <GUID> (description) Rank r]`, 2.5 and later
  both. A description is shown where the program gave one; the default group's is `default_pg`.
* `init_device_mesh` makes one `new_group` for each list of ranks of each dimension, in order,
  described as `mesh_<dimension>`. A dimension that spans all ranks reuses the default group
  (in older versions only in a mesh of one dimension; `unstall` draws the line at 2.10, which was
  not checked). Where the default group is bound to a device
  (`init_process_group(device_id=...)`) it is split instead, and the names are hashes.

## How to read the tables

Each row is a step. For every list of ranks it makes the groups of the column *makes*, list by
list; "NCCL + gloo" means one of each in turn. The default group comes before all of them.
"""


def table(framework: Framework) -> str:
    """A framework's steps as a Markdown table with what stands around it."""
    first, last = framework.read
    lines = [
        f"## {framework.label}",
        "",
        f"Source: `{framework.source}`, read from {first} to {last} "
        f"(package `{framework.package}`).",
        f"Default group: {framework.default_backend}, used {framework.default_used} "
        f"({framework.default_source}).",
        "",
    ]
    if not framework.steps:
        return "\n".join([*lines, "No groups of its own.", ""])
    lines += [
        "| step | lists of ranks over | makes | versions | made when |",
        "|---|---|---|---|---|",
    ]
    for step in framework.steps:
        makes = " + ".join(_part(step, n) for n in range(len(step.parts)))
        naming = " (split)" if step.naming == HASHED else ""
        lines.append(
            f"| {step.name} | {step.over or '-'} | {makes}{naming} | {_range(step)} | "
            f"{step.condition or 'always'} |"
        )
    return "\n".join([*lines, ""])


def _part(step: Step, index: int) -> str:
    part = step.parts[index]
    backend = {"nccl": "NCCL", "gloo": "gloo", "both": "gloo and NCCL in one"}[part.backend]
    shown = f" `{part.description}`" if part.description else ""
    return f"{backend}{shown}"


def _range(step: Step) -> str:
    if step.since and step.until:
        return f"{step.since} to before {step.until}"
    if step.since:
        return f"from {step.since}"
    return f"before {step.until}" if step.until else "all"


def example(framework: Framework, sizes: dict[str, int], version: str) -> str:
    """The numbers for one choice of sizes."""
    made = layout(framework, sizes, version)
    told = ", ".join(f"{name.upper()} {value}" for name, value in sizes.items())
    lines = [
        f"{framework.label} {version} with {told}:",
        "",
        "| group | members | back end | PG GUID | PG ID |",
        "|---|---|---|---|---|",
    ]
    for group in made.groups:
        ids = sorted(set(group.ids.values()))
        lines.append(
            f"| {group.name} | {', '.join(map(str, group.ranks))} | {group.backend} | "
            f"{group.guid} | {ids[0] if ids else '-'} |"
        )
    return "\n".join([*lines, ""])


def stepping() -> str:
    """The data-parallel step of vLLM, version by version."""
    lines = [
        "## vLLM's data-parallel step",
        "",
        "Every forward pass of every data-parallel engine, also of an idle one, begins with one "
        "all-reduce. A wave can end only where the engines ask each other whether anyone is "
        "unfinished, so the count between waves is start-up + interval x k, and the first step of "
        "a new wave has one more. From 0.30 they also ask at the first step of a wave.",
        "",
        "| version | elements | group | to the CPU group by | interval |",
        "|---|---|---|---|---|",
    ]
    for version in ("0.8.5", "0.9.2", "0.11.0", "0.11.1", "0.13.0", "0.14.0", "0.17.0", "0.30.0"):
        sync = dp_sync(version)
        switch = f"`{sync.switch}`" if sync.switch else "-"
        if sync.moved_by_default:
            switch += ", and asynchronous scheduling (the default)"
        elements = "DP" if sync.factor == 1 else f"{sync.factor} x DP"
        lines.append(
            f"| {version} | {elements} | dp, {sync.backend} | {switch} | {wave_interval(version)} |"
        )
    known = startup("0.11.0", 256)
    assert known is not None  # noqa: S101 - 0.11.0 is described
    lines += [
        "",
        "Start-up of 0.11 and 0.12: 1 profile pass + 2 x graphs of mixed batches + 2 x graphs of "
        "decode batches + 1 sampler warm-up; 1 more where FlashInfer tunes itself. With the "
        f"default sizes and max_num_seqs 256 that is {known.counts[0]} (or {known.counts[1]}).",
        "",
    ]
    return "\n".join(lines)


def timeouts() -> str:
    """Default time-outs as a Markdown table."""
    lines = [
        "## Time-outs that nobody asked for",
        "",
        "Accelerate, torchrun, vLLM and SGLang leave PyTorch's default in place.",
        "",
        "| software | default | set by | source |",
        "|---|---|---|---|",
    ]
    for row in (*TORCH, *DEFAULTS):
        lines.append(
            f"| {', '.join(row.software)} | {row.milliseconds // 1000} s | {row.name} | "
            f"{row.source} |"
        )
    return "\n".join([*lines, ""])


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for framework in FRAMEWORKS:
        parts.append(table(framework))
        if framework is VLLM:
            parts.append(example(VLLM, {"dp": 2, "tp": 1}, "0.11.0"))
            parts.append(stepping())
    parts.append(timeouts())
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
