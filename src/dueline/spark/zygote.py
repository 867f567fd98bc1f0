"""The process that Spark's Python processes are forked from, with what they need already loaded.

Spark starts six Python programs for one query, one after the other: to look data sources up, to
create, plan and write to ours, its source and its sink, and those that run tasks. Each of them
would load Arrow, numpy, PySpark (out of a zip file, compiled anew each time) and Dueline before it
answers. Here that is done once, while Java starts, and every process shares the memory of it:

    zygote  ◀── spawn.py, started by Java in place of `python`: arguments, environment, files
      └─ fork ──▶ python -m module …

What is loaded here must not leave a lock taken in a thread that a fork does not copy. numpy is told
to start none; Arrow's one thread belongs to an allocator that knows about forks.

`Zygote` starts it, and it ends when its standard input does: with the process that started it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from dueline.spark import spawn

__all__ = ["PRELOADED", "Zygote", "main"]

PRELOADED: Final = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "dueline.spark.reader",
    "dueline.spark.source",
    "dueline.spark.writer",
)
_REQUEST_SIZE_MAX: Final = 16 << 20
_SOCKET_PATH_SIZE_MAX: Final = 100


class Zygote:
    """The zygote of this process; what Spark has to start for a Python is `python`."""

    def __init__(self) -> None:
        """Start it; it loads what is to be loaded while others do something else.

        Raises:
            OSError: there is no place for its socket, or it cannot be started.
        """
        folder = Path(tempfile.mkdtemp(prefix="dueline-python-"))
        path = folder / "socket"
        if len(bytes(path)) > _SOCKET_PATH_SIZE_MAX:
            folder.rmdir()
            raise OSError(f"the name of the folder for temporary files is too long: {folder}")
        self.python: Final = folder / "python"
        words = (sys.executable, "-I", "-S", spawn.__file__, path, sys.executable)
        line = " ".join(shlex.quote(str(word)) for word in words)
        self.python.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        self.python.chmod(0o700)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            listener.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dueline.spark.zygote", str(listener.fileno())],
                stdin=subprocess.PIPE,  # closed when we die, however suddenly
                pass_fds=[listener.fileno()],
                env={"OPENBLAS_NUM_THREADS": "1", **os.environ},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """End it; what was forked from it goes on."""
        self._process.kill()
        self._process.communicate()


def main(descriptor: int) -> NoReturn:
    """The process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in PRELOADED:
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection would write to every object, and what is written to is not shared
    _Forks(socket.socket(fileno=descriptor)).run()


class _Forks:
    """The processes that were asked for, and those who asked."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._clients: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._ended, wake = os.pipe()
        for end in (self._ended, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._watch(listener, self._accept)
        self._watch(self._ended, self._reap)
        self._watch(0, self._end_with_parent)

    def run(self) -> NoReturn:
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _watch(self, file: int | socket.socket, call: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, call)

    def _end_with_parent(self) -> None:
        if not os.read(0, 4096):
            os._exit(0)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        with contextlib.suppress(OSError, ValueError, EOFError):
            arguments, environ, folder, files = _received(client)
            pid = os.fork()
            if pid == 0:
                self._become(client, arguments, environ, folder, files)
            for each in files:
                os.close(each)
            self._clients[pid] = client
            self._watch(client, lambda: self._gone(pid))
            return
        client.close()

    def _become(
        self,
        client: socket.socket,
        arguments: list[str],
        environ: dict[str, str],
        folder: str,
        files: list[int],
    ) -> NoReturn:
        """In the new process: be what was asked for."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for each in (self._listener, client, *self._clients.values()):
            each.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = arguments
        sys.path[0] = folder  # as `python -m` has it
        # Spark's zip files too, but last: the same modules are installed, and compiled.
        more = environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path += [each for each in more if each and each not in sys.path]
        status = 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the module is loaded already
                runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001 - the end of a process
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _gone(self, pid: int) -> None:
        """The asker was ended: so is what it asked for."""
        client = self._clients[pid]
        self._selector.unregister(client)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._ended, 4096)
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._tell(pid, os.waitstatus_to_exitcode(status))

    def _tell(self, pid: int, code: int) -> None:
        client = self._clients.pop(pid, None)
        if client is None:
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(client)
        with contextlib.suppress(OSError):
            client.sendall((code if code >= 0 else 128 - code).to_bytes(spawn.STATUS_SIZE, "big"))
        client.close()


def _received(client: socket.socket) -> tuple[list[str], dict[str, str], str, list[int]]:
    """One request; raises for what is none."""
    size, files, _, _ = socket.recv_fds(client, 4, 3)
    count = int.from_bytes(size, "big")
    if len(size) != 4 or len(files) != 3 or count > _REQUEST_SIZE_MAX:
        raise ValueError("not a request of spawn.py")
    data = bytearray()
    while len(data) < count:
        part = client.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    arguments, environ, folder = marshal.loads(bytes(data))
    return arguments, environ, folder, files


if __name__ == "__main__":
    main(int(sys.argv[1]))
