"""The delivery query, and the process that keeps it running.

    due ──▶ restore ──▶ your transform ──▶ deliver

Every message is a row. Without a transform a row says which message, when and where to, and the
broker copies the bytes; with one, it has the columns that the transform uses as well.

`python -m dueline.spark.delivery --broker 127.0.0.1:8815` starts Spark and the query. When the
query fails (the broker is restarted during a batch, a worker dies) it is started again in the same
session, at once, then after 1, 2, 4 … seconds; after `FAILURE_COUNT_MAX` failures in a row without
a batch in between the process ends with status 1, and its supervisor starts a new one.

Progress is the store's, not the checkpoint's: a window is what is not done. So the checkpoint is
needed only by transforms that keep state, and by default it is a temporary folder.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import IO, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from dueline.config import SPARK_CONF_VARIABLE
from dueline.errors import BrokerError, InvalidRequest
from dueline.flight import FlightClient
from dueline.flight.operators import Complain, Complained, OperatorClient
from dueline.spark import transform as transforms
from dueline.spark.archiving import Archiving
from dueline.spark.failure import one_line
from dueline.spark.options import Options
from dueline.spark.pruning import pruned
from dueline.spark.schema import ROUTE_COLUMNS
from dueline.spark.session import SessionOptions, open_session
from dueline.spark.warming import warm

__all__ = ["DeliveryOptions", "main", "query_of", "run", "start"]

FAILURE_COUNT_MAX: Final = 5
AWAY_S_MAX: Final = 30.0
BACKOFF_S_MIN: Final = 0.1
BACKOFF_S_MAX: Final = 15.0
ARCHIVE_AFTER_S: Final = 45.0
"""A pipeline that runs so long is worth a quicker start the next time."""

KEEP_WARM: Final = "45s"
"""Spark ends Python workers after a minute without work."""

_POLL_S: Final = 1
_REPORT_POLLS: Final = 30

log = logging.getLogger("dueline.delivery")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOptions:
    """What is delivered, and how. `source` has further options of the due source."""

    brokers: str
    checkpoint: str
    transform: str | None = None
    source: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse what cannot work before Spark is started.

        Raises:
            InvalidRequest: an option or a transform that is not there or not of its kind.
        """
        Options.parse(self.source_options(1))
        if self.transform:
            transforms.load(self.transform)

    def source_options(
        self, slice_count_max: int, columns: Iterable[str] = ROUTE_COLUMNS
    ) -> dict[str, str]:
        return {
            "brokers": self.brokers,
            "columns": ",".join(columns),
            "transformed": "true" if self.transform else "false",
            "slice_count_max": str(slice_count_max),
            "keep_warm": KEEP_WARM,
            **self.source,
        }

    def sink_options(self) -> dict[str, str]:
        return {"brokers": self.brokers, "missing": "drop" if self.transform else "error"}


def start(session: SparkSession, options: DeliveryOptions) -> StreamingQuery:
    """Start the delivery query; it runs until it is stopped or fails."""
    return query_of(session, options).start()


def query_of(session: SparkSession, options: DeliveryOptions) -> DataStreamWriter:
    """The delivery query, ready to be started.

    Raises:
        InvalidRequest: options or a transform that cannot work.
    """
    options.check()  # a mistake is best told here, not in a worker's stack trace

    def due(columns: Sequence[str]) -> DataFrame:
        source = options.source_options(session.sparkContext.defaultParallelism, columns)
        return session.readStream.format("dueline").options(**source).load()

    if options.transform:
        result = pruned(transforms.load(options.transform), due)
    else:
        result = due(ROUTE_COLUMNS)
    return (
        result.writeStream.format("dueline")
        .options(**options.sink_options())
        .option("checkpointLocation", options.checkpoint)
    )


def run(session: SparkSession, options: DeliveryOptions, stop: threading.Event) -> None:
    """Keep the query running until `stop` is set.

    Raises:
        BrokerError, PySparkException, Py4JError: it failed too often.
    """
    failure_count = 0
    while not stop.is_set():
        query: StreamingQuery | None = None
        try:
            query = start(session, options)
            log.info("delivering from %s", options.brokers)
            _wait_while_running(query, stop)
            return
        except (PySparkException, Py4JError) as error:
            if query is None and isinstance(error, PySparkException):
                raise  # such a query cannot be started; a Python process that was killed can
            has_progress = query is not None and query.lastProgress is not None
            failure_count = 1 if has_progress else failure_count + 1
            reason = f"the query failed ({failure_count} in a row): {one_line(error)}"
            log.warning("%s", reason)
            complain(options.brokers, reason)
            if failure_count >= FAILURE_COUNT_MAX:
                raise
        stop.wait(_pause_s(failure_count))
        _wait_for_brokers(options.brokers, stop)


def _pause_s(failure_count: int) -> float:
    """Most often a broker was restarted, and is there again by now."""
    return BACKOFF_S_MIN if failure_count == 1 else min(2.0 ** (failure_count - 2), BACKOFF_S_MAX)


def _wait_for_brokers(brokers: str, stop: threading.Event) -> None:
    """Until one answers, for a while: a query that finds none would only fail again."""
    end_s = monotonic() + AWAY_S_MAX
    while not stop.is_set() and monotonic() < end_s:
        for address in brokers.split(","):
            with contextlib.suppress(BrokerError), FlightClient(address.strip()) as client:
                client.describe()
                return
        stop.wait(BACKOFF_S_MIN)


def complain(brokers: str, reason: str) -> None:
    """Tell the brokers, whose `stats` is where people look; one that is away needs no telling."""
    for address in brokers.split(","):
        with contextlib.suppress(BrokerError), OperatorClient(address.strip()) as client:
            client.ask(Complain(error=reason), Complained)


def main(arguments: Sequence[str] | None = None) -> int:
    """The process: 0 if it was asked to stop, 1 if it failed, 2 for wrong arguments."""
    parsed = _parser().parse_args(arguments)
    given = _given_conf(os.environ)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if parsed.tethered:
        _stop_with(sys.stdin, stop)
    with tempfile.TemporaryDirectory(prefix="dueline-checkpoint-") as folder:
        try:
            options = DeliveryOptions(
                brokers=",".join(parsed.broker),
                checkpoint=parsed.checkpoint or folder,
                transform=parsed.transform,
                source=_pairs(parsed.option),
            )
            options.check()
            session = open_session(
                SessionOptions(
                    master=parsed.master,
                    heap=parsed.heap,
                    conf={**given, **_pairs(parsed.conf)},
                )
            )
        except InvalidRequest as error:
            log.critical("%s", error.message)
            return 2
        except (BrokerError, PySparkException, Py4JError) as error:
            log.critical("Spark does not start: %s", one_line(error))
            return 1
        warm(session)
        archiving = Archiving()
        archiver = threading.Timer(ARCHIVE_AFTER_S, archiving.start)
        archiver.start()
        try:
            run(session, options, stop)
        except InvalidRequest as error:
            log.critical("%s", error.message)
            return 2
        except (BrokerError, PySparkException, Py4JError) as error:
            log.critical("gave up: %s", one_line(error))
            return 1
        finally:
            archiver.cancel()
            archiving.stop()
            session.stop()
    log.info("stopped")
    return 0


def _wait_while_running(query: StreamingQuery, stop: threading.Event) -> None:
    """Return when asked to stop; raise what the query failed with."""
    poll_count = 0
    try:
        while not stop.is_set():
            if query.awaitTermination(_POLL_S):
                return
            poll_count += 1
            if poll_count % _REPORT_POLLS == 0:
                report(query)
    finally:
        query.stop()


def report(query: StreamingQuery) -> None:
    """Say how the last batch went."""
    progress = query.lastProgress
    if progress is not None:
        log.info(
            "batch %s: %s rows in %s ms",
            progress["batchId"],
            progress["numInputRows"],
            progress["durationMs"].get("triggerExecution"),
        )


def _stop_with(stream: IO[str], stop: threading.Event) -> None:
    """Stop when the other end of `stream` is closed, as it is when our parent process dies."""

    def watch() -> None:
        while stream.read(4096):
            pass
        stop.set()

    threading.Thread(target=watch, name="tether", daemon=True).start()


def _given_conf(environ: MutableMapping[str, str]) -> dict[str, str]:
    """Spark's settings from the broker; taken out, since Java and the tasks need not have them."""
    conf: dict[str, str] = json.loads(environ.pop(SPARK_CONF_VARIABLE, "{}"))
    return conf


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidRequest(f"expected name=value, found {text!r}")
        pairs[name] = value
    return pairs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dueline deliver", description="Carry due messages to their topics, with Spark."
    )
    parser.add_argument(
        "--broker", action="append", required=True, metavar="HOST:PORT", help="Flight address"
    )
    parser.add_argument("--master", default="local[*]", help="Spark master (default: %(default)s)")
    parser.add_argument("--checkpoint", metavar="DIR", help="for transforms that keep state")
    parser.add_argument("--transform", metavar="MODULE:FUNCTION", help="applied to due messages")
    parser.add_argument("--heap", default="512m", help="Java heap (default: %(default)s)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of the due source"
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of Spark; no secrets, everybody sees them",
    )
    parser.add_argument(
        "--tethered", action="store_true", help="stop when standard input is closed"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
