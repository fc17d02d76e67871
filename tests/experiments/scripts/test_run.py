"""Runs of scripts: what counts as progress, as finished, as hung."""

import sys
import time

import pytest

from unstall.experiments.logs import Log
from unstall.experiments.nurse import LabError
from unstall.experiments.scripts import run as module
from unstall.experiments.scripts.run import run_script
from unstall.experiments.until import Until, parse_until

pytest.importorskip("psutil")


def run(tmp_path, text, *, until=None, stall=30.0, limit=120.0, first=0.0):
    script = tmp_path / "own.sh"
    script.write_text(text)
    return run_script(
        script, tmp_path, name="A1", until=until or Until(), stall=stall, limit=limit,
        environment={}, tell=lambda *_: None, first=first,
    )  # fmt: skip


def test_what_is_still_being_written_of_a_line_is_told(tmp_path):
    (tmp_path / "raw").write_bytes(b"one\ntw")
    log = Log(tmp_path / "raw", None, "")
    assert (log.follow(), log.rest) == (["one"], "tw")


def test_the_rest_of_a_log_is_copied_as_it_is(tmp_path):
    (tmp_path / "raw").write_bytes(b"one\ntw")
    log = Log(tmp_path / "raw", tmp_path / "run.log", "")
    log.follow()
    with (tmp_path / "raw").open("ab") as file:
        file.write(b"o\r\n\xff three")
    log.copy()
    log.copy()
    assert (tmp_path / "run.log").read_bytes() == b"one\ntwo\r\n\xff three"
    assert log.finish() == []


def test_draining_ends_although_more_is_written_meanwhile(tmp_path):
    """A program that prints faster than it is read must not hold up the end of its run."""
    raw = tmp_path / "raw"
    raw.write_bytes(b"x" * 100 + b"\n")
    log = Log(raw, None, "")
    pieces = 0
    for _ in log.drain():
        pieces += 1
        with raw.open("ab") as file:
            file.write(b"y" * 100 + b"\n")
        assert pieces < 5
    assert pieces == 1


def test_a_script_that_prints_for_ever_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 4 << 20)
    done = run(tmp_path, "echo step 3\nyes\n")
    assert (done.outcome, done.step) == ("slow", 3)
    assert not (tmp_path / "run.raw").exists()
    assert (tmp_path / "evidence" / "run.log").stat().st_size <= 4 << 20


def test_the_log_stays_small_while_a_hang_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 4 << 20)
    sizes = []

    def look():
        time.sleep(1)
        sizes.append((tmp_path / "run.raw").stat().st_size)

    script = tmp_path / "own.sh"
    script.write_text("echo step 3\nsleep 4\nyes\n")
    done = run_script(
        script, tmp_path, name="A1", until=Until(), stall=4, limit=60, environment={},
        tell=lambda *_: None, gather=look,
    )  # fmt: skip
    assert done.outcome in ("hung", "slow")
    assert sizes[0] <= 4 << 20


def test_the_last_lines_of_a_script_are_read(tmp_path):
    done = run(tmp_path, "for i in $(seq 2000); do echo step $i; done; printf 'step 2001'\n")
    assert (done.outcome, done.step) == ("finished", 2001)


def test_seconds_that_pass_in_a_hang_do_not_finish_a_run(tmp_path):
    done = run(tmp_path, "echo step 3\nsleep 600\n", until=Until(seconds=2), stall=6)
    assert (done.outcome, done.step) == ("hung", 3)


def test_seconds_finish_a_run_that_goes_on(tmp_path):
    text = "i=0; while true; do i=$((i+1)); echo step $i; sleep 0.1; done\n"
    done = run(tmp_path, text, until=Until(seconds=2))
    assert done.outcome == "finished"
    assert done.step > 0


def test_programs_in_the_background_are_followed_where_the_end_is_told(tmp_path):
    text = "(for i in 1 2 3 4 5 6 7 8; do sleep 0.3; echo step $i; done; sleep 600) &\n"
    assert run(tmp_path, text, until=Until(step=7)).outcome == "finished"
    left = run(tmp_path, text)
    assert left.outcome == "finished"
    assert left.running > 0


@pytest.mark.parametrize(
    "text", ["step>=0", "0", "-5", "nan", "inf", "", "x*", "(", "^", "step>=00"]
)
def test_an_end_that_holds_from_the_start_is_refused(text):
    with pytest.raises(LabError):
        parse_until(text)


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("step>=200", Until(step=200)),
        (" step > 3 ", Until(step=4)),
        ("600", Until(seconds=600.0)),
        ("saved to", Until(pattern="saved to")),
        (None, Until()),
    ],
)
def test_an_end_is_a_step_a_time_or_a_line(text, until):
    assert parse_until(text) == until


def test_a_slow_start_is_no_hang(tmp_path):
    done = run(tmp_path, "echo loading\nsleep 5\necho step 1\n", stall=2, first=60)
    assert (done.outcome, done.step, done.started) == ("finished", 1, True)


def test_after_the_first_step_the_shorter_patience_holds(tmp_path):
    done = run(tmp_path, "echo step 0\nsleep 600\n", stall=2, first=400)
    assert (done.outcome, done.started) == ("hung", True)


def test_a_hang_in_the_start_is_told_apart(tmp_path):
    done = run(tmp_path, "echo loading\nsleep 600\n", stall=1, first=4)
    assert (done.outcome, done.started) == ("hung", False)


def test_the_end_of_a_failed_runs_log_is_kept(tmp_path):
    done = run(tmp_path, "echo step 3\nseq 100\nno_such_program --x\n")
    assert (done.outcome, done.started) == ("failed", True)
    assert done.last[-1].endswith("no_such_program: command not found")
    assert done.last[-2] == "100"
    assert run(tmp_path, "echo step 3\n").last == ()


STEPS = "for i in 1 2 3; do echo step $i; sleep 0.3; done"


@pytest.mark.skipif(sys.platform != "linux", reason="files are found in /proc")
@pytest.mark.parametrize(
    "text",
    [
        "bash -c '{}; sleep 600' > {}/train.log 2>&1 &\nwait\n",
        "exec > {1}/train.log 2>&1\n{0}\nsleep 600\n",
        "nohup setsid bash -c '{}; sleep 600' 2>&1 >> {}/train.log &\nwait\n",
    ],
)
def test_steps_that_go_into_a_file_are_seen(tmp_path, text):
    (tmp_path / "train.log").write_text("step 4711 of the day before\n")
    done = run(tmp_path, text.format(STEPS, tmp_path), stall=3, first=60)
    assert (done.outcome, done.step, done.started) == ("hung", 3, True)
    kept = (tmp_path / "evidence" / "train.log").read_text()
    assert "step 3" in kept
    assert "4711" not in kept


@pytest.mark.skipif(sys.platform != "linux", reason="files are found in /proc")
def test_the_error_that_goes_into_a_file_is_shown(tmp_path):
    text = f"(sleep 1; echo ValueError: no data; exit 3) > {tmp_path}/train.log 2>&1\nexit 3\n"
    done = run(tmp_path, f"echo begin\n{text}")
    assert (done.outcome, done.last) == ("failed", ("ValueError: no data",))


@pytest.mark.skipif(sys.platform != "linux", reason="files are found in /proc")
def test_programs_in_the_background_that_print_into_a_file_reach_their_end(tmp_path):
    text = f"nohup bash -c '{STEPS}; sleep 600' > {tmp_path}/train.log 2>&1 &\necho started\n"
    done = run(tmp_path, text, until=Until(step=3))
    assert (done.outcome, done.step) == ("finished", 3)


@pytest.mark.parametrize("sign", [">", ">>"])
def test_the_error_of_a_program_that_ends_at_once_is_seen_in_the_file_that_the_script_names(
    tmp_path, monkeypatch, sign
):
    """The others wait for it: without the file nobody would know why."""
    (tmp_path / "old.log").write_text("ValueError: of the day before\n")
    monkeypatch.chdir(tmp_path)
    text = f"nohup no_such_program {sign}old.log 2>&1 &\necho begin\nsleep 600\n"
    for _ in "12":  # the second time the same is in it already
        done = run(tmp_path, text, stall=2, first=2)
        assert (done.outcome, done.started) == ("hung", False)
        assert len(done.errors) == 1
        assert "no_such_program" in done.errors[0]
        assert "day before" not in "".join(done.last)


def test_a_configuration_that_a_script_writes_is_no_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "cat > config.yaml <<E\nglobal_step: 77\nE\necho begin\nsleep 600\n"
    done = run(tmp_path, text, stall=2, first=2)
    assert (done.step, done.started) == (0, False)
