"""The end of a log: its errors, what is shown of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.experiments.last_words import advice, ends_badly, errors, same, shown, tail

TORCHRUN = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/data/train.py", line 31, in <module>
[rank1]:     main()
[rank1]: ValueError: 7 samples do not divide by 2
W1130 18:02:11.512000 3211 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 1
E1130 18:02:11.613000 3211 torch/distributed/elastic/api.py:874] failed (exitcode: 1)
Traceback (most recent call last):
  File "/opt/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_18:02:11
  host      : node7
  exitcode  : 1 (pid: 3218)
============================================================
""".splitlines()


def test_torchrun_only_tells_of_its_programs_error():
    assert errors(TORCHRUN) == ("ValueError: 0 samples do not divide by 0",)
    assert ends_badly(TORCHRUN)
    assert "[rank1]: ValueError: 7 samples do not divide by 2" in shown(TORCHRUN)
    assert shown(TORCHRUN)[-1].startswith("=====")


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (["ValueError: pid 3"], ["ValueError: pid 77"], True),
        (["ValueError: a"], ["ValueError: b"], False),
        (["[rank0]: E.XError: a", "RuntimeError: b"], ["RuntimeError: b", "E.XError: a"], True),
        (["x: line 3: swift: command not found"], ["x: line 4: swift: command not found"], True),
        (["/d/.l.unstall-A-17.sh: line 1: q: command not found"],
         ["/d/.l.unstall-B-19.sh: line 1: q: command not found"], True),
        (["all is well"], ["all is well"], False),
    ],
)  # fmt: skip
def test_the_same_error_is_the_same_without_its_numbers(one, other, equal):
    assert same(errors(one), errors(other)) is equal


@pytest.mark.parametrize(
    ("lines", "bad"),
    [
        (["step 3", "Traceback (most recent call last):", "  File x", "KeyError: 3"], True),
        (["Traceback (most recent call last):", "  File x", "KeyError: 3", "went on"], False),
        (["Exception ignored in: <f>", "Traceback (most recent call last):", "KeyError: 3"], False),
        (["KeyError: told in a table"], False),
        ([], False),
    ],
)
def test_a_log_ends_badly_with_an_error_that_nobody_dealt_with(lines, bad):
    assert ends_badly(lines) is bad


def test_only_the_end_of_a_log_is_read_and_a_bar_shows_its_last_state(tmp_path):
    log = tmp_path / "run.log"
    log.write_bytes(b"first\n" + b"x" * 100 + b"\n" * 1 + (b"y" * 999 + b"\n") * 99 + b"1/9\r2/9\n")
    found = tail(log)
    assert found[-1] == "2/9"
    assert "first" not in found
    assert all(len(line) <= 300 for line in found)
    assert tail(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("code", "line", "told"),
    [
        (127, "x.sh: line 1: swift: command not found", "conda"),
        (0, "nohup: failed to run command 'torchrun': No such file or directory", "conda"),
        (1, "ModuleNotFoundError: No module named 'swift'", "module cannot be imported"),
        (1, "FileNotFoundError: [Errno 2] No such file or directory: 'd'", "/somewhere"),
        (2, "t.py: error: unrecognized arguments: --x", "refused its arguments"),
        (1, "odd", "by hand"),
    ],
)
def test_what_to_look_at(code, line, told):
    assert told in advice(code, [line], "/somewhere").render()


@given(st.lists(st.text(max_size=200), max_size=40))
def test_any_log_has_an_end(lines):
    assert len(shown(lines)) <= 8
    assert len(errors(lines)) <= 8
    ends_badly(lines)
