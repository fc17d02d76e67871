"""The known defects: the file is sound, every entry's signs can be seen, and ranges hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from unstall.causes import all_causes
from unstall.model.facts import (
    CollectiveMismatch,
    CollectiveTimeout,
    CudaError,
    EnvironmentValue,
    Fact,
    Frame,
    NcclError,
    NcclTransport,
    PackageVersion,
    Place,
    PythonException,
    WatchdogStuck,
    Work,
)
from unstall.model.findings import ProcessGroup
from unstall.model.plan import Program, Value
from unstall.programs.identify import Match
from unstall.programs.known_bugs import KnownBug, Scene, Sign, known_bugs, seen, version_of

AT: dict[str, Any] = {"place": Place("run.log", 7), "quote": "a line"}
TIMEOUT = CollectiveTimeout(**AT, work=Work("ALLREDUCE", 12))
DP = Match(
    program="server",
    software="vLLM",
    framework="vllm",
    group=ProcessGroup(name="dp", guid="15", ranks=(0, 1)),
)  # fmt: skip


def scene(*facts: Fact, programs: Sequence[Program] = (), groups: Sequence[Match] = ()) -> Scene:
    by_type: dict[type[Fact], list[Fact]] = defaultdict(list)
    for fact in facts:
        by_type[type(fact)].append(fact)
    return Scene(dict(by_type), programs, groups)


def raised(message: str, file: str = "/srv/app/run.py", kind: str = "RuntimeError") -> Fact:
    return PythonException(**AT, type=kind, message=message, frames=(Frame("main", file, 3),))


def by_id(name: str) -> KnownBug:
    return next(bug for bug in known_bugs() if bug.id == name)


#: Each entry: what shows it, and what is like it and does not.
SHOWN: dict[str, tuple[Scene, Scene]] = {
    "swift-rollout-wave-race": (
        scene(programs=[Program(label="r", role="rollout", software="ms-swift")], groups=[DP]),
        scene(programs=[Program(label="t", role="trainer", software="ms-swift")], groups=[DP]),
    ),
    "vllm-dense-data-parallel": (scene(groups=[DP]), scene(TIMEOUT)),
    "vllm-external-launcher-zero-tokens": (
        scene(
            CollectiveMismatch(
                place=Place("a", 1),
                quote="op.preamble.length <= op.nbytes. 8 vs 4",
                mine=(None, None, None, None),
                other=(None, None, None, None),
            ),
            raised("gloo", "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py"),
        ),
        scene(raised("gloo", "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py")),
    ),
    "torch-270-device-id": (scene(TIMEOUT), scene(raised("no"))),
    "nccl-2251-abort": (scene(WatchdogStuck(**AT, seconds=480)), scene(TIMEOUT)),
    "nccl-2292-regression": (scene(TIMEOUT), scene()),
    "nccl-launch-blocking": (
        scene(TIMEOUT, EnvironmentValue(**AT, name="CUDA_LAUNCH_BLOCKING", value="1")),
        scene(TIMEOUT, EnvironmentValue(**AT, name="CUDA_LAUNCH_BLOCKING", value="0")),
    ),
    "driver-560-p2p": (
        scene(NcclTransport(**AT, kind="p2p")),
        scene(NcclTransport(**AT, kind="shm")),
    ),
    "transformers-checkpoint-rename": (
        scene(raised("[Errno 2] No such file: 'x/tmp-checkpoint-3' -> 'x/checkpoint-3'")),
        scene(raised("[Errno 2] No such file: 'x/checkpoint-3'")),
    ),
    "trl-stale-weight-group": (
        scene(raised("Weight update group already initialized. Call close_communicator first.")),
        scene(raised("Communicator not initialized.")),
    ),
    "torch-foreign-nccl": (
        scene(raised("libtorch_cuda.so: undefined symbol: ncclMemFree", kind="ImportError")),
        scene(raised("flash.so: undefined symbol: _ZN3c10", kind="ImportError")),
    ),
    "ray-verl-placement": (
        scene(
            NcclError(
                **AT,
                result="ncclInvalidUsage",
                last_error="Duplicate GPU detected : rank 3 and rank 1 both on CUDA device 4f000",
            ),
            raised("x", "/opt/verl/single_controller/ray/base.py"),
        ),
        scene(raised("x", "/opt/verl/single_controller/ray/base.py")),
    ),
    "nccl-interface-not-found": (
        scene(
            NcclError(
                **AT,
                result="ncclInternalError",
                last_error="ncclSocketInit: connecting to address  with family 99 is neither "
                "AF_INET(2) nor AF_INET6(10)",
            )
        ),
        scene(NcclError(**AT, result="ncclInternalError")),
    ),
    "rocm-captured-event": (
        scene(
            CudaError(
                place=Place("a", 1), quote="HIP error: operation not permitted on an event",
                name="CapturedEvent", text="operation not permitted on an event",
            )
        ),
        scene(
            CudaError(
                place=Place("a", 1), quote="CUDA error: operation not permitted on an event",
                name="CapturedEvent", text="operation not permitted on an event",
            )
        ),
    ),
    "deepspeed-zero3-experts": (
        scene(
            programs=[
                Program(
                    label="t",
                    role="trainer",
                    software="deepspeed",
                    command=("deepspeed", "sft.py", "--model", "org/Mixtral-8x7B"),
                )
            ]
        ),
        scene(
            programs=[Program(label="t", role="trainer", software="deepspeed", command=("x.py",))]
        ),
    ),
}  # fmt: skip


def test_there_are_a_dozen_and_the_founding_one_is_first() -> None:
    assert len(known_bugs()) >= 12
    assert known_bugs()[0].id == "swift-rollout-wave-race"


@pytest.mark.parametrize("bug", known_bugs(), ids=lambda bug: bug.id)
class TestEveryEntry:
    def test_is_sound(self, bug: KnownBug) -> None:
        """It concerns a cause, cites addresses, and its signs look for something."""
        assert bug.cause in {cause.id for cause in all_causes()}
        assert bug.links
        assert all(link.startswith("https://github.com/") for link in bug.links)
        assert bug.signs
        assert all(sign != Sign() for sign in bug.signs)
        assert bug.what
        assert bug.advice
        assert bug.since is None or bug.fixed is None or bug.standing(bug.since) == "inside"

    def test_is_seen_where_it_shows_itself_and_not_beside(self, bug: KnownBug) -> None:
        shows, beside = SHOWN[bug.id]
        assert seen(bug, shows) is not False
        assert seen(bug, beside) is False

    def test_its_fix_is_outside(self, bug: KnownBug) -> None:
        if bug.fixed is None:
            pytest.skip("no release without it is known")
        assert bug.standing(bug.fixed) == "outside"

    def test_an_unknown_version_is_untold(self, bug: KnownBug) -> None:
        assert bug.standing(None) == "untold"
        assert bug.standing("main") == "untold"


@pytest.mark.parametrize(
    ("version", "standing"),
    [
        ("4.35.2", "outside"),
        ("4.36.0", "inside"),
        ("4.37.2", "inside"),
        ("4.38.0", "outside"),
        ("4.51.3", "outside"),
    ],
)
def test_the_range_has_its_ends(version: str, standing: str) -> None:
    assert by_id("transformers-checkpoint-rename").standing(version) == standing


def test_a_fact_among_the_signs_is_given() -> None:
    found = seen(by_id("trl-stale-weight-group"), SHOWN["trl-stale-weight-group"][0])
    assert isinstance(found, PythonException)
    assert found.place == Place("run.log", 7)


def test_a_variable_of_a_program_counts_too() -> None:
    program = Program(
        label="t", role="trainer", software="torchrun",
        environment={"CUDA_LAUNCH_BLOCKING": Value("1")},
    )  # fmt: skip
    assert seen(by_id("nccl-launch-blocking"), scene(TIMEOUT, programs=[program])) is TIMEOUT


def test_a_version_is_looked_up_in_packages_and_programs() -> None:
    program = Program(label="s", role="rollout", software="trl", versions={"trl": "0.21.0"})
    assert version_of("trl", {}, [program]) == "0.21.0"
    assert version_of("trl", {"trl": "0.19.1"}, [program]) == "0.19.1"
    assert version_of("ms-swift", {"ms_swift": "3.9.0"}, ()) == "3.9.0"
    assert version_of("torch", {}, ()) is None


def test_a_word_is_found_in_a_package_list() -> None:
    bug = KnownBug(
        id="x", framework="x", cause="unknown", what="w", advice="a", links=("l",),
        signs=(Sign(word="Apex".lower()),),
    )  # fmt: skip
    package = PackageVersion(**AT, name="NVIDIA-Apex", version="0.1")
    assert seen(bug, scene(package)) is package
    assert seen(bug, scene()) is False
