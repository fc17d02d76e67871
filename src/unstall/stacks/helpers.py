"""Threads that only serve the main one: progress bars, sockets, watchdogs."""

from __future__ import annotations

HELPER_THREADS = (
    "tqdm_monitor",
    "QueueFeederThread",
    "QueueManagerThread",
    "ExecutorManagerThread",
    "MPClientEngineMonitor",
    "EngineCoreOutputQueueThread",
    "MultiprocWorkerMonitor",
    "WorkerMonitor",
    "pt_",
    "pin_memory",
    "AsyncIO",
    "Heartbeat",
    "IntMsgThr",
    "MsgRouterThr",
    "NetStatThr",
    "SystemMonitor",
    "HandlerThread",
    "distributed.debug.",
)
"""Starts of the names of threads that only serve the main one (CPython, tqdm, vLLM 0.11, wandb,
torch 2.13)."""

HELPER_FRAMES = (
    ("TMonitor.run", "tqdm/_monitor.py"),
    ("_pin_memory_loop", "torch/utils/data/_utils/pin_memory.py"),
    ("Queue._feed", "multiprocessing/queues.py"),
    ("process_input_sockets", "vllm/v1/engine/core.py"),
    ("process_output_sockets", "vllm/v1/engine/core.py"),
    ("process_outputs_socket", "vllm/v1/engine/core_client.py"),
    ("monitor_engine_cores", "vllm/v1/engine/core_client.py"),
    ("_report_continous_usage", "vllm/usage/usage_lib.py"),
    ("_watchdog_thread", "sglang/srt/utils/watchdog.py"),
    ("watchdog_thread", "sglang/srt/managers/scheduler.py"),
    ("_read_thread", "torch/_inductor/compile_worker/subproc_pool.py"),
    ("PeriodicDumper._run", "torch/distributed/debug/_frontend.py"),
    ("_EventLoggerThread.run", "tensorboard/summary/writer/event_file_writer.py"),
    ("_AsyncWriterThread.run", "tensorboard/summary/writer/event_file_writer.py"),
    ("run_periodic", "torch/distributed/elastic/timer/file_based_local_timer.py"),
)
"""Frames of such threads: ``(function, end of file)``."""
