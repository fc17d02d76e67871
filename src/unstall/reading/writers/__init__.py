"""One module per writer: what PyTorch's C++ side, NCCL, launchers, engines and kernels print."""

from __future__ import annotations

from unstall.reading.line import Reader
from unstall.reading.writers.arguments import RefusedArguments
from unstall.reading.writers.c10d import C10dReader
from unstall.reading.writers.cuda import CudaReader
from unstall.reading.writers.dataloader import LoaderDeaths
from unstall.reading.writers.elastic import ElasticReports, ElasticSentences
from unstall.reading.writers.environment import EnvironmentValues
from unstall.reading.writers.faulthandler import FatalSignals
from unstall.reading.writers.gloo import GlooReader
from unstall.reading.writers.hccl import HcclReader
from unstall.reading.writers.http import HttpExchanges
from unstall.reading.writers.identity import Identities, LoggerNames, MegatronArguments
from unstall.reading.writers.kernel import KernelLog
from unstall.reading.writers.limits import HostMemoryFigures, Limits
from unstall.reading.writers.mentions import MentionReader
from unstall.reading.writers.nccl import NcclReader
from unstall.reading.writers.nccl2 import Nccl2Reader
from unstall.reading.writers.nccl_errors import NcclErrorReader
from unstall.reading.writers.packages import PackageVersions
from unstall.reading.writers.phases import Phases
from unstall.reading.writers.ports import PortsTaken
from unstall.reading.writers.processes import ProcessEnds, ShellNotices
from unstall.reading.writers.processlist import ProcessLists
from unstall.reading.writers.progress import ProgressBars
from unstall.reading.writers.python import Tracebacks
from unstall.reading.writers.ray import DeadWorkers, RayEvents
from unstall.reading.writers.schedulers import SchedulerLog, TaskEnds
from unstall.reading.writers.sglang import SchedulerLoads, SchedulerNotices
from unstall.reading.writers.store import StoreReader
from unstall.reading.writers.terminate import Terminations
from unstall.reading.writers.training import TrainingSteps
from unstall.reading.writers.trtllm import HangDetectors
from unstall.reading.writers.vllm import EngineLoads, EngineNotices
from unstall.reading.writers.warnings_ import Warnings
from unstall.reading.writers.wrapper import WrapperReader

READERS: tuple[type[Reader], ...] = (
    C10dReader,
    Nccl2Reader,
    WrapperReader,
    GlooReader,
    HcclReader,
    StoreReader,
    PortsTaken,
    NcclReader,
    NcclErrorReader,
    CudaReader,
    ElasticReports,
    ElasticSentences,
    Tracebacks,
    RefusedArguments,
    ProcessEnds,
    ShellNotices,
    ProcessLists,
    LoaderDeaths,
    FatalSignals,
    Terminations,
    KernelLog,
    TaskEnds,
    SchedulerLog,
    ProgressBars,
    TrainingSteps,
    EngineNotices,
    EngineLoads,
    SchedulerLoads,
    SchedulerNotices,
    HangDetectors,
    DeadWorkers,
    RayEvents,
    Limits,
    HostMemoryFigures,
    Phases,
    HttpExchanges,
    PackageVersions,
    EnvironmentValues,
    Warnings,
    Identities,
    LoggerNames,
    MegatronArguments,
    MentionReader,
)
