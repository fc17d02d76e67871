"""What frames of common libraries tell: HTTP clients, zmq, Ray, files, data sets, tokenizers.

Frameworks have their own rows in ``unstall/programs/<framework>/stacks.py``.

Sources: requests 2.34, urllib3 2.8, httpx 0.28, aiohttp 3.14; pyzmq 27; ray 2; torch 2.13
(``serialization.py``, ``checkpoint/filesystem.py``); datasets 3.6; transformers 4.57. Rows
that were checked on running processes say ``run``.
"""

from __future__ import annotations

from unstall.stacks.rows import PRIMITIVE, WORK, FrameSign

SIGNS: tuple[FrameSign, ...] = (
    # network
    FrameSign(
        ("Session.send", "Session.request"),
        "requests/sessions.py",
        "http",
        source="requests 2.34",
    ),
    FrameSign(("HTTPAdapter.send",), "requests/adapters.py", "http", source="requests 2.34"),
    FrameSign(
        ("HTTPConnectionPool.urlopen", "HTTPConnectionPool._make_request"),
        "urllib3/connectionpool.py",
        "http",
        source="urllib3 2.8",
    ),
    FrameSign(
        (
            "HTTPConnection.getresponse",
            "HTTPResponse.begin",
            "HTTPResponse._read_status",
            "HTTPResponse.read",
        ),
        "http/client.py",
        "http",
        source="CPython (run)",
    ),
    FrameSign(("urlopen", "OpenerDirector.open"), "urllib/request.py", "http", source="CPython"),
    FrameSign(
        ("Client.send", "Client.request", "AsyncClient.send", "AsyncClient.request"),
        "httpx/_client.py",
        "http",
        source="httpx 0.28",
    ),
    FrameSign(
        ("HTTP11Connection.handle_request", "ConnectionPool.handle_request"),
        "",
        "http",
        source="httpcore 1.0",
    ),
    FrameSign(("ClientSession._request",), "aiohttp/client.py", "http", source="aiohttp 3.14"),
    FrameSign(
        ("_UnaryUnaryMultiCallable.__call__", "_UnaryUnaryMultiCallable._blocking"),
        "grpc/_channel.py",
        "http",
        source="grpcio",
    ),
    FrameSign(
        (
            "SocketIO.readinto",
            "socket.accept",
            "create_connection",
        ),
        "socket.py",
        "http",
        level=PRIMITIVE,
        source="CPython (run)",
    ),
    FrameSign(
        ("SSLSocket.read", "SSLSocket.recv_into", "SSLSocket.recv"),
        "ssl.py",
        "http",
        level=PRIMITIVE,
        source="CPython",
    ),
    FrameSign(
        ("Poller.poll",),
        "zmq/sugar/poll.py",
        "queue",
        source="pyzmq (run)",
    ),
    FrameSign(
        (
            "Socket.recv",
            "Socket.recv_multipart",
            "Socket.recv_pyobj",
            "Socket.recv_string",
            "Socket.poll",
            "Socket.send",
        ),
        "zmq/sugar/socket.py",
        "queue",
        source="pyzmq 27",
    ),
    FrameSign(
        ("_PollLikeSelector.select", "EpollSelector.select", "SelectSelector.select"),
        "selectors.py",
        "pipe",
        level=PRIMITIVE,
        source="CPython (run)",
    ),
    FrameSign(
        ("run", "Runner.run"),
        "asyncio/runners.py",
        "queue",
        directly=True,
        source="CPython with uvloop, whose loop has no Python frames",
    ),
    FrameSign(
        ("BaseEventLoop._run_once",),
        "asyncio/base_events.py",
        "queue",
        directly=True,
        source="CPython: an event loop without work, as in an idle server",
    ),
    # ray
    FrameSign(
        ("get", "wait", "Worker.get_objects"),
        "ray/_private/worker.py",
        "queue",
        source="ray 2, _private/worker.py",
    ),
    FrameSign(
        ("Worker.main_loop",),
        "ray/_private/worker.py",
        "queue",
        directly=True,
        source="ray 2, _private/worker.py: an actor without a task",
    ),
    # disk
    FrameSign(
        ("save", "_save", "_legacy_save", "load", "_load"),
        "torch/serialization.py",
        "disk",
        source="torch, serialization.py",
    ),
    FrameSign(("save_file", "load_file"), "safetensors/torch.py", "disk", source="safetensors"),
    FrameSign(
        ("FileSystemWriter.write_data", "_write_files_from_queue", "_write_item"),
        "torch/distributed/checkpoint/filesystem.py",
        "disk",
        source="torch 2.13, checkpoint/filesystem.py",
    ),
    FrameSign(
        ("copyfile", "copyfileobj", "copytree", "rmtree", "move", "_fastcopy_sendfile"),
        "shutil.py",
        "disk",
        source="CPython",
    ),
    FrameSign(
        (
            "os_fsync",
            "os_write",
            "fsync",
            "fdatasync",
            "_io_FileIO_write",
            "_Py_write",
            "pwrite64",
            "os_fsync_impl",
        ),
        "",
        "disk",
        native=True,
        source="CPython, posixmodule.c and fileio.c; libc",
    ),
    FrameSign(
        ("write", "__write", "writev", "pwrite", "read", "__read", "pread64", "readv"),
        "",
        "disk",
        level=PRIMITIVE,
        native=True,
        source="libc (run): a file, or a pipe that nobody empties",
    ),
    FrameSign(
        ("FileLock.acquire", "BaseFileLock.acquire"),
        "filelock/_api.py",
        "lock",
        source="filelock: another process holds the file",
    ),
    FrameSign(
        ("acquire",),
        "filelock/_core/_lock.py",
        "lock",
        source="filelock 4: another process holds the file",
    ),
    # work
    FrameSign(
        ("Dataset._map_single", "Dataset.map", "Dataset.filter"),
        "datasets/arrow_dataset.py",
        "computing",
        level=WORK,
        source="datasets 3.6, arrow_dataset.py",
    ),
    FrameSign(
        ("iflatmap_unordered",),
        "datasets/utils/py_utils.py",
        "process",
        source="datasets, utils/py_utils.py: waits for the processes of map(num_proc=…)",
    ),
    FrameSign(
        (
            "PreTrainedTokenizerBase.__call__",
            "PreTrainedTokenizerFast._batch_encode_plus",
            "PreTrainedTokenizerFast._encode_plus",
        ),
        "",
        "computing",
        level=WORK,
        source="transformers 4.57, tokenization_utils_base.py",
    ),
    FrameSign(
        ("_engine_run_backward",),
        "torch/autograd/graph.py",
        "computing",
        level=WORK,
        source="torch 2.13, autograd/graph.py",
    ),
)
