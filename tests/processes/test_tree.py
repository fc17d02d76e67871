"""Stopping process trees, on real ones."""

import os
import subprocess
import sys

import pytest

from unstall.processes import tree

psutil = pytest.importorskip("psutil")
DAEMON = (
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        time.sleep(600)\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "print('ready', flush=True)\n"
    "time.sleep(600)\n"
)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux")
def test_a_daemon_with_a_session_of_its_own_is_stopped_too():
    tree.adopt_orphans()
    before = set(tree.below(os.getpid()))
    process = subprocess.Popen([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, text=True)
    tree.waited_elsewhere(process.pid)
    try:
        assert process.stdout.readline() == "ready\n"
        started = set(tree.below(os.getpid())) - before
        assert len(started) == 2
    finally:
        left = tree.kill_below(os.getpid(), before)
        process.wait()
        process.stdout.close()
    assert left == []
    assert not any(tree.alive(pid) for pid in started)


def test_only_segments_of_the_given_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tree, "SHM", tmp_path)
    for name in ("torch_41_1_0", "torch_42_1_0", "sem.other"):
        (tmp_path / name).write_text("")
    removed = tree.remove_segments({"torch_41_0"}, [41])
    assert removed == ["torch_41_1_0"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sem.other", "torch_42_1_0"]
