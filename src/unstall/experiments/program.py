"""Runs one process of a scenario by itself: ``python -m unstall.experiments.program MODULE``.

For processes that a launcher starts (torchrun), which cannot be forked from the nursery.
"""

from __future__ import annotations

import sys

from unstall.experiments.nursery import run_main

if __name__ == "__main__":
    run_main(sys.argv[1])
