"""What vLLM's settings and releases offer against causes.

Sources: vLLM pull request 30739 (0.14.0: data parallelism of a dense model is served by independent
engines), 0.14.0 also refuses offline data parallelism of a dense model at start-up; issue 28224
(idle engine out of step, 0.11); documentation "Data parallel deployment", external load balancing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unstall.model.findings import Change, Fix
from unstall.model.plan import Program
from unstall.model.text import say
from unstall.programs.groups import within

FIXED = "0.14.0"
_FLAGS = ("data_parallel_size", "dp")


def remedies(
    cause: str, program: Program, programs: Sequence[Program], versions: Mapping[str, str]
) -> list[Fix]:
    """Fixes for a cause of a vLLM program or of one that holds a vLLM engine, in order."""
    del programs
    if cause != "engine-desync":
        return []
    found: list[Fix] = []
    own = program.software == "vllm"
    if own and (program.parallel.data is None or program.parallel.data > 1):
        flags = tuple(flag for flag in _FLAGS if flag in program.flags)
        found.append(
            Fix(
                say(
                    "for a dense model run independent replicas behind a load balancer instead of "
                    "one data-parallel server"
                ),
                Change(program.label, {}, flags) if flags else None,
            )
        )
    version = versions.get("vllm") or program.versions.get("vllm")
    if version is None or within(version, None, FIXED):
        if own:
            found.append(
                Fix(
                    say(
                        "upgrade vLLM to {version} or later, where the engines of a dense model no "
                        "longer step together (pull request 30739)",
                        version=FIXED,
                    )
                )
            )
        else:
            found.append(
                Fix(
                    say(
                        "a newer vLLM alone is not enough here: {version} and later serve dense "
                        "online data parallelism by independent engines and refuse the offline "
                        "kind at start-up (pull request 30739)",
                        version=FIXED,
                    )
                )
            )
    return found
