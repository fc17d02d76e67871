"""What a run keeps and draws, without processes."""

import socket

import pytest

from unstall.experiments.library import all_scenarios, find
from unstall.experiments.nurse import Nurse
from unstall.experiments.runner import _Running, free_port, patience_of
from unstall.experiments.scenario import Settings


def gathered(folder, step):
    """A run that gathered evidence at step 2 and is at ``step`` now."""
    running = _Running(find("size-mismatch")[0], Settings(), folder, folder, Nurse(), 1.0, None)
    dumps = folder / "evidence" / "trainer-dumps"
    dumps.mkdir(parents=True)
    (folder / "raw").mkdir()
    kept = [dumps / "nccl_trace_rank_0"]
    kept += [folder / part / "stacks.txt" for part in ("evidence", "raw")]
    for path in kept:
        path.write_text("of step 2")
    running.known, running.has_stacks, running.has_dumps = (2, 3), True, {"trainer": 1}
    running.watcher.step = step
    running._discard_stale()
    return running, [path.exists() for path in kept]


def test_what_was_gathered_in_a_pause_is_not_kept_for_a_later_step(tmp_path):
    running, exist = gathered(tmp_path, 5)
    assert exist == [False, False, False]
    assert (running.known, running.has_stacks, running.has_dumps) == (None, False, {})


def test_lines_without_a_step_leave_it(tmp_path):
    """The lines of a time-out come from processes that die: their stacks were better before."""
    running, exist = gathered(tmp_path, 2)
    assert exist == [True, True, True]
    assert running.known == (2, 3)


def test_a_free_port_can_be_bound():
    port = free_port()
    assert 1024 < port < 65536
    with socket.socket() as one:
        one.bind(("127.0.0.1", port))


LATE = [one for one in all_scenarios() if one.change("longer-timeout") is not None]


@pytest.mark.parametrize("scenario", LATE, ids=lambda one: one.name)
@pytest.mark.parametrize(("timeout", "times"), [(6.0, 1.6), (60.0, 1.6), (6.0, 9.0), (600.0, 3.0)])
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_a_rank_at_work_is_waited_for_however_long_the_user_wants_it(
    scenario, timeout, times, scale
):
    """With a time-out that covers the work nothing hangs: 96 s of work are no hang after 40 s."""
    settings = Settings(timeout=timeout * scale, sizes={"times": times})
    stall, limit = patience_of(scenario, settings, scale)
    assert stall >= scenario.stall * scale
    assert timeout * scale * times < stall < limit


@pytest.mark.parametrize("scenario", all_scenarios(), ids=lambda one: one.name)
def test_as_declared_patience_is_as_declared(scenario):
    settings = Settings(timeout=scenario.timeout * 2.0, sizes=scenario.sizes)
    assert patience_of(scenario, settings, 2.0)[0] == scenario.stall * 2.0
