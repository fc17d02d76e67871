"""Waits for one thing, named by its first argument, until it is killed."""

import http.server
import multiprocessing
import os
import queue
import subprocess
import sys
import threading
import time
import urllib.request


def for_queue() -> None:
    queue.Queue().get()


def for_pipe() -> None:
    mine, _theirs = multiprocessing.Pipe()
    mine.recv()


def for_lock() -> None:
    held = threading.Lock()
    held.acquire()
    threading.Event().wait() if len(sys.argv) > 2 else held.acquire()


def for_event() -> None:
    threading.Event().wait()


def for_sleep() -> None:
    time.sleep(60)


def for_process() -> None:
    subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"])


def for_http() -> None:
    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(60)

    server = http.server.HTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
    urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/generate/")


def for_disk() -> None:
    # A pipe that nobody empties stands for a file system that has stopped.
    _reading, writing = os.pipe()
    with open(writing, "wb", buffering=0) as checkpoint:
        while True:  # a debugger that attaches interrupts the call
            checkpoint.write(b"0" * (1 << 22))


def for_computing() -> None:
    number = 1
    while True:
        number = (number * 3) % 1000003


print("ready", flush=True)
globals()[f"for_{sys.argv[1]}"]()
