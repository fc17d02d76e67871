"""The groups of ``init_device_mesh``: one step for each dimension, in order.

Source: ``torch/distributed/device_mesh.py``, ``_init_process_groups``. A dimension that spans all
ranks reuses the default group; others make one group for each list of ranks, described as
``mesh_<dimension>`` (2.4 and later). Older versions reuse the default group only for a mesh of
one dimension (read in 2.13; the line drawn at 2.10 is an assumption); the switch ``old_mesh`` in
the sizes asks for that.
"""

from __future__ import annotations

from collections.abc import Callable

from unstall.model.text import Text
from unstall.programs.groups import COUNTED, Part, Sizes, Step, along


def mesh_steps(
    dimensions: tuple[str, ...],
    meanings: dict[str, Text],
    *,
    grid: str = "main",
    when: Callable[[Sizes], bool] | None = None,
    condition: str = "",
    backend: str = "nccl",
    axes: dict[str, str] | None = None,
    naming: str = COUNTED,
) -> tuple[Step, ...]:
    """The steps of one mesh.

    Args:
        dimensions: names of its dimensions, slowest first, as torch gets them.
        meanings: what each dimension is for.
        grid: the grid whose axes carry those names.
        when: whether the mesh is made at all.
        condition: ``when`` in words.
        backend: back end of its groups (``both`` where the default group has both).
        axes: name of a dimension's axis in the grid where they differ.
        naming: ``hashed`` where the default group is bound to a device (``device_id=``): torch
            then splits it.
    """
    axes = axes or {}
    return tuple(
        Step(
            name=name,
            meaning=meanings[name],
            ranks=along(axes.get(name, name), grid=grid),
            parts=(Part(backend, f"mesh_{name}"),),
            when=_made(axes.get(name, name), when, len(dimensions) == 1),
            condition="; ".join(
                part for part in (condition, f"{name} does not span all ranks") if part
            ),
            over=name,
            naming=naming,
        )
        for name in dimensions
    )


def _made(axis: str, when: Callable[[Sizes], bool] | None, alone: bool) -> Callable[[Sizes], bool]:
    def made(sizes: Sizes) -> bool:
        if when is not None and not when(sizes):
            return False
        spans = sizes.get(axis, 1) == sizes["world"]
        return not (spans and (alone or not sizes.get("old_mesh")))

    return made
