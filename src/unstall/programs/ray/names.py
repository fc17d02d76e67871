"""Which ``RAY_`` variables are Ray's: scripts like to call their own so, too.

Source: the names that Ray 2.49.2's Python sources read (``_private/ray_constants.py``, ``serve``,
``train/v2``, ``dashboard`` …), as beginnings, and ``src/ray/common/ray_config_def.h``, whose
settings are ``RAY_`` and a name in small letters.
"""

from __future__ import annotations

_PREFIX = "RAY_"
_EXACT = frozenset(
    [
        "ADDRESS",
        "API_SERVER_ADDRESS",
        "BACKEND_LOG_JSON",
        "BACKEND_LOG_LEVEL",
        "COLOR_PREFIX",
        "LD_PRELOAD_ON_WORKERS",
        "LOGGER_LEVEL",
        "LOGGING_CONFIG_ENCODING",
        "MEMORY_MONITOR_ERROR_THRESHOLD",
        "NAMESPACE",
        "NUM_REDIS_GET_RETRIES",
        "OBJECT_STORE_ALLOW_SLOW_STORAGE",
        "PROFILING",
        "REDIS_ADDRESS",
        "SCHEDULER_EVENTS",
        "START_HOOK",
        "STORAGE",
        "TASK_MAX_RETRIES",
        "TMPDIR",
        "USE_MULTIPROCESSING_CPU_COUNT",
        "USE_RANDOM_PORTS",
        "USE_TLS",
    ]
)
_BEGINNINGS = (
    "AIR_",
    "AUTOSCALER_",
    "CGRAPH_",
    "CLIENT_",
    "DASHBOARD_",
    "DEBUG",
    "DEDUP_LOGS",
    "DEFAULT_",
    "DISABLE_",
    "ENABLE_",
    "EXPERIMENTAL_",
    "EXPORT_",
    "GRAFANA_",
    "IGNORE_",
    "JEMALLOC_",
    "JOB_",
    "LOG_MONITOR_",
    "LOG_TO_",
    "ON_SPARK_",
    "OVERRIDE_",
    "PROMETHEUS_",
    "ROTATION_",
    "RUNTIME_ENV",
    "SERVE_",
    "TLS_",
    "TRAIN_",
    "USAGE_STATS_",
    "WORKER_",
)


def may_read(name: str) -> bool:
    """Whether Ray has a variable of that name, or may have."""
    if not name.startswith(_PREFIX):
        return False
    rest = name[len(_PREFIX) :]
    return rest in _EXACT or rest.startswith(_BEGINNINGS) or rest[:1].islower()
