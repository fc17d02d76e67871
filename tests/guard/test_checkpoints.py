from __future__ import annotations

import os
from pathlib import Path

import pytest

from unstall.guard.checkpoints import SETTLED, found, newest

ENDED = 1_800_000_000.0
LONG_AGO = ENDED - 1000
JUST_NOW = ENDED - SETTLED / 2


def write(path: Path, text: str = "", at: float = LONG_AGO) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))
    os.utime(path.parent, (LONG_AGO, LONG_AGO))


def name(folder: Path, pattern: str) -> str | None:
    one = newest(str(folder / pattern), ENDED)
    return one.path.name if one is not None else None


def test_by_the_number_not_by_the_letters(tmp_path: Path) -> None:
    for step in (9, 10, 100, 20):
        write(tmp_path / f"step_{step}" / "model.bin")
    assert [one.step for one in found(str(tmp_path / "step_*"))] == [100, 20, 10, 9]
    assert name(tmp_path, "step_*") == "step_100"


def test_files_count_too_and_what_matches_nothing_is_none(tmp_path: Path) -> None:
    write(tmp_path / "ckpt-3.pt")
    write(tmp_path / "ckpt-12.pt")
    assert name(tmp_path, "ckpt-*.pt") == "ckpt-12.pt"
    assert name(tmp_path, "nothing-*") is None
    assert name(tmp_path, "[") is None


def test_without_a_mark_one_that_was_written_at_the_end_is_not_whole(tmp_path: Path) -> None:
    write(tmp_path / "step_1" / "model.bin")
    write(tmp_path / "step_2" / "deep" / "model.bin", at=JUST_NOW)
    assert name(tmp_path, "step_*") == "step_1"


def test_an_empty_folder_is_none(tmp_path: Path) -> None:
    (tmp_path / "step_1").mkdir()
    assert name(tmp_path, "step_*") is None


@pytest.mark.parametrize("marked", [True, False])
def test_distributed_checkpoint(tmp_path: Path, marked: bool) -> None:
    write(tmp_path / "step_1" / "__0_0.distcp")
    write(tmp_path / "step_1" / ".metadata")
    write(tmp_path / "step_2" / "__0_0.distcp", at=JUST_NOW)
    if marked:
        write(tmp_path / "step_2" / ".metadata", at=JUST_NOW)
    assert name(tmp_path, "step_*") == ("step_2" if marked else "step_1")


@pytest.mark.parametrize("marked", [True, False])
def test_deepspeed(tmp_path: Path, marked: bool) -> None:
    for step in (10, 20):
        write(tmp_path / f"global_step{step}" / "mp_rank_00_model_states.pt")
    write(tmp_path / "latest", "global_step20" if marked else "global_step10\n")
    assert name(tmp_path, "global_step*") == ("global_step20" if marked else "global_step10")


@pytest.mark.parametrize("marked", [True, False])
def test_megatron(tmp_path: Path, marked: bool) -> None:
    for step in ("0000100", "0000200"):
        write(tmp_path / f"iter_{step}" / "mp_rank_00" / "model_optim_rng.pt")
    write(tmp_path / "latest_checkpointed_iteration.txt", "200" if marked else "100")
    assert name(tmp_path, "iter_*") == ("iter_0000200" if marked else "iter_0000100")


@pytest.mark.parametrize("marked", [True, False])
def test_trainer(tmp_path: Path, marked: bool) -> None:
    write(tmp_path / "checkpoint-5" / "model.safetensors")
    write(tmp_path / "checkpoint-5" / "trainer_state.json")
    write(tmp_path / "checkpoint-15" / "model.safetensors")
    if marked:
        write(tmp_path / "checkpoint-15" / "trainer_state.json", at=JUST_NOW)
    assert name(tmp_path, "checkpoint-*") == ("checkpoint-15" if marked else "checkpoint-5")


def test_trainer_over_deepspeed_whose_own_part_is_missing(tmp_path: Path) -> None:
    for step, tag in ((5, "global_step5"), (15, "global_step99")):
        write(tmp_path / f"checkpoint-{step}" / "trainer_state.json")
        write(tmp_path / f"checkpoint-{step}" / "latest", tag)
    write(tmp_path / "checkpoint-5" / "global_step5" / "bf16_zero_pp_rank_0_optim_states.pt")
    assert name(tmp_path, "checkpoint-*") == "checkpoint-5"


def test_marks_that_are_no_text(tmp_path: Path) -> None:
    write(tmp_path / "iter_7" / "weights")
    (tmp_path / "latest_checkpointed_iteration.txt").write_bytes(b"\xff\xfe\x00" * 1000)
    assert name(tmp_path, "iter_*") is None


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step_100_loss_0.1234.ckpt", 100),
        ("epoch=3-step=1000.ckpt", 1000),
        ("2026-01-02_checkpoint-7", 7),
        ("global_step20", 20),
        ("iter_0000300", 300),
        ("epoch_10_acc_0.95.pt", 10),
        ("model-12.safetensors", 12),
        ("7.5", 5),
        ("last", -1),
    ],
)
def test_the_step_of_a_name(tmp_path: Path, name: str, step: int) -> None:
    write(tmp_path / name)
    assert [one.step for one in found(str(tmp_path / "*"))] == [step]


def test_those_of_an_earlier_run_do_not_count(tmp_path: Path) -> None:
    write(tmp_path / "v0" / "step_900")
    now = (tmp_path / "v0" / "step_900").stat().st_ctime
    pattern = str(tmp_path / "v*" / "step_*")
    assert newest(pattern, ENDED, now + 1000) is None
    one = newest(pattern, ENDED, now)
    assert one is not None
    assert one.step == 900


def test_links_odd_names_and_what_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path / "my run [1]" / "step_5" / "model.bin")
    (tmp_path / "my run [1]" / "latest").symlink_to("step_5")
    (tmp_path / "my run [1]" / "step_9").symlink_to("gone")
    assert name(tmp_path, "my run [[]1]/*") == "step_5"
    assert name(tmp_path, "**/step_*") == "step_5"
