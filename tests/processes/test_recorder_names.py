"""Which names of the Flight Recorder's variables are set, and that a user's own stay."""

import pytest

from unstall.experiments.scripts.session import recording
from unstall.processes.recorder_names import RENAMED, torch_on_the_path, variables


@pytest.mark.parametrize("torch", [(2, 8), (2, 13), (3, 0)])
def test_a_torch_that_warns_of_the_old_names_is_not_given_them(torch):
    found = variables(2000, "/x/rank_", torch, {})
    assert found == {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_FR_DUMP_TEMP_FILE": "/x/rank_"}


def test_an_older_torch_knows_the_old_names_alone():
    found = variables(2000, "/x/rank_", (2, 7), {})
    assert found == {
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/x/rank_",
    }


def test_where_torch_is_not_known_both_are_set():
    assert set(variables(1, "p", None, {})) == {*RENAMED, *RENAMED.values()}


@pytest.mark.parametrize("name", [*RENAMED, *RENAMED.values()])
@pytest.mark.parametrize("torch", [None, (2, 7), (2, 13)])
def test_what_the_user_set_stays_under_whatever_name(name, torch):
    found = variables(1, "p", torch, {name: "own"})
    pair = next({old, new} for old, new in RENAMED.items() if name in (old, new))
    assert not pair & set(found)


@pytest.mark.parametrize(("written", "names"), [("2.7.1+cu126", (2, 7)), ("2.13.0", (2, 13))])
def test_the_torch_of_the_python_on_the_path_counts(tmp_path, monkeypatch, written, names):
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/false\n")
    python.chmod(0o755)
    package = tmp_path / "lib" / "python3.11" / "site-packages" / "torch"
    package.mkdir(parents=True)
    (package / "version.py").write_text(f"__version__ = '{written}'\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert torch_on_the_path() == names
    for name in (*RENAMED, *RENAMED.values()):
        monkeypatch.delenv(name, raising=False)
    set_ = set(recording(tmp_path)) & {*RENAMED, *RENAMED.values()}
    assert set_ == set(RENAMED.values() if names >= (2, 8) else RENAMED)
