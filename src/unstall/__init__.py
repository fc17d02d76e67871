"""Says which program, process group, rank and line made a multi-GPU job hang or crash."""

__version__ = "0.1.0"
