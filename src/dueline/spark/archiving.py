"""The process that writes the archive of Java's classes: once per machine, at a low priority.

`python -m dueline.spark.archiving` starts a session of its own, does what a pipeline does first and
ends; Java writes the archive at its end (`class_archive`). The pipeline starts it when it has been
at work for a while, and takes it along when it ends: no stop of a broker waits for it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from dueline.spark.class_archive import archive_for
from dueline.spark.session import SessionOptions, close_session, open_session
from dueline.spark.warming import start_workers

__all__ = ["Archiving", "main"]

_QUERY_S_MAX: Final = 120


class Archiving:
    """The process, from the one that is the pipeline."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it, if there is an archive to be written."""
        archive = archive_for(Path(os.environ["JAVA_HOME"]), os.environ)
        if archive is None or archive.path.exists():
            return
        with self._lock, contextlib.suppress(OSError):
            if not self._is_stopped:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "dueline.spark.archiving"],
                    stdin=subprocess.PIPE,  # closed when we die, however suddenly
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )

    def wait(self) -> bool:
        """Wait for its end; False if it has failed."""
        return self._process is None or self._process.wait() == 0

    def stop(self) -> None:
        """End it and all that it has started, at once."""
        with self._lock:
            self._is_stopped = True
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def main() -> int:
    """The process; it ends with its parent."""
    os.nice(10)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    session = open_session(SessionOptions(master="local[1]", keeps_classes=True))
    _exercise(session)
    close_session(session)
    return 0


def _exercise(session: SparkSession) -> None:
    """Have Java load what a pipeline needs: a query of batches, and Python workers."""
    start_workers(session)
    with tempfile.TemporaryDirectory(prefix="dueline-checkpoint-") as folder:
        stream = session.readStream.format("rate").load().writeStream.format("noop")
        query = stream.option("checkpointLocation", folder).trigger(availableNow=True).start()
        query.awaitTermination(_QUERY_S_MAX)


def _end_with_parent() -> None:
    # Not by `sys.stdin`, whose lock would be held when the interpreter ends.
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
