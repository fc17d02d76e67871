"""vLLM's data-parallel step: counts worked out from its source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.programs.sglang.stepping import batch_sync
from unstall.programs.vllm.stepping import (
    capture_sizes,
    dp_sync,
    residue,
    startup,
    traffic,
    wave_interval,
    wave_position,
)


class TestSync:
    @pytest.mark.parametrize(
        ("version", "factor", "backend"),
        [
            ("0.8.5", 1, "gloo"),
            ("0.10.2", 1, "gloo"),
            ("0.11.0", 1, "nccl"),
            ("0.11.2", 4, "nccl"),
            ("0.12.0", 4, "nccl"),
            ("0.13.0", 5, "nccl"),
            ("0.16.0", 5, "nccl"),
            ("0.17.0", 4, "nccl"),
            ("0.33.0", 4, "nccl"),
        ],
    )
    def test_elements_and_group(self, version: str, factor: int, backend: str) -> None:
        sync = dp_sync(version)
        assert (sync.factor, sync.backend) == (factor, backend)

    @pytest.mark.parametrize(
        ("version", "steps"),
        [("0.8.5", 24), ("0.9.1", 24), ("0.9.2", 32), ("0.29.0", 32), ("0.30.0", 16)],
    )
    def test_interval(self, version: str, steps: int) -> None:
        assert wave_interval(version) == steps

    def test_interval_can_be_set_from_0_30(self) -> None:
        assert wave_interval("0.33.0", 64) == 64
        assert wave_interval("0.11.0", 64) == 32

    def test_traffic_needs_several_engines(self) -> None:
        assert traffic({"dp": 1, "tp": 8}, "0.11.0") == ()
        (row,) = traffic({"dp": 4, "tp": 2}, "0.11.2")
        assert (row.numel_in, row.op, row.group, row.backend) == (16, "ALLREDUCE", "dp", "nccl")

    def test_dense_models_have_none_from_0_14(self) -> None:
        assert traffic({"dp": 4, "moe": 0}, "0.14.0") == ()
        assert traffic({"dp": 4, "moe": 1}, "0.14.0")[0].numel_in == 20

    def test_sglang(self) -> None:
        assert (batch_sync("0.4.6").elements, batch_sync("0.4.6").backends) == (4, ("gloo",))
        assert batch_sync("0.5.10").elements == 6
        assert batch_sync("0.5.23").elements == 11


class TestStartup:
    def test_default_sizes(self) -> None:
        """1, 2, 4 and 64 multiples of 8 up to 512; from 0.11.1 multiples of 16 from 256 on."""
        assert len(capture_sizes("0.11.0", 256)) == 3 + 64
        assert len(capture_sizes("0.12.0", 256)) == 3 + 31 + 17
        assert capture_sizes("0.11.0", 16) == [1, 2, 4, 8, 16, 24, 32]
        assert capture_sizes("0.11.0", 1) == [1, 2]

    def test_0_11_with_256_sequences(self) -> None:
        """1 + 2 x 67 + 2 x 35 + 1, and one more with FlashInfer."""
        known = startup("0.11.0", 256)
        assert known is not None
        assert known.counts == (206, 207)
        tuned = startup("0.11.0", 256, flashinfer=True)
        assert tuned is not None
        assert tuned.counts == (207,)

    def test_0_11_with_64_sequences(self) -> None:
        """Sizes up to 128: 3 + 16; decode sizes up to 64: 3 + 8; 1 + 38 + 22 + 1."""
        known = startup("0.11.0", 64, flashinfer=False)
        assert known is not None
        assert known.counts == (62,)

    def test_without_graphs(self) -> None:
        known = startup("0.11.0", 256, enforce_eager=True, flashinfer=False)
        assert known is not None
        assert known.counts == (2,)

    def test_not_described(self) -> None:
        assert startup("0.10.2") is None
        assert startup("0.14.0") is None
        assert startup(None) is None


class TestWaves:
    def test_first_step_of_a_wave(self) -> None:
        """206 + 32 x 100 + 1."""
        place = wave_position(3407, 206)
        assert place is not None
        assert (place.intervals, place.step, place.first_of_wave) == (100, 1, True)

    def test_within_a_wave(self) -> None:
        place = wave_position(206 + 32 * 7 + 19, 206)
        assert place is not None
        assert (place.intervals, place.step, place.first_of_wave) == (7, 19, False)

    def test_last_step_of_an_interval(self) -> None:
        place = wave_position(206 + 32, 206)
        assert place is not None
        assert (place.intervals, place.step) == (0, 32)

    def test_start_up_itself(self) -> None:
        assert wave_position(206, 206) is None

    @given(st.integers(1, 10**9), st.integers(0, 5000), st.sampled_from([16, 24, 32]))
    def test_position_rebuilds_the_number(self, seq: int, begun: int, every: int) -> None:
        place = wave_position(seq, begun, every)
        if place is None:
            assert seq <= begun
        else:
            assert begun + every * place.intervals + place.step == seq
            assert 1 <= place.step <= every

    def test_residue_without_a_known_start(self) -> None:
        """3407 - 1 = 32 x 106 + 14, and 206 = 32 x 6 + 14."""
        told = residue(3407, (206, 207, 62))
        assert told.residue == 14
        assert told.agreeing == (206,)
        assert told.chance == 1 / 32
