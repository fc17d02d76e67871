"""A scenario as one Python file that needs nothing but torch, to be attached to an issue."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import msgspec

from unstall.experiments.nurse import LabError
from unstall.experiments.scenario import Scenario, Settings
from unstall.model.text import say

_PACKAGE = "unstall.experiments.scenarios"

_HEAD = '''"""{title}

{about}

Run it with: python {file}            (needs torch; no GPU, no other package)
             python {file} --change {change}   (a change that is claimed to cure it)

{ranks} ranks on this machine's CPU with gloo. The process groups' time-out is {timeout:g} s. It
says HUNG when nothing was printed for {stall:g} s, shows every process's Python stacks, and stops
all processes. Made by unstall {version}: scenario {name}, seed {seed}.
"""

import argparse
import faulthandler
import importlib.abc
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

PROGRAMS = {programs!r}
CHANGES = {changes!r}
SETTINGS = {settings!r}
STALL, MODULE = {stall!r}, {module!r}
'''

_TAIL = '''

# --- what the modules above import besides torch --------------------------------------------------


class Named(types.SimpleNamespace):
    """A declaration: its arguments by position or name."""

    def __init__(self, *args, **named):
        super().__init__(args=args, **named)


def stub(name, **content):
    module = types.ModuleType(name)
    module.__path__ = []
    module.__dict__.update(content)
    sys.modules[name] = module


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the modules above."""

    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            package = any(other.startswith(name + ".") for other in SOURCES)
            return importlib.util.spec_from_loader(name, self, is_package=package)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        code = compile(SOURCES[module.__name__], module.__name__.replace(".", "/") + ".py", "exec")
        exec(code, module.__dict__)


def prepare():
    decode = types.SimpleNamespace(decode=lambda text, type=None: Named(**json.loads(text)))
    stub("msgspec", json=decode)
    stub("unstall")
    stub("unstall.model")
    stub("unstall.model.text", say=lambda text, **values: text, verbatim=lambda text: text)
    stub("unstall.experiments")
    stub("unstall.experiments.scenarios")
    kinds = "Apart Change Control Dumps Ended ProgramSpec Says Scenario Settings Waits".split()
    stub("unstall.experiments.scenario", **{kind: Named for kind in kinds})
    sys.meta_path.insert(0, Finder())


# --- running --------------------------------------------------------------------------------------


def child():
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    prepare()
    from unstall.experiments.child import Lab

    importlib.import_module(MODULE).main(Lab())


def start(folder, settings):
    processes = []
    for name, role, count, service in PROGRAMS:
        for rank in range(count or settings["ranks"]):
            environment = {
                **os.environ,
                "UNSTALL_LAB_SETTINGS": json.dumps(settings),
                "UNSTALL_LAB_FOLDER": folder,
                "UNSTALL_LAB_PROGRAM": name,
                "UNSTALL_LAB_ROLE": role,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(count or settings["ranks"]),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": os.environ.get("MASTER_PORT", "29517"),
                "TMPDIR": folder,
                "OMP_NUM_THREADS": "1",
                "PYTHONUNBUFFERED": "1",
                "TORCH_FR_BUFFER_SIZE": "2000",
            }
            process = subprocess.Popen(
                [sys.executable, __file__, "--child"],
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            processes.append((f"{name} rank {rank}", process, service))
    return processes


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\\n")[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--change", action="append", default=[], choices=CHANGES)
    parser.add_argument("--no-fault", action="store_true")
    parser.add_argument("--steps", type=int, default=SETTINGS["steps"])
    parser.add_argument("--seed", type=int, default=SETTINGS["seed"])
    arguments = parser.parse_args()
    if arguments.child:
        child()
        return 0
    settings = {**SETTINGS, "changes": arguments.change, "fault": not arguments.no_fault,
                "steps": arguments.steps, "seed": arguments.seed}
    last = [time.monotonic() + 60]

    def follow(label, process):
        for line in process.stdout:
            sys.stdout.write(f"[{label}] {line.decode('utf-8', 'replace')}")
            sys.stdout.flush()
            last[0] = time.monotonic()

    with tempfile.TemporaryDirectory(prefix="repro-") as folder:
        processes = start(folder, settings)
        try:
            for label, process, _ in processes:
                threading.Thread(target=follow, args=(label, process), daemon=True).start()
            outcome = ""
            while not outcome:
                time.sleep(0.1)
                codes = [process.poll() for _, process, service in processes if not service]
                if all(code == 0 for code in codes):
                    outcome = "FINISHED"
                elif all(code is not None for code in codes):
                    outcome = "FAILED"
                elif time.monotonic() - last[0] > STALL:
                    outcome = "HUNG"
            if outcome == "HUNG":
                for _, process, _ in processes:
                    if process.poll() is None:
                        process.send_signal(signal.SIGUSR1)
                time.sleep(2)
            print(outcome, flush=True)
        finally:
            for _, process, _ in processes:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
    return 0 if outcome == "FINISHED" else 1


if __name__ == "__main__":
    sys.exit(main())
'''


def export_scenario(scenario: Scenario, settings: Settings, target: Path) -> None:
    """Write a scenario as one file.

    Raises:
        LabError: the scenario needs a launcher's own files, or the file cannot be written.
    """
    if any(spec.own_torch for spec in scenario.programs):
        raise LabError(
            say("{name} is started by torchrun itself and cannot be one file.", name=scenario.name)
        )
    if target.exists():
        raise LabError(say("{path} exists already.", path=str(target)))
    text = exported(scenario, settings, target.name)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LabError(
            say(
                "{path} cannot be written: {error}",
                path=str(target),
                error=error.strerror or str(error),
            )
        ) from error


def exported(scenario: Scenario, settings: Settings, name: str) -> str:
    """The text of the file."""
    from unstall import __version__

    head = _HEAD.format(
        title=scenario.title.render(),
        about=_wrapped(scenario.about.render()),
        file=name,
        change=scenario.changes[0].name if scenario.changes else "NAME",
        ranks=settings.ranks,
        timeout=settings.timeout,
        stall=scenario.stall,
        version=__version__,
        name=scenario.name,
        seed=settings.seed,
        changes=[one.name for one in scenario.changes],
        programs=[(s.name, s.role, s.ranks, s.service) for s in scenario.programs],
        settings=msgspec.to_builtins(msgspec.structs.replace(settings, backend="gloo")),
        module=f"{_PACKAGE}.{scenario.module}",
    )
    parts = [head, "\n# --- the program, as modules\n\nSOURCES = {}\n"]
    for module, source in _sources(scenario).items():
        parts.append(f"\nSOURCES[{module!r}] = {_literal(source)}\n")
    return "".join([*parts, _TAIL])


def _wrapped(text: str) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, 96))


def _literal(source: str) -> str:
    """The source as a literal that a person can read."""
    if "'''" in source or source.endswith("'"):
        return repr(source)
    return "r'''" + source + "'''"


def _sources(scenario: Scenario) -> dict[str, str]:
    """The modules that a scenario's processes import from this package, with their text."""
    wanted = ["unstall.experiments.child", f"{_PACKAGE}._training", f"{_PACKAGE}._work"]
    own = f"{_PACKAGE}.{scenario.module}"
    wanted.append(own)
    spec = importlib.util.find_spec(own)
    locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    for location in locations:
        root = Path(location)
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join([own, *(part for part in parts if part != "__init__")])
            if name not in wanted:
                wanted.append(name)
    found: dict[str, str] = {}
    for name in wanted:
        one = importlib.util.find_spec(name)
        if one is not None and one.origin is not None:
            found[name] = Path(one.origin).read_text(encoding="utf-8")
    return found
