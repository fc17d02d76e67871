"""docs/process-groups.md is the page that the descriptions make."""

from __future__ import annotations

from pathlib import Path

from unstall.programs.frameworks import FRAMEWORKS
from unstall.programs.group_tables import example, page, table
from unstall.programs.vllm.groups import VLLM

PAGE = Path(__file__).parents[2] / "docs" / "process-groups.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m unstall.programs.group_tables > docs/process-groups.md"
    )


def test_every_step_has_a_row() -> None:
    for framework in FRAMEWORKS:
        rows = table(framework).splitlines()
        for step in framework.steps:
            assert any(row.startswith(f"| {step.name} |") for row in rows)


def test_the_example_names_the_data_parallel_group() -> None:
    rows = example(VLLM, {"dp": 2, "tp": 1}, "0.11.0").splitlines()
    assert "| dp | 0, 1 | nccl | 15 | 5 |" in rows
    assert "| dp | 0, 1 | gloo | 16 | - |" in rows
