"""A stack's environment, built from wheels that are made here: nothing is downloaded."""

import base64
import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from unstall.experiments.nurse import LabError
from unstall.experiments.stacks.environment import build, place_of
from unstall.experiments.stacks.recipe import Recipe, Step

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = ()) -> None:
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {one}\n" for one in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        record += f"{path},sha256={digest.rstrip('=')},{len(text)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    return folder


RECIPE = Recipe(
    name="tiny",
    asked={"engine": "2.0"},
    python=(HERE,),
    download_mb=1,
    disk_mb=1,
    minutes=1,
    steps=(
        Step(name="what it needs", install=("helper",)),
        Step(name="the engine", install=("engine-cpu",), dependencies=False),
        Step(name="its name", stand_in="engine==2.0+cpu"),
    ),
    versions={"helper": "1.1", "engine-cpu": "2.0"},
)


def test_a_build_that_was_stopped_goes_on_where_it_was(tmp_path, wheels, monkeypatch):
    wheel(wheels, "helper", "1.1")
    wheel(wheels, "helper", "1.2")
    told: list[str] = []

    def tell(text):
        told.append(text.render())

    root = tmp_path / "stacks"
    with pytest.raises(LabError, match=r"engine-cpu.*The next call goes on"):
        build(RECIPE, tell, root=root)
    assert "about 1 MB to download, 1 MB on disk" in told[0]
    assert "it may be interrupted" in told[0]
    place = place_of(RECIPE, root)
    assert list(json.loads((place / "done.json").read_text())) == ["what it needs"]

    # its metadata asks for what no index has
    wheel(wheels, "engine_cpu", "2.0", requires=("nowhere==1.0+cpu",))
    told.clear()
    found = build(RECIPE, tell, root=root)
    assert told[0] == "going on with the installation of engine==2.0: 1 of 3 steps are done"
    assert "step 1 of 3" not in " ".join(told)
    versions = found.versions
    assert (versions["helper"], versions["engine-cpu"]) == ("1.1", "2.0")
    assert versions["engine"] == "2.0+cpu"
    assert json.loads((place / "versions.json").read_text()) == versions

    told.clear()
    assert build(RECIPE, tell, root=root) == found
    assert told == []

    # a smaller stack with these versions needs no environment of its own
    monkeypatch.setattr("unstall.experiments.stacks.environment.recipes", lambda: (RECIPE,))
    smaller = msgspec.structs.replace(
        RECIPE,
        name="helper",
        asked={"helper": "1.1"},
        steps=RECIPE.steps[:1],
        versions={"helper": "1.1"},
    )
    assert place_of(smaller, root) != place
    assert build(smaller, tell, root=root) == found


def test_a_stack_is_laid_over_another_and_only_brings_what_differs(tmp_path, wheels, monkeypatch):
    wheel(wheels, "helper", "1.1")
    wheel(wheels, "helper", "1.2")
    wheel(wheels, "engine_cpu", "2.0")
    below = RECIPE
    above = msgspec.structs.replace(
        RECIPE,
        name="above",
        asked={"helper": "1.2", "engine": "2.0"},
        base="engine==2.0",
        steps=(Step(name="helper", install=("helper",), dependencies=False),),
        versions={**RECIPE.versions, "helper": "1.2"},
    )
    monkeypatch.setattr("unstall.experiments.stacks.environment.recipes", lambda: (below, above))
    told: list[str] = []
    root = tmp_path / "stacks"
    found = build(above, lambda text: told.append(text.render()), root=root)
    announced = [text.split(" once,")[0] for text in told if "to download" in text]
    assert announced == ["installing engine==2.0", "installing helper==1.2,engine==2.0"]
    assert found.place == place_of(above, root)
    mine, theirs = build(below, print, root=root).versions, found.versions
    assert {name for name in theirs if theirs[name] != mine.get(name)} == {"helper"}
    assert list(mine) == list(theirs)
    assert found.versions["helper"] == "1.2"
    assert found.versions["engine-cpu"] == "2.0"
    script = "import helper, engine_cpu; print(helper.version, engine_cpu.version)"
    seen = [
        subprocess.run(
            [place / "venv" / "bin" / "python", "-c", script],
            capture_output=True, text=True, check=True,
        ).stdout
        for place in (place_of(below, root), found.place)
    ]  # fmt: skip
    assert seen == ["1.1 2.0\n", "1.2 2.0\n"]

    told.clear()
    assert build(above, lambda text: told.append(text.render()), root=root) == found
    assert told == []

    # without what it is laid over it is not whole
    shutil.rmtree(place_of(below, root))
    assert build(above, lambda text: told.append(text.render()), root=root) == found
    assert "installing engine==2.0" in told[0]


def test_a_missing_python_is_told(tmp_path):
    recipe = msgspec.structs.replace(RECIPE, python=("3.2",))
    with pytest.raises(LabError, match=r"runs with Python 3\.2"):
        build(recipe, lambda _text: None, root=tmp_path)


def test_a_full_disk_is_told_before_anything_starts(tmp_path):
    recipe = msgspec.structs.replace(RECIPE, disk_mb=10**9)
    with pytest.raises(LabError, match=r"needs 1000000\.0 GB"):
        build(recipe, lambda _text: None, root=tmp_path)
    assert not (place_of(recipe, tmp_path) / "venv").exists()


def test_another_version_has_another_folder(tmp_path):
    other = msgspec.structs.replace(RECIPE, versions={**RECIPE.versions, "helper": "1.2"})
    assert place_of(RECIPE, tmp_path) != place_of(other, tmp_path)


KILLED = """
import sys
from pathlib import Path
from unstall.experiments.stacks import environment
place = Path(sys.argv[1])
with environment._lock(place, lambda _text: None) as lock:
    stands_for_pip = "import time; print('go', flush=True); time.sleep(600)"
    environment._run([sys.executable, "-c", stands_for_pip], place, print, lock)
"""


def test_a_folder_stays_locked_as_long_as_pip_lives(tmp_path):
    """Whoever is killed while pip runs leaves pip behind: nobody may build there until it ends."""
    psutil = pytest.importorskip("psutil")
    call = subprocess.Popen([sys.executable, "-uc", KILLED, tmp_path], stdout=subprocess.PIPE)
    assert call.stdout is not None
    with call.stdout:
        assert call.stdout.readline() == b"go\n"
        (pip,) = psutil.Process(call.pid).children()
        try:
            call.kill()
            call.wait()
            with (tmp_path / "lock").open("w") as file:
                with pytest.raises(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                pip.kill()
                fcntl.flock(file, fcntl.LOCK_EX)  # free as soon as it has gone
        finally:
            if pip.is_running():
                pip.kill()
