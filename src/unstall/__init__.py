"""Says which program, process group, rank and line made a multi-GPU job hang or crash.

>>> import unstall
>>> diagnosis = unstall.diagnose(["run.log", "launch.sh"])  # doctest: +SKIP
>>> diagnosis.causes[0].finding.cause  # doctest: +SKIP
'engine-desync'

Importing this package is cheap, and nothing in it imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["Diagnosis", "__version__", "diagnose"]

if TYPE_CHECKING:
    from unstall.diagnosis import diagnose
    from unstall.model.findings import Diagnosis


def __getattr__(name: str) -> Any:
    if name == "diagnose":
        from unstall.diagnosis import diagnose

        return diagnose
    if name == "Diagnosis":
        from unstall.model.findings import Diagnosis

        return Diagnosis
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
