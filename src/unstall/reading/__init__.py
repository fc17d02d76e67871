"""Bytes to facts: sources, lines, prefixes, regions, and one reader for each writer of lines."""

from __future__ import annotations

from unstall.reading.parts import ConfigText, DumpSource, ScriptText
from unstall.reading.reading import Reading, read

__all__ = ["ConfigText", "DumpSource", "Reading", "ScriptText", "read"]
