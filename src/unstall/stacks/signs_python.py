"""What frames of Python's own library and of the C library tell.

Sources: CPython 3.11, glibc 2.36. Rows that were checked on running processes say ``run``.
"""

from __future__ import annotations

from unstall.stacks.rows import PRIMITIVE, FrameSign

SIGNS: tuple[FrameSign, ...] = (
    # waits inside one host
    FrameSign(
        ("Queue.get", "Queue.join", "SimpleQueue.get"), "queue.py", "queue", source="CPython (run)"
    ),
    FrameSign(("Queue.put",), "queue.py", "queue", source="CPython: a bounded queue is full"),
    FrameSign(
        ("Queue.get", "SimpleQueue.get", "Queue.put"),
        "multiprocessing/queues.py",
        "queue",
        source="CPython",
    ),
    FrameSign(
        (
            "_ConnectionBase.recv",
            "_ConnectionBase.send",
            "Connection._send",
            "_ConnectionBase.recv_bytes",
            "_ConnectionBase.poll",
            "Connection._recv",
            "wait",
        ),
        "multiprocessing/connection.py",
        "pipe",
        source="CPython (run)",
    ),
    FrameSign(
        (
            "AsyncResult.get",
            "ApplyResult.get",
            "ApplyResult.wait",
            "IMapIterator.next",
            "Pool.map",
            "Pool.join",
        ),
        "multiprocessing/pool.py",
        "process",
        source="CPython: waits for the processes of a pool",
    ),
    FrameSign(
        (
            "Popen.wait",
            "Popen.poll",
            "Popen._wait",
            "Popen._try_wait",
            "Popen.communicate",
            "Popen._communicate",
        ),
        "subprocess.py",
        "process",
        source="CPython (run)",
    ),
    FrameSign(
        ("BaseProcess.join",), "multiprocessing/process.py", "process", source="CPython (run)"
    ),
    FrameSign(
        ("Popen.wait", "Popen.poll"),
        "multiprocessing/popen_fork.py",
        "process",
        source="CPython (run)",
    ),
    FrameSign(
        ("ProcessContext.join", "start_processes"),
        "torch/multiprocessing/spawn.py",
        "process",
        source="torch, multiprocessing/spawn.py",
    ),
    FrameSign(
        ("wait4", "waitpid", "waitid", "wait3", "os_waitpid"),
        "",
        "process",
        native=True,
        source="libc (run)",
    ),
    FrameSign(
        (
            "_MultiProcessingDataLoaderIter._try_get_data",
            "_MultiProcessingDataLoaderIter._get_data",
        ),
        "torch/utils/data/dataloader.py",
        "queue",
        source="torch, dataloader.py: waits for a batch from its loader processes",
    ),
    FrameSign(
        ("Thread.join", "Thread._wait_for_tstate_lock"),
        "threading.py",
        "lock",
        level=PRIMITIVE,
        follows=True,
        source="CPython: waits for another thread of the process",
    ),
    FrameSign(
        (
            "Condition.wait",
            "Condition.wait_for",
            "Event.wait",
            "Semaphore.acquire",
            "Barrier.wait",
            "_RLock.acquire",
        ),
        "threading.py",
        "lock",
        level=PRIMITIVE,
        source="CPython (run)",
    ),
    FrameSign(
        ("Future.result", "wait", "as_completed"),
        "concurrent/futures/_base.py",
        "lock",
        level=PRIMITIVE,
        follows=True,
        source="CPython: waits for another thread or process of an executor",
    ),
    FrameSign(
        (
            "lock_PyThread_acquire_lock",
            "PyThread_acquire_lock_timed",
            "rlock_acquire",
            "lock_acquire",
        ),
        "",
        "lock",
        level=PRIMITIVE,
        native=True,
        source="CPython, _threadmodule.c (run)",
    ),
    FrameSign(
        ("take_gil", "PyEval_RestoreThread", "PyGILState_Ensure", "drop_gil"),
        "",
        "lock",
        native=True,
        source="CPython, ceval_gil.c: waits for the GIL",
    ),
    FrameSign(
        ("pthread_mutex_lock", "__lll_lock_wait", "__lll_lock_wait_private"),
        "",
        "lock",
        level=PRIMITIVE,
        native=True,
        source="glibc",
    ),
    FrameSign(
        ("time_sleep", "clock_nanosleep", "nanosleep", "usleep", "__nanosleep"),
        "",
        "sleep",
        native=True,
        source="CPython, timemodule.c; libc (run)",
    ),
)
