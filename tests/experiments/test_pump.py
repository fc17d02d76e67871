"""What a script prints, carried into a file."""

import os

import pytest

from unstall.experiments.pump import Pump


def test_everything_is_in_the_file_once_it_has_settled(tmp_path):
    pump = Pump(tmp_path / "raw", 1 << 20)
    writer = os.dup(pump.write_end)
    pump.started()
    for size in (1, 3, 100_000):
        before = (tmp_path / "raw").stat().st_size
        os.write(writer, b"x" * size)
        pump.settle()
        assert (tmp_path / "raw").stat().st_size == before + size
    os.close(writer)
    pump.close()
    assert not pump.full


def test_beyond_its_size_it_is_thrown_away_and_nobody_is_blocked(tmp_path):
    pump = Pump(tmp_path / "raw", 100_000)
    writer = os.dup(pump.write_end)
    pump.started()
    for _ in range(100):
        os.write(writer, b"x" * 50_000)
    os.close(writer)
    pump.close()
    assert pump.full
    assert (tmp_path / "raw").stat().st_size <= 100_000


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_a_full_disk_is_told(tmp_path):
    (tmp_path / "raw").symlink_to("/dev/full")
    pump = Pump(tmp_path / "raw", 1 << 20)
    writer = os.dup(pump.write_end)
    pump.started()
    os.write(writer, b"x")
    pump.settle()
    with pytest.raises(OSError, match="space"):
        pump.check()
    os.write(writer, b"x" * 200_000)  # still read
    os.close(writer)
    pump.close()
