"""A Spark session that is tuned for small, frequent batches.

Spark's defaults are made for jobs of minutes. The delivery query runs a job of a fifth of a second
again and again, so what Spark does beside the job is what costs. `SETTINGS` says what is changed
and why; any of them can be overridden.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import string
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from dueline.credentials import TOKEN, Credentials
from dueline.spark.class_archive import archive_for
from dueline.spark.java import prepare_java
from dueline.spark.registration import register
from dueline.spark.zygote import Zygote
from dueline.tls import CA, SERVER_NAME, SYSTEM, ClientTls

__all__ = ["SETTINGS", "SessionOptions", "close_session", "open_session"]

_PYTHON: Final = "PYSPARK_PYTHON"
_SHUFFLE: Final = "spark.sql.shuffle.partitions"
_SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_PLAIN_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "._-/")
_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MaxNewSize=96m"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_CHECKPOINTING: Final = "org.apache.spark.sql.execution.streaming.checkpointing"

SETTINGS: Final[Mapping[str, str]] = {
    # Two files are written per batch. Without native Hadoop libraries, Hadoop's usual local file
    # system starts a `chmod` process for each and keeps a checksum file beside it. The raw one,
    # called through the older interface, just writes: 16 ms per batch instead of 80 ms (measured).
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # A plan that is made anew five times a second is not worth adapting while it runs.
    "spark.sql.adaptive.enabled": "false",
    # Waiting for something to do happens at the broker, so Spark need not wait as well.
    "spark.sql.streaming.pollingDelay": "1ms",
    # Larger batches between Java and Python: fewer round trips; rows are a few hundred bytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    # A batch of large messages must fit into the heap's share of direct memory several times.
    "spark.sql.execution.arrow.maxBytesPerBatch": "32MB",
    # What finished jobs leave behind in the driver's memory.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.log.level": "ERROR",
}

log = logging.getLogger(__name__)


PRIVATE: Final[Mapping[str, str]] = {
    # Spark listens on loopback for itself; other users of the machine have no business there. With
    # a local master it makes a secret for each start. Costs nothing that can be measured (13 s of
    # Java's processor time until the first jobs are done, with and without).
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
"""For a session on this machine. A cluster must have the same secret on all of its machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Where the query's tasks run, and with how much memory."""

    master: str = "local[*]"
    heap: str = "512m"
    conf: Mapping[str, str] = field(default_factory=dict)
    keeps_classes: bool = False
    """Java is to write its classes to the archive when `close_session` ends it."""

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")


def open_session(options: SessionOptions) -> SparkSession:
    """Start Spark (some seconds) with the data source `dueline`.

    Raises:
        JavaNotFound: there is no Java to run it.
    """
    java = prepare_java(os.environ)
    java.apply(os.environ)
    settings = {**SETTINGS, **_placed(options, java.home), **_trusted(options), **options.conf}
    with _python_for(options):
        _start_java({**settings, "spark.master": options.master})
        builder = SparkSession.builder.master(options.master).appName("dueline delivery")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    if _SHUFFLE not in options.conf:
        # 200 by default: as many tasks, each with its Python workers, for a handful of rows.
        session.conf.set(_SHUFFLE, session.sparkContext.defaultParallelism)
    register(session)
    return session


@contextlib.contextmanager
def _python_for(options: SessionOptions) -> Iterator[None]:
    """Tasks here run on the Python that we run on: the first on PATH need not have Dueline.

    They are forked from a process that has loaded what they need. Who has chosen a Python for them
    gets that one. Spark asks the environment for it, when Java and the session start.
    """
    given = os.environ.get(_PYTHON)
    if not options.is_local or given not in (None, sys.executable):
        yield
        return
    os.environ[_PYTHON] = sys.executable
    try:
        os.environ[_PYTHON] = str(_zygote().python)
    except OSError as error:
        log.warning("Spark's Python processes start one by one: %s", error)
    try:
        yield
    finally:
        os.environ[_PYTHON] = sys.executable


@cache
def _zygote() -> Zygote:
    """The one of this process; it ends with it."""
    return Zygote()


def close_session(session: SparkSession) -> None:
    """Stop Spark and Java; the process can start no other session after it."""
    gateway = session.sparkContext._gateway
    session.stop()
    archive = archive_for(Path(os.environ["JAVA_HOME"]), os.environ)
    if archive is not None and gateway is not None:
        archive.keep(gateway.proc)


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Java with the settings in a file that only this user can read.

    By itself PySpark writes them on Java's command line, passwords too, for every user to see. The
    file is gone when this returns: Java has read it before it answers.
    """
    if SparkContext._gateway is not None:
        return  # it runs already, and takes settings over its socket
    with tempfile.NamedTemporaryFile("w", prefix="dueline-", suffix=".conf") as file:
        file.write("".join(f"{_escaped(k)}={_escaped(v)}\n" for k, v in settings.items()))
        file.flush()
        given = os.environ.get(_SUBMIT_ARGUMENTS)
        words = f"--properties-file {shlex.quote(file.name)} --load-spark-defaults"
        os.environ[_SUBMIT_ARGUMENTS] = f"{words} {given or 'pyspark-shell'}"
        try:
            SparkContext._ensure_initialized()
        finally:
            if given is None:
                del os.environ[_SUBMIT_ARGUMENTS]
            else:
                os.environ[_SUBMIT_ARGUMENTS] = given


def _escaped(text: str) -> str:
    """Text in a Java properties file, where many characters mean something.

    >>> _escaped("a=b c")
    'a\\\\u003db\\\\u0020c'
    """
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "".join(
        chr(code) if chr(code) in _PLAIN_CHARACTERS else f"\\u{code:04x}" for code in codes
    )


def _trusted(options: SessionOptions) -> dict[str, str]:
    """What tasks on other machines need to be let in as the driver is: not its files.

    Spark hands it over in their environment, and hides what is called a token in logs and pages.
    """
    if options.is_local:
        return {}
    found: dict[str, str | None] = {}
    tls = ClientTls.from_environment(os.environ)
    if tls is not None:
        found |= {CA: tls.authorities() or SYSTEM, SERVER_NAME: tls.server_name}
    credentials = Credentials.from_environment(os.environ)
    if credentials is not None:
        found[TOKEN] = credentials.token
    return {f"spark.executorEnv.{name}": text for name, text in found.items() if text}


def _placed(options: SessionOptions, java_home: Path) -> dict[str, str]:
    archive = archive_for(java_home, os.environ)
    classes = ""
    if archive is not None:
        classes = archive.options_to_write if options.keeps_classes else archive.options_to_read
    settings = {
        "spark.driver.memory": options.heap,
        # The serial collector: the heap is small, and the other cores have work to do. The quick
        # compiler alone: rows pass through Java as whole Arrow batches, and the thorough one takes
        # 7 of 18 s of processor time until the first delivery (measured). Young objects are few
        # at a time, and memory that they once had is never given back.
        "spark.driver.extraJavaOptions": f"{_JAVA} {classes}".strip(),
    }
    if options.is_local:
        # Temporary files of Java where Python's are: our parent may remove them all. Nothing
        # reads the figures that Java keeps there for its tools, and a killed Java leaves them.
        folder = shlex.quote(tempfile.gettempdir())
        logging = shlex.quote(_LOGGING.as_uri())
        settings["spark.driver.extraJavaOptions"] += (
            f" -XX:-UsePerfData -Djava.io.tmpdir={folder} -Dlog4j2.configurationFile={logging}"
        )
        # No reason to be seen from outside, and no name service needed to start.
        settings |= PRIVATE
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings
