"""Whose group a line names, with programs of other names, sizes and numbers than any report's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.model.facts import GroupStatus, GroupTag, Place, Work
from unstall.model.plan import Parallel, Program, Timeout, Value
from unstall.programs.frameworks import frameworks_of
from unstall.programs.identify import (
    Match,
    by_program,
    fits,
    identify,
    meaning,
    probabilities,
)
from unstall.programs.timeouts import group_timeout, torch_default


def engine(label: str = "generator", **parallel: int) -> Program:
    sizes = {"tensor": 1, "data": 1, "pipeline": 1, **parallel}
    return Program(
        label=label,
        role="rollout",
        software="vllm",
        engine="vllm",
        parallel=Parallel(**sizes),  # type: ignore[arg-type]
        processes=sizes["tensor"] * sizes["data"] * sizes["pipeline"],
    )


def learner(ranks: int, software: str = "ms-swift", **flags: str) -> Program:
    return Program(
        label="learner",
        role="trainer",
        software=software,
        processes=ranks,
        flags={name: Value(text) for name, text in flags.items()},
    )


def unused_default(enqueued: int = -1) -> GroupStatus:
    return GroupStatus(
        place=Place("run.log", 40),
        quote="last enqueued work: -1",
        group=GroupTag(0, "0", "default_pg", 1),
        last_enqueued=enqueued,
    )


def work(numel: int, ms: int = 600_000, op: str = "ALLREDUCE") -> Work:
    return Work(op, 1000, numel, numel, None, ms)


def best(matches: list[Match]) -> Match:
    assert matches
    return matches[0]


class TestTwoPrograms:
    """An engine group of four replicas beside a trainer of eight ranks."""

    # vLLM 0.11.2, DP 4, TP 1: world 1, 2; TP 3-10; DCP 11-18; PP 19-26; DP 27, 28.
    TAG = GroupTag(5, "27", None, 2)
    VERSIONS = {"vllm": "0.11.2", "torch": "2.9.0"}  # noqa: RUF012 - a constant of the test

    def matches(self, numel: int = 16) -> list[Match]:
        return identify(
            self.TAG,
            work(numel),
            [learner(8, deepspeed="zero3"), engine(data=4)],
            self.VERSIONS,
            {0, 1, 3},
            [unused_default()],
        )

    def test_the_engines_data_parallel_group(self) -> None:
        found = best(self.matches())
        assert found.program == "generator"
        assert found.group is not None
        assert (found.group.name, found.group.ranks) == ("dp", (0, 1, 2, 3))
        assert (found.group.id, found.group.guid) == (5, "27")
        assert found.fitting == 1
        assert not found.guessed
        assert by_program(self.matches())["generator"] > 0.95

    def test_every_reason_is_given_with_its_source(self) -> None:
        found = best(self.matches())
        said = " / ".join(str(e.text) for e in found.support)
        assert "PG ID 5 PG GUID 27 is vLLM 0.11.2's group “dp”" in said
        assert "16 elements are 4 x 4" in said
        assert "never used" in said
        assert "600 s" in said
        assert all(e.source for e in found.support)
        assert any(e.place == Place("run.log", 40) for e in found.support)

    def test_what_speaks_against_the_trainer(self) -> None:
        other = next(m for m in self.matches() if m.program == "learner")
        assert other.group is None
        said = " / ".join(str(e.text) for e in other.against)
        assert "18000000 s (ddp_timeout), not 600 s" in said
        assert "uses it from the start" in said
        assert "no group of DeepSpeed ZeRO" in said
        assert other.fit < -4

    def test_other_elements_lower_the_fit(self) -> None:
        assert best(self.matches(16)).fit > best(self.matches(7)).fit + 2

    def test_a_trainer_in_its_default_group(self) -> None:
        matches = identify(
            GroupTag(0, "0", "default_pg", 5),
            work(1, 18_000_000_000),
            [learner(8, deepspeed="zero3"), engine(data=4)],
            self.VERSIONS,
            {0, 1, 2, 3, 4, 5, 6},
            [unused_default(enqueued=812)],
        )
        found = best(matches)
        assert found.program == "learner"
        assert found.group is not None
        assert found.group.name == "default"
        assert by_program(matches)["learner"] > 0.9

    def test_plain_deepspeed_may_leave_its_default_group_alone(self) -> None:
        def against(software: str) -> float:
            program = learner(4, software, deepspeed="ds.json")
            tag = GroupTag(1, "1", None, 0)
            (match,) = identify(tag, work(1 << 20), [program], {}, (), [unused_default()])
            return sum(e.weight for e in match.against if "never used" in str(e.text))

        assert against("deepspeed") == 1.5
        assert against("trl") == 3.0


class TestRanks:
    def test_a_rank_beyond_the_program_rules_it_out(self) -> None:
        matches = identify(
            GroupTag(1, "1", None, 6),
            work(4096),
            [engine(tensor=2), learner(8, "deepspeed")],
            {"vllm": "0.10.2"},
            {0, 3, 6},
        )
        assert best(matches).program == "learner"
        assert best(matches).group is not None
        server = next(m for m in matches if m.program == "generator")
        assert any("rank 6 cannot be among 2 ranks" in str(e.text) for e in server.against)

    def test_the_rank_inside_must_be_a_member(self) -> None:
        program = engine(tensor=2, data=2)
        # TP 3-6 of (0, 1) and (2, 3): rank 2 of the group cannot be.
        assert best(identify(GroupTag(2, "5", None, 1), work(64), [program], {"vllm": "0.11.0"}))
        found = identify(GroupTag(2, "5", None, 2), work(64), [program], {"vllm": "0.11.0"})
        assert best(found).group is None


class TestVersionsOfTorch:
    def test_2_3_prints_the_number_of_this_process(self) -> None:
        found = best(
            identify(GroupTag(2, None, None, 1), None, [engine(tensor=2)], {"torch": "2.3.0"})
        )
        assert found.group is not None
        assert found.group.name == "tp"

    def test_2_4_prints_the_name(self) -> None:
        """3 is the GUID of the tensor-parallel group, 2 that of a gloo group."""
        versions = {"torch": "2.4.0", "vllm": "0.8.5"}
        found = best(identify(GroupTag(3, None, None, 1), None, [engine(tensor=2)], versions))
        assert found.group is not None
        assert found.group.name == "tp"
        other = best(identify(GroupTag(2, None, None, 1), None, [engine(tensor=2)], versions))
        assert other.group is None

    def test_a_description_must_agree(self) -> None:
        program = Program(
            label="pretraining",
            role="trainer",
            software="megatron",
            processes=8,
            parallel=Parallel(tensor=2, pipeline=2, context=1, expert=1),
        )
        versions = {"megatron-core": "0.13.0", "torch": "2.6.0"}
        right = GroupTag(5, "29", "TENSOR_MODEL_PARALLEL_GROUP", 0)
        wrong = GroupTag(5, "29", "DATA_PARALLEL_GROUP", 0)
        found = best(identify(right, work(8192), [program], versions, {4, 5}))
        assert found.group is not None
        assert found.group.ranks == (4, 5)
        assert best(identify(wrong, work(8192), [program], versions, {4, 5})).group is None


class TestUnknownSizes:
    def test_sizes_are_guessed_and_said_to_be(self) -> None:
        program = Program(label="endpoint", role="inference", software="vllm")
        matches = identify(GroupTag(2, "3", None, 3), work(50_000), [program], {}, {0, 1, 2, 3})
        found = best(matches)
        assert found.group is not None
        assert found.group.name == "tp"
        assert found.sizes["tp"] == 4
        assert "tp" in found.guessed
        assert any("can be" in str(e.text) for e in found.support)

    def test_elements_choose_among_the_sizes(self) -> None:
        """(5, 27) fits several layouts; 4 elements in 0.11.0 mean four engines."""
        program = Program(label="endpoint", role="inference", software="vllm")
        found = best(
            identify(
                GroupTag(5, "27", None, 1),
                work(4),
                [program],
                {"vllm": "0.11.0", "torch": "2.8.0"},
                {0, 1, 2},
            )
        )
        assert found.group is not None
        assert (found.group.name, found.sizes["dp"]) == ("dp", 4)

    def test_without_a_plan_it_stays_weak(self) -> None:
        matches = identify(GroupTag(5, "27", None, 1), work(4), [], {}, {0, 1, 2})
        assert matches
        assert all(match.program is None for match in matches)
        assert max(probabilities(matches)) < 0.8
        assert by_program(matches) == {}


class TestTagsAlone:
    def test_a_mesh_dimension(self) -> None:
        text = meaning(GroupTag(3, "9", "mesh_dp_replicate", 0))
        assert text is not None
        assert "replicas" in str(text)
        assert "replicas" not in text.render("zh")

    def test_the_default_group(self) -> None:
        assert "default group" in str(meaning(GroupTag(0, "0", "default_pg", 0)))

    def test_a_group_opened_under_a_name(self) -> None:
        tag = GroupTag(7, "weight_update_group", None, 1)
        assert "new weights" in str(meaning(tag))
        server = Program(label="sampler", role="rollout", software="sglang", engine="sglang")
        matches = identify(tag, None, [learner(4, "torchrun"), server], {})
        assert best(matches).program == "sampler"

    def test_a_hashed_name(self) -> None:
        from unstall.programs.group_names import hashed_name

        tag = GroupTag(4, hashed_name((2, 3), 5), "undefined", 0)
        assert "2, 3" in str(meaning(tag, world=4))
        assert meaning(tag) is None

    def test_nothing_known(self) -> None:
        assert meaning(GroupTag(5, "15", None, 0), world=8) is None


class TestFrameworks:
    @pytest.mark.parametrize(
        ("program", "first"),
        [
            (engine(), "vllm"),
            (learner(4, "ms-swift", deepspeed="zero2"), "deepspeed"),
            (learner(4, "ms-swift"), "ddp"),
            (learner(4, "accelerate", use_fsdp="true"), "ddp"),
            (learner(4, "verl"), "verl"),
            (learner(4, "openrlhf"), "openrlhf"),
            (learner(4, "megatron"), "megatron"),
            (
                Program(
                    label="x",
                    role="trainer",
                    software="ms-swift",
                    command=("megatron", "sft"),
                ),
                "megatron",
            ),
            (
                Program(
                    label="x",
                    role="trainer",
                    software="python",
                    command=("deepspeed", "train.py"),
                ),
                "deepspeed",
            ),
            (Program(label="x", role="rollout", software="ms-swift", engine="vllm"), "vllm"),
            (Program(label="x", role="inference", software="sglang", engine="sglang"), "sglang"),
        ],
    )
    def test_which_one_a_program_is(self, program: Program, first: str) -> None:
        assert frameworks_of(program)[0].name == first

    def test_data_parallel_attention_splits_tp(self) -> None:
        server = Program(
            label="server",
            role="inference",
            software="sglang",
            engine="sglang",
            parallel=Parallel(tensor=4, data=2, pipeline=1, expert=1, extra={"dp attention": 1}),
            processes=4,
        )
        # 0.5.9: TP 3, 4; attn_cp 5-12; attention_tp 13-16
        found = best(
            identify(GroupTag(4, "15", None, 1), work(999), [server], {"sglang": "0.5.9"}, {2, 3})
        )
        assert found.group is not None
        assert (found.group.name, found.group.ranks) == ("attention_tp", (2, 3))

    def test_dense_replicas_are_worlds_of_their_own(self) -> None:
        """VLLM 0.14, DP 4, TP 2, dense: TP is (2, 3) in every engine."""
        found = best(
            identify(
                GroupTag(2, "3", None, 1),
                work(777),
                [engine(data=4, tensor=2)],
                {"vllm": "0.14.1"},
                {0, 1},
            )
        )
        assert found.group is not None
        assert found.group.name == "tp"


class TestTimeouts:
    def test_a_given_one_wins(self) -> None:
        place = Place("run.sh", 3)
        program = Program(
            label="t",
            role="trainer",
            software="trl",
            timeouts=(
                Timeout("ddp_timeout", 7_200_000, "process groups", Value("7200", place=place)),
            ),
        )
        found = group_timeout(program, "ddp", {})
        assert found is not None
        assert (found.milliseconds, found.given, found.source) == (7_200_000, True, "ddp_timeout")
        assert found.place == place

    @pytest.mark.parametrize(
        ("software", "framework", "versions", "seconds"),
        [
            ("ms-swift", "deepspeed", {}, 18_000_000),
            ("ms-swift", "vllm", {}, 600),
            ("trl", "ddp", {}, 1800),
            ("accelerate", "ddp", {}, 600),
            ("accelerate", "ddp", {"torch": "2.1.2"}, 1800),
            ("deepspeed", "deepspeed", {"deepspeed": "0.16.4"}, 1800),
            ("deepspeed", "deepspeed", {"deepspeed": "0.19.8"}, 600),
            ("megatron", "megatron", {}, 600),
            ("openrlhf", "openrlhf", {}, 3600),
            ("verl", "verl", {}, 600),
        ],
    )
    def test_defaults(
        self, software: str, framework: str, versions: dict[str, str], seconds: int
    ) -> None:
        program = Program(label="t", role="trainer", software=software)
        found = group_timeout(program, framework, versions)
        assert found is not None
        assert found.milliseconds == seconds * 1000
        assert not found.given

    def test_torch(self) -> None:
        assert torch_default("2.1.0").milliseconds == 1_800_000
        assert torch_default("2.2.0").milliseconds == 600_000
        assert torch_default(None).milliseconds == 600_000

    @pytest.mark.parametrize(
        ("version", "seconds"), [("0.18.1", 600), ("0.24.0", 600), ("0.25.0", 1800), (None, 1800)]
    )
    def test_vllms_own_reached_only_the_world_group_at_first(
        self, version: str | None, seconds: int
    ) -> None:
        given = Timeout("distributed_timeout_seconds", 1_800_000, "process groups", Value("1800"))
        program = Program(label="s", role="inference", software="vllm", timeouts=(given,))
        found = group_timeout(program, "vllm", {"vllm": version} if version else {})
        assert found is not None
        assert found.milliseconds == seconds * 1000

    def test_a_hidden_one_is_not_guessed(self) -> None:
        program = Program(
            label="t",
            role="trainer",
            software="trl",
            timeouts=(Timeout("ddp_timeout", None, "process groups", Value("$T", known=False)),),
        )
        assert group_timeout(program, "ddp", {}) is None


tags = st.builds(
    GroupTag,
    st.none() | st.integers(-5, 10**12),
    st.none() | st.text(max_size=45) | st.integers(0, 10**30).map(str),
    st.none() | st.text(max_size=20) | st.sampled_from(["default_pg", "mesh_tp", "undefined"]),
    st.none() | st.integers(-3, 10**9),
)
programs = st.builds(
    Program,
    label=st.text(min_size=1, max_size=5),
    role=st.sampled_from(["trainer", "rollout", "inference", "launcher"]),
    software=st.sampled_from(["vllm", "sglang", "verl", "megatron", "openrlhf", "x"]),
    processes=st.none() | st.integers(-2, 10**10),
    parallel=st.builds(
        Parallel,
        tensor=st.none() | st.integers(-2, 10**10),
        data=st.none() | st.integers(-2, 64),
        pipeline=st.none() | st.integers(-2, 8),
    ),
)


class TestAnyInput:
    @settings(max_examples=80, deadline=None)
    @given(
        tags,
        st.none() | st.builds(Work, st.text(max_size=9), numel_in=st.none() | st.integers()),
        st.lists(programs, min_size=1, max_size=2),
        st.dictionaries(st.sampled_from(["torch", "vllm", "sglang"]), st.text(max_size=9)),
        st.sets(st.integers(-1, 99), max_size=4),
    )
    def test_never_raises_and_says_sentences(
        self,
        tag: GroupTag,
        operation: Work | None,
        candidates: list[Program],
        versions: dict[str, str],
        ranks: set[int],
    ) -> None:
        matches = identify(tag, operation, candidates, versions, ranks)
        assert sum(probabilities(matches)) <= 1 + 1e-9
        for match in matches:
            for evidence in (*match.support, *match.against):
                assert str(evidence.text)
                assert evidence.text.render("zh")
                assert evidence.weight >= 0

    def test_a_gloo_group_has_no_such_line(self) -> None:
        from unstall.programs.groups import layout
        from unstall.programs.vllm.groups import VLLM

        made = layout(VLLM, {"dp": 2}, "0.11.0")
        twin = made.named("dp", "gloo")[0]
        assert not fits(twin, GroupTag(None, twin.guid, None, 0))
