"""Layouts worked out by hand from the order in which each framework makes its groups."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstall.programs.deepspeed.groups import DEEPSPEED
from unstall.programs.default_group import DDP, DIMENSIONS, HYBRID, dimension_meaning
from unstall.programs.frameworks import BY_NAME, FRAMEWORKS, hypotheses
from unstall.programs.group_names import hashed_name, members_of_hash
from unstall.programs.groups import (
    Framework,
    Grid,
    Group,
    layout,
    outline,
    version_key,
    within,
)
from unstall.programs.megatron.groups import MEGATRON
from unstall.programs.openrlhf.groups import OPENRLHF
from unstall.programs.sglang.groups import SGLANG
from unstall.programs.verl.groups import VERL
from unstall.programs.vllm.groups import VLLM


def numbers(
    framework: Framework, sizes: dict[str, int], version: str | None
) -> dict[tuple[str, tuple[int, ...]], tuple[str, set[int]]]:
    """Name and members of each NCCL group to its GUID and the IDs that its members know it by."""
    return {
        (g.name, g.ranks): (g.guid, set(g.ids.values()))
        for g in layout(framework, sizes, version).groups
        if g.backend != "gloo"
    }


class TestVersions:
    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ("0.11.0", (0, 11, 0)),
            ("2.8.0+cu128", (2, 8, 0)),
            ("0.8.5.post1", (0, 8, 5)),
            ("v0.5.3rc2", (0, 5, 3)),
            ("main", None),
            ("", None),
            (None, None),
        ],
    )
    def test_key(self, text: str | None, key: tuple[int, ...] | None) -> None:
        assert version_key(text) == key

    def test_the_upper_bound_is_outside(self) -> None:
        assert within("0.13.9", "0.11", "0.14")
        assert not within("0.14.0", "0.11", "0.14")
        assert not within("0.10.2", "0.11", "0.14")

    def test_a_shorter_version_is_the_same_release(self) -> None:
        assert within("0.14", "0.14.0", None)

    def test_unknown_counts_as_newest(self) -> None:
        assert within(None, "0.33", None)
        assert not within(None, None, "0.14")


class TestGrid:
    def test_last_axis_is_contiguous(self) -> None:
        grid = Grid((("a", 2), ("b", 3)))
        assert grid.along(("b",)) == [(0, 1, 2), (3, 4, 5)]
        assert grid.along(("a",)) == [(0, 3), (1, 4), (2, 5)]

    def test_order_of_the_lists(self) -> None:
        grid = Grid((("a", 2), ("b", 2), ("c", 2)))
        assert grid.along(("a",), ("b", "c")) == [(0, 4), (1, 5), (2, 6), (3, 7)]
        assert grid.along(("a",), ("c", "b")) == [(0, 4), (2, 6), (1, 5), (3, 7)]

    def test_chunks_in_another_order(self) -> None:
        grid = Grid((("a", 2), ("b", 2)))
        assert grid.chunks(2) == [(0, 1), (2, 3)]
        assert grid.chunks(2, ("b", "a")) == [(0, 2), (1, 3)]

    @pytest.mark.parametrize("axes", [(("a", 0),), (("a", -1),), (("a", 10**6), ("b", 10**6))])
    def test_impossible_sizes(self, axes: tuple[tuple[str, int], ...]) -> None:
        with pytest.raises(ValueError, match=r"size|ranks"):
            Grid(axes)


class TestVllm:
    def test_0_11_with_two_engines(self) -> None:
        """The default group is 0; world 1, 2; TP 3-6; DCP 7-10; PP 11-14; DP 15, 16; EP 17, 18."""
        found = numbers(VLLM, {"dp": 2, "tp": 1}, "0.11.0")
        assert found == {
            ("default", (0, 1)): ("0", {0}),
            ("world", (0, 1)): ("1", {1}),
            ("tp", (0,)): ("3", {2}),
            ("tp", (1,)): ("5", {2}),
            ("dcp", (0,)): ("7", {3}),
            ("dcp", (1,)): ("9", {3}),
            ("pp", (0,)): ("11", {4}),
            ("pp", (1,)): ("13", {4}),
            ("dp", (0, 1)): ("15", {5}),
            ("ep", (0, 1)): ("17", {6}),
        }

    def test_each_has_a_gloo_twin_right_after(self) -> None:
        groups = layout(VLLM, {"dp": 2, "tp": 2}, "0.11.0").groups[1:]
        for device, cpu in zip(groups[::2], groups[1::2], strict=True):
            assert (device.backend, cpu.backend) == ("nccl", "gloo")
            assert device.ranks == cpu.ranks
            assert int(cpu.guid) == int(device.guid) + 1
            assert not cpu.ids

    def test_0_8_tensor_parallel(self) -> None:
        """World 1, 2; TP 3, 4; PP 5-8; DP 9-12; neither EP nor DCP."""
        assert numbers(VLLM, {"tp": 2}, "0.8.5") == {
            ("default", (0, 1)): ("0", {0}),
            ("world", (0, 1)): ("1", {1}),
            ("tp", (0, 1)): ("3", {2}),
            ("pp", (0,)): ("5", {3}),
            ("pp", (1,)): ("7", {3}),
            ("dp", (0,)): ("9", {4}),
            ("dp", (1,)): ("11", {4}),
        }

    def test_0_10_pipeline_orders_dp_by_tensor_rank_first(self) -> None:
        """TP 3-6; PP 7-10; DP 11-18, walked TP before PP: ranks 0, 2, 1, 3; EP 19-22."""
        found = numbers(VLLM, {"tp": 2, "pp": 2}, "0.10.0")
        assert found[("pp", (0, 2))] == ("7", {3})
        assert found[("pp", (1, 3))] == ("9", {3})
        assert [found[("dp", (r,))][0] for r in (0, 2, 1, 3)] == ["11", "13", "15", "17"]
        assert found[("ep", (0, 1))] == ("19", {5})
        assert found[("ep", (2, 3))] == ("21", {5})

    def test_0_12_has_both_context_parallels(self) -> None:
        """World 1, 2; TP 3-6; DCP 7-14; PCP 15-22; PP 23-30; DP 31-34; EP 35, 36."""
        found = numbers(VLLM, {"dp": 2, "tp": 2}, "0.12.0")
        assert found[("pcp", (0,))] == ("15", {4})
        assert found[("dp", (0, 2))] == ("31", {6})
        assert found[("dp", (1, 3))] == ("33", {6})
        assert found[("ep", (0, 1, 2, 3))] == ("35", {7})

    def test_dense_engines_are_worlds_of_their_own_from_0_14(self) -> None:
        dense = layout(VLLM, {"dp": 4, "tp": 2, "moe": 0}, "0.14.0")
        assert dense.world == 2
        assert not dense.named("ep")
        assert {g.size for g in dense.named("dp")} == {1}
        assert layout(VLLM, {"dp": 4, "tp": 2, "moe": 1}, "0.14.0").world == 8
        assert layout(VLLM, {"dp": 4, "tp": 2, "moe": 0}, "0.13.0").world == 8

    def test_load_balancing_group_from_0_17(self) -> None:
        sizes = {"dp": 2, "moe": 1, "eplb": 1}
        assert not layout(VLLM, sizes, "0.16.0").named("eplb")
        found = numbers(VLLM, sizes, "0.17.0")
        # world 1, 2; TP 3-6; DCP 7-10; PCP 11-14; PP 15-18; DP 19, 20; EP 21, 22; EPLB 23, 24
        assert found[("eplb", (0, 1))] == ("23", {8})

    def test_dcp_runs_over_pcp_from_0_26(self) -> None:
        sizes = {"tp": 2, "pcp": 2, "dcp": 2}
        assert layout(VLLM, sizes, "0.25.0").named("dcp")[0].ranks == (0, 1)
        assert layout(VLLM, sizes, "0.26.0").named("dcp")[0].ranks == (0, 2)

    def test_split_groups_are_named_by_hash(self) -> None:
        made = layout(VLLM, {"tp": 2, "split_group": 1}, "0.24.0")
        world = made.named("world")[0]
        assert world.description == "world:device"
        assert world.guid == hashed_name((0, 1), 1)
        assert world.ids == {0: 1, 1: 1}

    def test_ranks_that_do_not_divide(self) -> None:
        with pytest.raises(ValueError, match="divide"):
            layout(VLLM, {"tp": 4, "world": 6}, "0.11.0")


class TestSglang:
    def test_0_4_6(self) -> None:
        """World 1, 2; TP 3, 4; PP 5-8; attention TP 9, 10."""
        assert numbers(SGLANG, {"tp": 2}, "0.4.6") == {
            ("default", (0, 1)): ("0", {0}),
            ("world", (0, 1)): ("1", {1}),
            ("tp", (0, 1)): ("3", {2}),
            ("pp", (0,)): ("5", {3}),
            ("pp", (1,)): ("7", {3}),
            ("attention_tp", (0, 1)): ("9", {4}),
        }

    def test_expert_groups_equal_to_tp_are_left_out_from_0_5_2(self) -> None:
        older = numbers(SGLANG, {"tp": 2, "ep": 2}, "0.5.1")
        newer = numbers(SGLANG, {"tp": 2, "ep": 2}, "0.5.3")
        assert older[("moe_ep", (0, 1))] == ("5", {3})
        assert ("moe_ep", (0, 1)) not in newer
        assert newer[("moe_tp", (0,))] == ("5", {3})

    def test_0_5_9_with_data_parallel_attention(self) -> None:
        """TP 3, 4; attn_cp 5-12; attention_tp 13-16; moe_dp 17-24; moe_ep 25-28; moe_tp 29-32."""
        found = numbers(SGLANG, {"tp": 4, "attn_dp": 2, "ep": 2}, "0.5.9")
        assert found[("attention_tp", (2, 3))] == ("15", {4})
        assert found[("moe_ep", (0, 2))] == ("25", {6})
        assert found[("moe_tp", (2, 3))] == ("31", {7})
        assert found[("pp", (3,))] == ("39", {8})

    def test_sizes_that_do_not_divide(self) -> None:
        with pytest.raises(ValueError, match="divide"):
            layout(SGLANG, {"tp": 4, "ep": 3}, "0.5.9")


class TestMegatron:
    SIZES = {"tp": 2, "pp": 2, "world": 8}  # noqa: RUF012 - a constant of the test

    def test_0_13(self) -> None:
        """DP+CP 1-8; DP 9-16; CP 17-24; model 25, 26; TP 27-30; PP with embeddings 31-42."""
        found = numbers(MEGATRON, self.SIZES, "0.13.0")
        assert found[("DATA_PARALLEL_GROUP_WITH_CP", (1, 3))] == ("3", {1})
        assert found[("DATA_PARALLEL_GROUP", (4, 6))] == ("13", {2})
        assert found[("CONTEXT_PARALLEL_GROUP", (7,))] == ("24", {3})
        assert found[("MODEL_PARALLEL_GROUP", (0, 1, 4, 5))] == ("25", {4})
        assert found[("TENSOR_MODEL_PARALLEL_GROUP", (6, 7))] == ("30", {5})
        assert found[("PIPELINE_MODEL_PARALLEL_GROUP", (1, 5))] == ("34", {6})
        assert found[("EMBEDDING_GROUP", (1, 5))] == ("35", {7})
        assert found[("POSITION_EMBEDDING_GROUP", (1,))] == ("36", {8})

    def test_last_stage_counts_one_group_less(self) -> None:
        """Only the first stage is in a position-embedding group."""
        found = numbers(MEGATRON, self.SIZES, "0.13.0")
        assert found[("TENSOR_AND_DATA_PARALLEL_GROUP", (0, 1, 2, 3))] == ("45", {10})
        assert found[("TENSOR_AND_DATA_PARALLEL_GROUP", (4, 5, 6, 7))] == ("46", {9})

    def test_0_12_begins_with_data_parallel(self) -> None:
        found = numbers(MEGATRON, self.SIZES, "0.12.0")
        assert found[("DATA_PARALLEL_GROUP", (0, 2))] == ("1", {1})
        assert found[("DATA_PARALLEL_GROUP_WITH_CP", (0, 2))] == ("9", {2})

    def test_experts_take_consecutive_ranks(self) -> None:
        made = layout(MEGATRON, {"ep": 4, "world": 8}, "0.13.0")
        assert [g.ranks for g in made.named("EXPERT_MODEL_PARALLEL_GROUP")] == [
            (0, 1, 2, 3),
            (4, 5, 6, 7),
        ]
        assert made.named("EXPERT_DATA_PARALLEL_GROUP")[1].ranks == (1, 5)

    def test_without_gloo(self) -> None:
        found = numbers(MEGATRON, {**self.SIZES, "no_gloo": 1}, "0.13.0")
        assert found[("DATA_PARALLEL_GROUP", (0, 2))] == ("5", {2})


class TestTrainers:
    def test_deepspeed_clones_the_world(self) -> None:
        ranks = tuple(range(6))
        assert numbers(DEEPSPEED, {"world": 6}, "0.16.4") == {
            ("default", ranks): ("0", {0}),
            ("world_clone", ranks): ("1", {1}),
        }

    def test_deepspeed_secondary_partitions_come_first(self) -> None:
        found = numbers(DEEPSPEED, {"world": 4, "hpz": 2}, "0.16.4")
        assert found[("zero_hpz", (2, 3))] == ("2", {1})
        assert found[("world_clone", (0, 1, 2, 3))] == ("3", {2})

    def test_ddp_has_one_group(self) -> None:
        made = layout(DDP, {"world": 3}, "2.6.0")
        assert [(g.name, g.description) for g in made.groups] == [("default", "default_pg")]

    def test_hybrid_sharding(self) -> None:
        """Replicas (0, 2), (1, 3) are 1 and 2; shards (0, 1), (2, 3) are 3 and 4."""
        made = layout(HYBRID, {"dp_replicate": 2, "dp_shard": 2}, "2.8.0")
        shard = made.named("dp_shard")
        assert [(g.guid, g.ranks, g.description) for g in shard] == [
            ("3", (0, 1), "mesh_dp_shard"),
            ("4", (2, 3), "mesh_dp_shard"),
        ]

    def test_one_dimension_reuses_the_default_group(self) -> None:
        assert len(layout(HYBRID, {"dp_shard": 4}, "2.8.0").groups) == 1

    def test_verl_actor(self) -> None:
        """FSDP over all ranks makes nothing; rollout mesh: dp 1, 2; infer_tp 3, 4."""
        found = numbers(VERL, {"world": 4, "infer_tp": 2}, "0.5.0")
        assert found[("dp", (0, 2))] == ("1", {1})
        assert found[("infer_tp", (2, 3))] == ("4", {2})
        assert layout(VERL, {"world": 4}, "0.5.0").groups[0].backend == "both"

    def test_openrlhf_mesh_depends_on_torch(self) -> None:
        """Where dp spans all ranks: no group from torch 2.10 on, one before; then sp and tp."""
        ranks = (0, 1)
        newer = numbers(OPENRLHF, {"world": 2}, "0.9.0")
        older = numbers(OPENRLHF, {"world": 2, "old_mesh": 1}, "0.9.0")
        assert newer[("world_clone", ranks)] == ("5", {3})
        assert older[("dp", ranks)] == ("1", {1})
        assert older[("world_clone", ranks)] == ("6", {4})

    def test_unknown_dimension_is_quoted(self) -> None:
        assert "my_axis" in str(dimension_meaning("my_axis"))
        assert dimension_meaning("tp") is DIMENSIONS["tp"]


SAMPLES = [
    (framework, guess.sizes, era)
    for framework in FRAMEWORKS
    for era in framework.eras
    for guess in hypotheses(framework, {}, era, planned=False)[:12]
]


class TestEveryLayout:
    @pytest.mark.parametrize(("framework", "sizes", "version"), SAMPLES)
    def test_counts_are_consistent(
        self, framework: Framework, sizes: dict[str, int], version: str
    ) -> None:
        made = layout(framework, sizes, version)
        assert [int(g.guid) for g in made.groups] == list(range(len(made.groups)))
        for rank in range(made.world):
            ids = [g.ids[rank] for g in made.of(rank) if g.backend != "gloo"]
            assert ids == list(range(len(ids)))

    @pytest.mark.parametrize(("framework", "sizes", "version"), SAMPLES)
    def test_full_steps_partition_the_ranks(
        self, framework: Framework, sizes: dict[str, int], version: str
    ) -> None:
        made = layout(framework, sizes, version)
        partial = {"EMBEDDING_GROUP", "POSITION_EMBEDDING_GROUP"}
        by_name: dict[tuple[str, str], list[Group]] = {}
        for group in made.groups:
            by_name.setdefault((group.name, group.backend), []).append(group)
        for (name, _), groups in by_name.items():
            members = [rank for group in groups for rank in group.ranks]
            assert len(members) == len(set(members)) or framework.name == "verl"
            if name not in partial:
                assert set(members) == set(range(made.world))

    @pytest.mark.parametrize(("framework", "sizes", "version"), SAMPLES)
    def test_outline_tells_the_same_numbers(
        self, framework: Framework, sizes: dict[str, int], version: str
    ) -> None:
        made = layout(framework, sizes, version)
        rows = sorted(
            (row.first + n * row.stride, row.name, row.id, row.size)
            for row in outline(framework, sizes, version)
            for n in range(row.count)
        )
        assert [(guid, name) for guid, name, _, _ in rows] == [
            (int(g.guid), g.name) for g in made.groups
        ]
        for (_, _, number, _), group in zip(rows, made.groups, strict=True):
            assert number is None or set(group.ids.values()) == {number}

    @settings(max_examples=60, deadline=None)
    @given(
        st.sampled_from(sorted(BY_NAME)),
        st.dictionaries(
            st.sampled_from(["tp", "pp", "dp", "ep", "cp", "dcp", "pcp", "sp", "hpz", "world"]),
            st.integers(-2, 9) | st.just(10**12),
        ),
        st.text(max_size=12) | st.none(),
    )
    def test_odd_sizes_are_refused_or_laid_out(
        self, name: str, sizes: dict[str, int], version: str | None
    ) -> None:
        try:
            made = layout(BY_NAME[name], sizes, version)
        except ValueError:
            return
        assert made.groups[0].size == made.world >= 1


class TestHashedNames:
    def test_members_are_found_again(self) -> None:
        assert members_of_hash(hashed_name((1, 3, 5), 4), 8) == (1, 3, 5)
        assert members_of_hash(hashed_name((0, 1, 2, 3), 1), 4) == (0, 1, 2, 3)
        assert members_of_hash(hashed_name((6,), 2), 8) == (6,)

    def test_other_names_are_not(self) -> None:
        assert members_of_hash("15", 8) is None
        assert members_of_hash("0" * 40, 8) is None
        assert members_of_hash(hashed_name((0, 1, 3), 1), 4) is None
