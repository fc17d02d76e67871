"""NCCL calls that failed, with NCCL's last words on further lines."""

# ruff: noqa: E501 - log lines as they were written
from __future__ import annotations

from collections.abc import Callable

import pytest

from unstall.model.facts import Fact, NcclError, PeerLost
from unstall.reading.line import Reader
from unstall.reading.writers.nccl_errors import NcclErrorReader

Read = Callable[[type[Reader], str], list[Fact]]

STRINGS = {
    "unhandled cuda error": "ncclUnhandledCudaError",
    "unhandled system error": "ncclSystemError",
    "internal error - please report this issue to the NCCL developers": "ncclInternalError",
    "invalid argument": "ncclInvalidArgument",
    "invalid usage": "ncclInvalidUsage",
    "remote process exited or there was a network error": "ncclRemoteError",
}


@pytest.mark.parametrize("words", STRINGS)
def test_every_result(read: Read, words: str) -> None:
    """The form of PyTorch, with the hint and the version."""
    text = (
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: ../c10d/NCCLUtils.hpp:317, "
        f"{words} (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5"
    )
    (fact,) = read(NcclErrorReader, text)
    assert isinstance(fact, NcclError)
    assert (fact.result, fact.version, fact.speaker.rank) == (STRINGS[words], "2.21.5", 1)


def test_last_words_and_where(read: Read) -> None:
    """Two ranks' tracebacks in turn: each keeps its own last words."""
    text = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/app/a.py", line 88, in build\n'
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: /x.hpp:3, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\n"
        "[rank3]: torch.distributed.DistBackendError: NCCL error in: /x.hpp:3, remote process exited or there was a network error, NCCL version 2.27.3\n"
        "[rank1]: ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \n"
        "[rank1]: Last error:\n"
        "[rank3]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
        "[rank3]: Last error:\n"
        "[rank1]: Error while creating shared memory segment /dev/shm/nccl-q (size 9637888)\n"
        "[rank3]: socketProgress: Connection closed by remote peer hostb<40931>\n"
    )
    facts = read(NcclErrorReader, text)
    errors = [f for f in facts if isinstance(f, NcclError)]
    assert [(f.speaker.rank, f.result, f.last_error, f.where) for f in errors] == [
        (
            1,
            "ncclSystemError",
            "Error while creating shared memory segment /dev/shm/nccl-q (size 9637888)",
            "/app/a.py:88 build",
        ),
        (
            3,
            "ncclRemoteError",
            "socketProgress: Connection closed by remote peer hostb<40931>",
            None,
        ),
    ]
    (lost,) = [f for f in facts if isinstance(f, PeerLost)]
    assert (lost.speaker.rank, lost.peer, lost.remote_error) == (3, "hostb<40931>", True)


def test_watchdogs_error_and_its_copy_in_what(read: Read) -> None:
    """C++ continuation lines carry no rank."""
    record = "Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.20.5"
    after = "ncclRemoteError: A call failed possibly due to a network error.\nLast error:\nNET/IB : Got completion from peer 10.4.1.32<487> with status=12\n"
    text = f"[rank6]:[E819 03:07:52.1 P.cpp:1] [PG 0 Rank 6] {record}\n{after}  what():  [PG 0 Rank 6] {record}\n{after}"
    error, lost = read(NcclErrorReader, text)
    assert isinstance(error, NcclError)
    assert (error.speaker.rank, error.copies) == (6, 2)
    assert error.last_error == "NET/IB : Got completion from peer 10.4.1.32<487> with status=12"
    assert isinstance(lost, PeerLost)
    assert lost.peer == "10.4.1.32<487>"


def test_two_programs_errors_are_two(read: Read) -> None:
    """Trainer and server print the same sentence, each under a traceback of its own."""
    text = (
        "Traceback (most recent call last):\n"
        '  File "/a/trainer.py", line 9, in init\n'
        "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)\n"
        'ERROR 05-22 20:16:41 [core.py:390]   File "/b/serve.py", line 98, in open\n'
        "ERROR 05-22 20:16:41 [core.py:390] RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)\n"
    )
    facts = [f for f in read(NcclErrorReader, text) if isinstance(f, NcclError)]
    assert [f.where for f in facts] == ["/a/trainer.py:9 init", "/b/serve.py:98 open"]


def test_nccl2_and_cupy(read: Read) -> None:
    """Other writers of the same results."""
    text = (
        "[rank2]:[E304 11:32:33.1 P.cpp:1] [TC][rank=2][name=0] nccl hit async error on rank 2: unhandled cuda error\n"
        "cupy_backends.cuda.libs.nccl.NcclError: NCCL_ERROR_INVALID_USAGE: invalid usage\n"
    )
    assert [f.result for f in read(NcclErrorReader, text) if isinstance(f, NcclError)] == [
        "ncclUnhandledCudaError",
        "ncclInvalidUsage",
    ]


def test_prose_is_no_error(read: Read) -> None:
    """A question that says NCCL error names no result."""
    assert read(NcclErrorReader, "Has anyone seen this NCCL error before?") == []


def test_last_words_behind_a_loggers_header(read: Read) -> None:
    head = "ERROR 03-19 10:48:40 worker_base.py:145] "
    text = (
        f"{head}torch.distributed.DistBackendError: NCCL error in: /x.hpp:3, unhandled system error\n"
        f"{head}Last error:\n"
        f"{head}Call to ibv_modify_qp failed with error Connection timed out\n"
    )
    error = next(fact for fact in read(NcclErrorReader, text) if isinstance(fact, NcclError))
    assert error.last_error == "Call to ibv_modify_qp failed with error Connection timed out"
