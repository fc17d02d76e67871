"""What ms-swift's settings and releases offer against causes.

Sources: ms-swift 3.10.3 ``swift/llm/infer/rollout.py``, ``swift/trainers/rlhf_trainer/``
(``vllm_server_host`` and ``vllm_server_port`` take lists of equal length; the weight exchange of
server ``i`` uses port 51216 + i); ms-swift 4.3.0, pull request 9295 (commit cab4169d4):
independent engines for each slice of devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unstall.model.findings import Change, Fix
from unstall.model.plan import Program
from unstall.model.text import say
from unstall.programs.groups import within

FIXED = "4.3.0"


def remedies(
    cause: str, program: Program, programs: Sequence[Program], versions: Mapping[str, str]
) -> list[Fix]:
    """Fixes for a cause of a ms-swift program, in order."""
    if cause != "engine-desync":
        return []
    found: list[Fix] = []
    engines = program.parallel.data
    if engines is not None and engines > 1:
        found.extend(_independent(program, programs, engines))
    if program.role == "rollout":
        found.append(
            Fix(
                say("let one coordinator start the waves: --vllm_use_async_engine true"),
                Change(program.label, {"vllm_use_async_engine": "true"}),
            )
        )
    version = versions.get("ms-swift")
    if version is None or within(version, None, FIXED):
        found.append(
            Fix(
                say(
                    "update ms-swift to release {version} or later: it starts independent engines "
                    "for each slice of devices (pull request 9295)",
                    version=FIXED,
                )
            )
        )
    return found


def _independent(program: Program, programs: Sequence[Program], engines: int) -> list[Fix]:
    share = len(program.devices) // engines if program.devices else 0
    first = ",".join(map(str, program.devices[:share])) if program.devices and share else None
    change = Change(
        program.label,
        {"CUDA_VISIBLE_DEVICES": first} if first else {},
        ("vllm_data_parallel_size",),
    )
    found = [
        Fix(
            say(
                "start {count} independent servers, one for each share of the devices and each on "
                "a port of its own, without the data-parallel flag: a dense model needs no "
                "exchange between engines",
                count=engines,
            ),
            change,
        )
    ]
    trainer = next((one for one in programs if one.role == "trainer"), None)
    if trainer is not None and "vllm_server_port" in trainer.flags:
        host = trainer.flags.get("vllm_server_host")
        hosts = " ".join([host.text if host is not None else "127.0.0.1"] * engines)
        ports = " ".join(f"PORT{number}" for number in range(1, engines + 1))
        found.append(
            Fix(
                say(
                    "and name them all to the trainer: --vllm_server_host {hosts} "
                    "--vllm_server_port {ports} (lists of equal length)",
                    hosts=hosts,
                    ports=ports,
                ),
                Change(trainer.label, {"vllm_server_host": hosts, "vllm_server_port": ports}),
            )
        )
    return found
