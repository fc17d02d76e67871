"""Following logs while they grow."""

from unstall.experiments.logs import Log, Watch
from unstall.experiments.script_run import Steps


def test_lines_come_once_and_whole(tmp_path):
    raw, merged = tmp_path / "raw", tmp_path / "merged"
    log = Log(raw, merged, "[default1]:")
    assert log.follow() == []
    raw.write_bytes(b"one\ntw")
    assert log.follow() == ["one"]
    with raw.open("ab") as file:
        file.write(b"o\nthr\xff")
    assert log.follow() == ["two"]
    assert log.finish() == ["thr\ufffd"]
    assert merged.read_text() == "[default1]:one\n[default1]:two\n[default1]:thr\ufffd\n"


def test_watch_knows_the_highest_step():
    watch = Watch(r"step (?P<step>\d+)")
    watch.look(["step 3", "noise", "step 2"])
    assert watch.step == 3
    assert not watch.look([])


def test_steps_of_a_metrics_line_win_over_bars():
    steps = Steps()
    steps.look(["  50%|#####     | 40/80 [00:01<00:01, 9.1it/s]"])
    assert steps.step == 40
    steps.look(["{'loss': 1.0, 'global_step/max_steps': '7/150'}"])
    assert steps.step == 7


def test_the_bar_with_most_steps_counts():
    steps = Steps()
    steps.look(["3/100 [00:01<00:30, 3.0it/s]", "8/8 [00:01<00:00, 8.0it/s]"])
    assert steps.step == 3
