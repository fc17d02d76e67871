"""Axolotl: ``axolotl train FILE`` and ``-m axolotl.cli.train``.

Source: axolotl 0.12 ``src/axolotl/cli/main.py`` (``--launcher accelerate`` by default; launcher
flags
behind ``--``), ``utils/schemas/config.py`` (``ddp_timeout`` in seconds).
"""

from __future__ import annotations

from collections.abc import Sequence

from unstall.model.plan import Value
from unstall.programs import accelerate, torchrun, training
from unstall.programs.base import Launch, parse_flags

NAME = "axolotl"


def claims(words: Sequence[Value]) -> bool:
    """Whether the command is axolotl's."""
    texts = [w.text for w in words[:5]]
    return texts[0].rsplit("/", 1)[-1] == "axolotl" or any(
        t.startswith("axolotl.cli") for t in texts
    )


def read(launch: Launch, origins: dict[str, str]) -> None:
    """Its flags, the file's keys, processes and ports."""
    texts = [w.text for w in launch.words]
    own = texts[0].rsplit("/", 1)[-1] == "axolotl"
    command = (
        texts[1] if own and len(texts) > 1 else texts[-1].rsplit(".", 1)[-1] if not own else ""
    )
    words = list(launch.words[2 if own else 1 :])
    behind: list[Value] = []
    split = next((n for n, w in enumerate(words) if w.text == "--"), None)
    if split is not None:
        behind, words = words[split + 1 :], words[:split]
    flags, _ = parse_flags(words)
    launch.flags.update(flags)
    launch.take_config()
    launch.software = NAME
    launch.role = "trainer"
    launch.label = f"axolotl {command or 'train'}" if own else "axolotl"
    launcher = launch.flag("launcher")
    if own and not launch.launchers:
        given, _ = parse_flags(behind)
        if launcher is None or launcher.text == "accelerate":
            merged = {**launch.flags, **given}
            accelerate.apply(
                launch,
                {
                    k: v
                    for k, v in merged.items()
                    if k
                    in (
                        "num_processes",
                        "num_machines",
                        "machine_rank",
                        "main_process_ip",
                        "main_process_port",
                        "gpu_ids",
                    )
                },
                origins,
            )
        elif launcher.text == "torchrun":
            torchrun.apply(launch, given, origins, "torchrun")
    training.ddp_timeout(launch)
    training.deepspeed_stage(launch)
