"""Following logs while they grow."""

from unstall.experiments.logs import Log, Watch


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
