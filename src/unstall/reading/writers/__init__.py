"""One module per writer: what PyTorch's C++ side, NCCL, launchers, engines and kernels print."""

from __future__ import annotations

from unstall.reading.line import Reader
from unstall.reading.writers.c10d import C10dReader
from unstall.reading.writers.dataloader import LoaderDeaths
from unstall.reading.writers.elastic import ElasticReports, ElasticSentences
from unstall.reading.writers.faulthandler import FatalSignals
from unstall.reading.writers.gloo import GlooReader
from unstall.reading.writers.kernel import KernelLog
from unstall.reading.writers.nccl2 import Nccl2Reader
from unstall.reading.writers.processes import ProcessEnds, ShellNotices
from unstall.reading.writers.python import Tracebacks
from unstall.reading.writers.schedulers import SchedulerLog, TaskEnds
from unstall.reading.writers.wrapper import WrapperReader

READERS: tuple[type[Reader], ...] = (
    C10dReader,
    Nccl2Reader,
    WrapperReader,
    GlooReader,
    ElasticReports,
    ElasticSentences,
    Tracebacks,
    ProcessEnds,
    ShellNotices,
    LoaderDeaths,
    FatalSignals,
    KernelLog,
    TaskEnds,
    SchedulerLog,
)
