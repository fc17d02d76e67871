"""What programs print while they work, and by which they are known."""

from __future__ import annotations

from unstall.model.facts.base import Fact


class Progress(Fact, frozen=True, kw_only=True):
    """A progress bar's state (tqdm and the like). Times in seconds.

    Attributes:
        label: text before the bar.
        unit_rate: units a second, where told.
    """

    label: str = ""
    done: int | None = None
    total: int | None = None
    percent: float | None = None
    elapsed: float | None = None
    remaining: float | None = None
    unit_rate: float | None = None


class TrainingStep(Fact, frozen=True, kw_only=True):
    """A step's metrics line: ``{'loss': …}``, ``step:6 - …``, ``iteration 12/ 100``.

    Attributes:
        metrics: name to number.
    """

    step: int | None = None
    metrics: dict[str, float] = {}


class Phase(Fact, frozen=True, kw_only=True):
    """A line that tells what a program is doing.

    Attributes:
        kind: ``tokenize``, ``load-data``, ``load-model``, ``save``, ``evaluate``, ``generate``,
            ``reward``, ``weight-sync``, ``compile``, ``graph-capture``, ``init``, ``train``,
            ``end``.
        finished: whether it says that the phase ended.
        detail: name of the file, key or object concerned.
    """

    kind: str
    finished: bool = False
    detail: str = ""


class EngineLoad(Fact, frozen=True, kw_only=True):
    """An inference engine's periodic statistics.

    Attributes:
        engine: data-parallel engine number.
        running, waiting: requests.
        throughput: generated tokens a second.
    """

    engine: int | None = None
    running: int | None = None
    waiting: int | None = None
    throughput: float | None = None


class EngineNotice(Fact, frozen=True, kw_only=True):
    """An inference engine's own words about its health.

    Attributes:
        kind: ``broadcast-idle`` (shm_broadcast: no block found), ``engine-dead``,
            ``worker-died``, ``request-failed``, ``watchdog`` (SGLang's), ``rpc-timeout``.
    """

    kind: str
    detail: str = ""


class HttpExchange(Fact, frozen=True, kw_only=True):
    """One HTTP request in a server's or client's log.

    Attributes:
        status: HTTP status, ``None`` for a failure to reach the server.
        error: ``timeout``, ``refused``, ``reset``, ``proxy``.
    """

    method: str = ""
    url: str = ""
    status: int | None = None
    error: str | None = None


class Identity(Fact, frozen=True, kw_only=True):
    """A line by which software shows itself.

    Attributes:
        software: name as in ``unstall.programs``.
        role: role where the line implies one.
        version: version where the line gives it.
        settings: settings that the line prints (``tensor_parallel_size`` …), as strings.
    """

    software: str
    role: str | None = None
    version: str | None = None
    settings: dict[str, str] = {}


class PackageVersion(Fact, frozen=True, kw_only=True):
    """``torch==2.8.0`` and its other spellings."""

    name: str
    version: str


class EnvironmentValue(Fact, frozen=True, kw_only=True):
    """An environment variable's value as a log printed it."""

    name: str
    value: str


class WarningLine(Fact, frozen=True, kw_only=True):
    """A warning that matters to a cause or that users often mistake for one.

    Attributes:
        topic: ``sequence-too-long``, ``find-unused-parameters``, ``barrier-device``,
            ``omp-threads``, ``oversubscribed``, ``numa``, ``version``, ``proxy``, …
    """

    topic: str
    values: dict[str, str] = {}


class Remark(Fact, frozen=True, kw_only=True):
    """A person's note about the run: no output for 3 h, GPUs at 0 %, devices used.

    Attributes:
        topic: ``no-output``, ``gpu-idle``, ``gpu-busy``, ``devices``, ``version``,
            ``several-nodes``, ``slow-data``, ``slow-rollout``, ``collective-timeout``,
            ``setting-works`` (``name``, ``value``), ``data-ended`` (``rank``, before the others),
            ``after-adding`` and ``works-now`` (above and below a block of settings),
            ``complaint`` (that it failed, without more), ``ranks-apart`` (``mine``, ``other``: the
            collectives of two parties; ``rank``: of the first),
            ``worked-before``, ``mixed-data`` (samples that use different modules), ``stuck`` (that
            it stands still, without more), ``p2p-off-works``.
        values: what was said: ``hours``, ``devices``, …
    """

    topic: str
    values: dict[str, str] = {}


class Mention(Fact, frozen=True, kw_only=True):
    """An address that names software: the report stands in its tracker, or links to it.

    It says less than the software's own lines: a report about a trainer may link to a server's
    tracker. One fact for each software and source.
    """

    software: str
    role: str | None = None
