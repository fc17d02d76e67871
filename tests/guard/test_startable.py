from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unstall.guard.startable import Unfit, fit

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="scripts as POSIX has them")


def script(path: Path, data: bytes, mode: int = 0o755) -> str:
    path.write_bytes(data)
    path.chmod(mode)
    return str(path)


def test_what_can_be_started_is_left_as_it_is(tmp_path: Path) -> None:
    assert fit(["sh", "-c", "true"]) == ("sh", "-c", "true")
    mine = script(tmp_path / "mine", b"#!/bin/sh\ntrue\n")
    assert fit([mine, "a"]) == (mine, "a")
    assert fit([sys.executable]) == (sys.executable,)


def test_a_script_that_does_not_name_its_shell_is_run_by_sh(tmp_path: Path) -> None:
    mine = script(tmp_path / "mine", b"echo a\r\n")
    assert fit([mine, "a b"]) == ("/bin/sh", mine, "a b")


@pytest.mark.parametrize(
    ("data", "mode", "said", "status"),
    [
        (b"#!/bin/bash\r\necho\r\n", 0o755, "Windows", 126),
        (b"#!/no/such/python\n", 0o755, "there is no /no/such/python", 126),
        (b"#!/bin/sh\n", 0o644, "bash ", 126),
    ],
)
def test_scripts_that_cannot(
    tmp_path: Path, data: bytes, mode: int, said: str, status: int
) -> None:
    found = fit([script(tmp_path / "mine.sh", data, mode)])
    assert isinstance(found, Unfit)
    assert found.status == status
    assert said in found.said.render()


def test_names_of_other_things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path / "train.py", b"print()\n", 0o644)
    (tmp_path / "folder").mkdir()

    def told(word: str) -> tuple[str, int]:
        found = fit([word])
        assert isinstance(found, Unfit)
        return found.said.render(), found.status

    assert told("./folder") == ("./folder is a folder", 126)
    assert "python train.py" in told("train.py")[0]
    for word in ("folder", "", "no-such-command", "torchrun --nproc-per-node 2 train.py"):
        said, status = told(word)
        assert status == 127
        assert "no such command" in said
