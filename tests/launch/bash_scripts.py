"""Scripts without unknowns, generated, for comparing the reading with bash itself.

Every generated script starts the program ``probe`` some times. Run by bash, ``probe`` writes its
arguments and its environment to a file; read by us, the same must stand in the plan's calls.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from hypothesis import strategies as st

NAMES = ("ALPHA", "BETA", "GAMMA_X", "delta", "MASTER_PORT", "VISIBLE")
ARRAYS = ("ARGS", "EXTRA")
_PLAIN = st.text(alphabet="abcXYZ019._-/:=,@%+", min_size=1, max_size=8)
_SPACED = st.text(alphabet="ab 1#'(){}*?~!<>|&;[]", min_size=0, max_size=8)
_NUMBER = st.integers(0, 9999).map(str)


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _double(text: str) -> str:
    return '"' + "".join("\\" + c if c in '\\"$`' else c for c in text).replace("!", "") + '"'


def _expansions() -> st.SearchStrategy[str]:
    name = st.sampled_from(NAMES)
    word = _PLAIN.filter(lambda t: "/" not in t and "=" not in t and ":" not in t)
    return st.one_of(
        name.map(lambda n: f'"${n}"'),
        name.map(lambda n: f"${{{n}}}"),
        st.builds(lambda n, w: f"${{{n}:-{w}}}", name, word),
        st.builds(lambda n, w: f"${{{n}-{w}}}", name, word),
        st.builds(lambda n, w: f"${{{n}:+{w}}}", name, word),
        name.map(lambda n: f"${{#{n}}}"),
        st.builds(lambda n, a, b: f"${{{n}:{a}:{b}}}", name, st.integers(0, 4), st.integers(0, 4)),
        st.builds(lambda n, a: f"${{{n}:{a}}}", name, st.integers(0, 4)),
        st.builds(
            lambda n, m, p: f"${{{n}{m}{p}}}",
            name,
            st.sampled_from(("#", "##", "%", "%%")),
            st.sampled_from(("*/", "/*", "a*", "*a", "?", "[ab]*", "*.", ".*", "X")),
        ),
        st.builds(
            lambda n, m, p, w: f"${{{n}{m}{p}/{w}}}",
            name,
            st.sampled_from(("/", "//")),
            st.sampled_from(("a", "b*", "?", "ab", "[0-9]")),
            st.sampled_from(("", "Q", "zz")),
        ),
        st.builds(lambda n, m: f"${{{n}{m}}}", name, st.sampled_from(("^^", ",,", "^", ","))),
        st.builds(
            lambda a, o, b: f"$(({a} {o} {b}))",
            st.integers(0, 99),
            st.sampled_from(("+", "-", "*", "<", "==", "&&", "|")),
            st.integers(0, 99),
        ),
        st.builds(lambda a, b: f"$(seq {a} {b})", st.integers(0, 3), st.integers(2, 5)),
        st.builds(
            lambda t, d, f: f"$(echo {t} | cut -d '{d}' -f {f})",
            _PLAIN,
            st.sampled_from((",", ":", ".")),
            st.integers(1, 2),
        ),
        st.builds(lambda n: f'$(basename "/x/${{{n}:-y}}z")', name),
        st.builds(
            lambda n, s, t: f'$(echo "${n}" | tr {s} {t})',
            name,
            st.sampled_from(("a-z", "ab", ",")),
            st.sampled_from(("A-Z", "xy", "' '")),
        ),
        st.just("$(nested)"),
    )


def words() -> st.SearchStrategy[str]:
    """One word of a command."""
    part = st.one_of(
        _PLAIN,
        _SPACED.map(_single),
        _SPACED.map(_double),
        _expansions(),
        _expansions().map(lambda e: f'"{e}"'),
        st.builds(lambda a, e: f'"{a}{e}"', _PLAIN, _expansions()),
        st.sampled_from(("{a,b}", "{1..3}", "x{1,2}y", "{01..03}")),
        st.sampled_from(ARRAYS).map(lambda n: f'"${{{n}[@]}}"'),
        st.sampled_from(ARRAYS).map(lambda n: f"${{{n}[*]}}"),
        st.sampled_from(ARRAYS).map(lambda n: f"${{#{n}[@]}}"),
        st.sampled_from(ARRAYS).map(lambda n: f"${{{n}[0]}}"),
        st.sampled_from(('"$@"', "$#", "$1", '"$*"', '"${@:2}"')),
        st.sampled_from(("\\ ", "\\$x", "\\\\", "$'a\\tb'", "\\a")),
    )
    return st.lists(part, min_size=1, max_size=2).map("".join)


def _assigned() -> st.SearchStrategy[str]:
    value = st.one_of(
        _PLAIN,
        _NUMBER,
        _SPACED.map(_single),
        _SPACED.map(_double),
        _expansions(),
        _expansions().map(lambda e: f'"{e}"'),
        st.just(""),
    )
    return st.builds(lambda n, v: f"{n}={v}", st.sampled_from(NAMES), value)


def _command() -> st.SearchStrategy[str]:
    prefix = st.lists(_assigned(), max_size=2).map(" ".join)
    arguments = st.lists(words(), max_size=4).map(" ".join)
    return st.builds(
        lambda p, a, tail: f"{p} probe {a}{tail}".strip(),
        prefix,
        arguments,
        st.sampled_from(("", " > /dev/null", " 2>&1", " || true", " \\\n  --more 1")),
    )


def statements(depth: int = 2) -> st.SearchStrategy[str]:
    """One statement, nested to a depth."""
    simple = st.one_of(
        _command(),
        _command(),
        _assigned(),
        _assigned().map(lambda a: f"export {a}"),
        st.sampled_from(NAMES).map(lambda n: f"export {n}"),
        st.sampled_from(NAMES).map(lambda n: f"unset {n}"),
        st.sampled_from(NAMES).map(lambda n: f"export -n {n}"),
        st.builds(lambda n, v: f"{n}+={v}", st.sampled_from(NAMES), _PLAIN),
        st.builds(
            lambda n, w: f"{n}=({' '.join(w)})",
            st.sampled_from(ARRAYS),
            st.lists(words(), max_size=3),
        ),
        st.builds(
            lambda n, w: f"{n}+=({' '.join(w)})",
            st.sampled_from(ARRAYS),
            st.lists(words(), min_size=1, max_size=2),
        ),
        st.builds(lambda w: f"helper {' '.join(w)}", st.lists(words(), max_size=3)),
        st.builds(lambda w: f"set -- {' '.join(w)}", st.lists(words(), max_size=3)),
        st.builds(lambda n, w: f": ${{{n}:={w}}}", st.sampled_from(NAMES), _NUMBER),
        st.builds(
            lambda a, c: f"env {a} {c}",
            _assigned(),
            _command().filter(lambda c: c.startswith("probe")),
        ),
        st.builds(lambda n, v: f"declare -x {n}={v}", st.sampled_from(NAMES), _NUMBER),
    )
    if depth == 0:
        return simple
    inner = st.lists(statements(depth - 1), min_size=1, max_size=2).map("\n".join)
    test = st.one_of(
        st.builds(lambda n, w: f'[ "${n}" = "{w}" ]', st.sampled_from(NAMES), _PLAIN),
        st.builds(
            lambda n, w: f"[[ ${n} == {w}* ]]", st.sampled_from(NAMES), st.sampled_from("abX0")
        ),
        st.sampled_from(NAMES).map(lambda n: f'[ -z "${{{n}:-}}" ]'),
        st.sampled_from(NAMES).map(lambda n: f'[ -n "${{{n}:-}}" ]'),
        st.builds(
            lambda a, o, b: f"[ {a} {o} {b} ]",
            st.integers(0, 5),
            st.sampled_from(("-eq", "-lt", "-ge", "-ne")),
            st.integers(0, 5),
        ),
        st.builds(lambda a, b: f"(( {a} > {b} ))", st.integers(0, 5), st.integers(0, 5)),
    )
    return st.one_of(
        simple,
        simple,
        st.builds(lambda t, a, b: f"if {t}; then\n{a}\nelse\n{b}\nfi", test, inner, inner),
        st.builds(lambda t, a: f"{t} && {a}", test, _command()),
        st.builds(
            lambda v, w, b: f"for {v} in {' '.join(w)}; do\n{b}\ndone",
            st.sampled_from(NAMES),
            st.lists(words(), min_size=1, max_size=3),
            inner,
        ),
        st.builds(
            lambda n, b: f"for ((i=0; i<{n}; i++)); do\nprobe $i\n{b}\ndone",
            st.integers(0, 3),
            # another loop over the same counter would set it back: the outer one would not end
            inner.filter(lambda b: "for ((" not in b),
        ),
        inner.map(lambda b: f"(\n{b}\n)"),
        inner.map(lambda b: f"{{\n{b}\n}}"),
        st.builds(
            lambda n, b, c: f'case "${{{n}:-}}" in\n a*|X) {b};;\n *) {c};;\nesac',
            st.sampled_from(NAMES),
            _command(),
            _command(),
        ),
    )


def scripts() -> st.SearchStrategy[str]:
    """A whole script."""
    head = (
        'nested() { echo "in ${ALPHA:-none}"; }\n'
        'helper() {\n  local inner=$1\n  probe "$inner" "$@" $#\n}\n'
        + "".join(
            f"{n}={v}\n"
            for n, v in zip(NAMES, ("a/b.c", "7", "'x y'", "ab,cd", "29500", "0,1"), strict=True)
        )
        + "ARGS=(--one 1 'two words')\nEXTRA=()\nexport BETA MASTER_PORT\nset -- p1 'p 2'\n"
    )
    return st.lists(statements(), min_size=1, max_size=6).map(lambda s: head + "\n".join(s) + "\n")


def run_bash(script: str, folder: Path) -> list[tuple[list[str], dict[str, str]]] | None:
    """What ``probe`` was given each time; ``None`` where bash itself refuses the script."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    probe = folder / "probe"
    log = folder / "log"
    probe.write_text(
        '#!/bin/sh\nexec 3>>"$UNSTALL_PROBE_LOG"\n'
        'printf \'call\\0%s\\0\' "$#" >&3\nfor a in "$@"; do printf \'%s\\0\' "$a" >&3; done\n'
        "env -0 >&3\nprintf 'end-of-call\\0' >&3\n"
    )
    probe.chmod(0o755)
    log.write_bytes(b"")
    path = f"{folder}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", "set -f\n" + script, "bash"],
        env={"PATH": path, "UNSTALL_PROBE_LOG": str(log), "HOME": "/nowhere"},
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if (
        b"syntax error" in done.stderr
        or b"bad substitution" in done.stderr
        or b"unexpected EOF" in done.stderr
    ):
        return None
    found: list[tuple[list[str], dict[str, str]]] = []
    items = log.read_bytes().decode("utf-8", "replace").split("\0")
    at = 0
    while at < len(items) and items[at] == "call":
        count = int(items[at + 1])
        arguments = items[at + 2 : at + 2 + count]
        at += 2 + count
        environment: dict[str, str] = {}
        while items[at] != "end-of-call":
            name, _, value = items[at].partition("=")
            environment[name] = value
            at += 1
        at += 1
        found.append((arguments, environment))
    return found


def shown(calls: object) -> str:
    """For a failing example's message."""
    return json.dumps(calls, indent=1, ensure_ascii=False)
