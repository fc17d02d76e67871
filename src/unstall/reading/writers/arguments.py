"""What argparse says when a program refuses its arguments, before it ends with exit code 2.

Source: CPython 3.10 to 3.14, ``Lib/argparse.py`` (``ArgumentParser.error``, ``_get_option_tuples``,
``_check_value``, ``_get_value``, ``_match_argument``).
"""

from __future__ import annotations

import re

from unstall.model.facts import Fact, PythonException
from unstall.reading.line import Line
from unstall.reading.writers.lines import Pattern, Sentences, common

#: The type under which such a refusal is told: argparse raises it, prints it and exits.
REFUSED = "argparse.ArgumentError"


def _refused(line: Line, found: re.Match[str]) -> Fact | None:
    return PythonException(**common(line), type=REFUSED, message=found[1].strip())


class RefusedArguments(Sentences):
    """One refusal a line; a usage that is printed before it says nothing more."""

    patterns = (
        Pattern(
            ": error: ",
            re.compile(
                r"\S: error: "
                r"(unrecognized arguments: .{1,500}"
                r"|the following arguments are required: .{1,500}"
                r"|ambiguous option: .{1,500}"
                r"|one of the arguments .{1,500} is required"
                r"|argument .{1,200}: (?:expected |invalid |not allowed with |ignored ).{1,500})$"
            ),
            _refused,
        ),
    )
