"""A copy finds what the script itself would find."""

import os
import subprocess
from pathlib import Path

import pytest

from unstall.experiments.nurse import LabError
from unstall.experiments.scripts.copies import OWN, copied

#: What scripts do with their own name and place; each says what it found.
SCRIPTS = {
    "dirname": 'cd "$(dirname "$0")" && pwd && cat data.txt\n',
    "bash source": 'D="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null; pwd)"\necho $D\n',
    "parent": "cd $(dirname $0)/.. && pwd\n",
    "readlink": 'D=$(dirname "$(readlink -f "$0")")\necho $D; cat "$D/data.txt"\n',
    "realpath": 'echo "$(dirname "$(realpath "${BASH_SOURCE[0]}")")"\n',
    "walking": """S="${BASH_SOURCE[0]}"
while [ -h "$S" ]; do
  D="$(cd -P "$(dirname "$S")" && pwd)"; S="$(readlink "$S")"
  [[ $S != /* ]] && S="$D/$S"
  echo "$D"
done
echo "$(cd -P "$(dirname "$S")" && pwd)"
""",
    "stripped": 'echo "${0%/*}"\n',
    "own name": 'N=$(basename "$0" .sh)\necho "log of $N, $(basename $0), ${0##*/}"\n',
    "name of source": 'echo "$(basename "${BASH_SOURCE[0]}") ${BASH_SOURCE##*/}"\n',
    "log beside": 'exec > >(tee "${0%.sh}.log"); until [ -e "${0%.sh}.log" ]; do sleep 0.01; done\n'
    'echo "$(basename "$0")"; rm "${0%.*}.log"\n',
    "in quotes": 'echo "a ${0%.sh} b `basename $0` $(basename "${0}" .sh)"\n',
    "main guard": 'main() { echo main; }\n[[ "${BASH_SOURCE[0]}" == "$0" ]] && main "$@"\n',
    "sources beside": 'source "$(dirname "$0")/other.sh"\nshow\n',
    "sources here": ". ./here.sh\n",
    "starts itself": '[ "$AGAIN" ] || AGAIN=1 exec bash "$0"\necho again\n',
    "starts itself by its mode": '[ "$AGAIN" ] || AGAIN=1 exec "$0"\necho again\n',
    "reads itself": "sed -n 's/^#: //p' \"$0\"\n#: help\n",
    "neither": "pwd\ncat here.sh\n",
}


@pytest.fixture(params=["file", "link", "chain", "linked folder"])
def place(tmp_path, request):
    """A script's folder, and the way to it from the folder in which the user is."""
    real = tmp_path / "project" / "scripts"
    real.mkdir(parents=True)
    (real / "data.txt").write_text("data\n")
    (real / "other.sh").write_text('show() { echo "$(dirname "$0")"; }\necho other\n')
    here = tmp_path / "here"
    (here / "bin").mkdir(parents=True)
    (here / "here.sh").write_text('echo "here $(dirname "$0")"\n')
    (here / "bin" / "other.sh").write_text("show() { echo the other one; }\n")
    (here / "bin" / "data.txt").write_text("other data\n")
    script = real / "launch.sh"
    if request.param == "file":
        return here, script, Path("../project/scripts/launch.sh")
    if request.param == "link":
        (here / "bin" / "start.sh").symlink_to(script)
        return here, script, Path("bin/start.sh")
    if request.param == "chain":
        (real.parent / "middle").symlink_to("scripts/launch.sh")
        (here / "bin" / "start.sh").symlink_to("../../project/middle")
        return here, script, Path("bin/start.sh")
    (here / "to").symlink_to(real)
    return here, script, Path("to/launch.sh")


def listed(folder):
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_copy_says_what_the_script_says(place, tmp_path, name, monkeypatch):
    here, script, way = place
    script.write_text(f"#!/bin/bash\n{SCRIPTS[name]}")
    script.chmod(0o755)
    monkeypatch.chdir(here)

    def said(path):
        done = subprocess.run(
            ["bash", path],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, OWN: str(way)},
        )
        return done.stdout, done.stderr.replace(str(path), "")

    wanted, errors = said(way)
    run = tmp_path / "run"
    run.mkdir()
    before = listed(tmp_path)
    text = script.read_text() + "echo changed\n"
    with copied(way, text, "B", run) as (copy, *_more):
        assert said(copy) == (f"{wanted}changed\n", errors)
        if name == "neither":  # nothing is written into the user's folders
            assert [path for path in listed(tmp_path) if path not in before] == sorted(
                str(path) for path in (run / "script", run / "script" / way.name)
            )
    assert listed(tmp_path) == before
    assert script.read_text() == f"#!/bin/bash\n{SCRIPTS[name]}"


def test_what_cannot_be_written_beside_the_script_is_told(tmp_path, monkeypatch):
    script = tmp_path / "launch.sh"
    script.write_text('cd "$(dirname "$0")"\n')

    def refused(_path, *_words, **_more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refused)
    with (
        pytest.raises(LabError, match=r"Permission denied.*copy its folder"),
        copied(script, 'echo "$0"', "A", tmp_path),
    ):
        pass


def test_a_copy_is_as_the_script_is(tmp_path):
    script = tmp_path / "launch.sh"
    script.write_bytes(b"echo $0\r\n")
    script.chmod(0o740)
    with copied(script, "echo $0\necho 1\n", "A", tmp_path) as (copy, *_more):
        assert copy.read_bytes() == b"echo $0\r\necho 1\r\n"
        assert os.stat(copy).st_mode & 0o777 == 0o740
