"""Warnings that matter to a cause, and those that are often mistaken for one.

Those of the second kind carry ``note`` = ``benign``.
"""

from __future__ import annotations

import re

from unstall.model.facts import Fact, WarningLine
from unstall.reading.line import Line
from unstall.reading.writers.lines import Pattern, Sentences, common


def _warning(topic: str, marks: str, regex: str, *names: str, benign: bool = False) -> Pattern:
    """A warning whose groups are values of these names."""

    def make(line: Line, found: re.Match[str]) -> Fact | None:
        values = {name: value for name, value in zip(names, found.groups(), strict=False) if value}
        if benign:
            values["note"] = "benign"
        return WarningLine(**common(line), topic=topic, values=values)

    return Pattern(marks, re.compile(regex, re.ASCII), make)


class Warnings(Sentences):
    """One warning a line."""

    patterns = (
        _warning(
            "sequence-too-long",
            "sequence length is longer than",
            r"sequence length is longer than the specified maximum.{0,60}\((\d{1,9}) > (\d{1,9})\)",
            "length",
            "maximum",
        ),
        _warning(
            "sequence-too-long",
            "longer than the maximum model length|is too long and exceeds limit",
            r"(?:\(length (\d{1,9})\) is longer than the maximum model length of (\d{1,9})"
            r"|\((\d{1,9}) tokens\) is too long and exceeds limit of (\d{1,9}))",
            "length",
            "maximum",
            "length",
            "maximum",
        ),
        _warning(
            "find-unused-parameters",
            "find_unused_parameters",
            r"find_unused_parameters=True was specified|`?ddp_find_unused_parameters`? needs to be",
        ),
        _warning(
            "omp-threads",
            "Setting OMP_NUM_THREADS|OMP_NUM_THREADS",
            r"Setting OMP_NUM_THREADS environment variable for each process to be (\d{1,6})"
            r"|Reducing Torch parallelism from \d{1,6} threads to (\d{1,6})",
            "threads",
            "threads",
            benign=True,
        ),
        _warning(
            "oversubscribed",
            "worker processes in total",
            r"This DataLoader will create (\d{1,6}) worker processes in total\. Our suggested max"
            r" number of worker in current system is (\d{1,6})",
            "workers",
            "suggested",
        ),
        _warning(
            "kernel-version",
            "Detected kernel version",
            r"Detected kernel version ([\d.]{1,20}), which is below the recommended minimum of"
            r" (\d[\d.]{0,18}\d)",
            "version",
            "minimum",
        ),
        _warning(
            "version",
            "only supports vLLM version",
            r"TRL currently (?:only )?supports vLLM versions?:? (.{1,120}?)\. You have version"
            r" (\S{1,40}) installed",
            "wanted",
            "found",
        ),
        _warning(
            "version",
            "which is incompatible|is incompatible with|version mismatch|ersion mismatch",
            r"(?:requires (\S{1,60}), but you have (.{1,60}?) which is incompatible"
            r"|[Vv]ersion mismatch.{0,120})",
            "wanted",
            "found",
        ),
        _warning(
            "custom-all-reduce",
            "ustom allreduce is disabled|ustom all-reduce|ustom_all_reduce",
            r"[Cc]ustom all-?reduce is disabled (?:because )?(.{0,160})",
            "reason",
        ),
        _warning(
            "tokenizers-fork",
            "The current process just got forked",
            r"The current process just got forked",
            benign=True,
        ),
        _warning(
            "overflow",
            "OVERFLOW!|overflow. Skipping|Grad overflow",
            r"OVERFLOW!|overflow\. Skipping step|Grad overflow",
        ),
        _warning(
            "numa",
            "NUMA|numa_balancing",
            r"(?:NUMA binding|numa_balancing|Automatic NUMA|different NUMA).{0,120}",
        ),
        _warning(
            "deprecated-environment",
            "is deprecated; use ",
            r"Environment variable ([A-Z_]{3,60}) is deprecated; use ([A-Z_]{3,60})",
            "name",
            "instead",
            benign=True,
        ),
        _warning(
            "proxy",
            "roxy",
            r"(?:http_proxy|https_proxy|HTTP_PROXY|no_proxy).{0,60}"
            r"(?:is set|detected|may (?:block|affect|cause)|not set)",
        ),
        _warning(
            "undefined-symbol",
            "undefined symbol",
            # the loader's own line, or its words quoted alone; what a program caught stands behind
            # words of its own
            r"(?:symbol lookup error: .{1,300}|^[\s`*>#'\"]{0,8}[\w./+-]{1,300}\.so[\d.]{0,12}: )"
            r"undefined symbol: ?([\w@.]{1,200})",
            "symbol",
        ),
        _warning(
            "driver-too-old",
            "NVIDIA driver on your system is too old",
            r"NVIDIA driver on your system is too old \(found version (\d{1,6})\)",
            "found",
        ),
        _warning(
            "loopback-fallback",
            "loopback",
            r"[Uu]nable to resolve hostname to a \(?local\)? address\. Using the loopback"
            r"|[Uu]sing the loopback address as fallback",
        ),
        _warning(
            # said where the endpoint is left out and the back end is not static
            "master-addr-unused",
            "master_addr is only used for static rdzv_backend",
            r"master_addr is only used for static rdzv_backend",
        ),
        _warning(
            "thread-limit",
            "RLIMIT_NPROC",
            r"RLIMIT_NPROC (-?\d{1,12}) current",
            "limit",
        ),
    )
