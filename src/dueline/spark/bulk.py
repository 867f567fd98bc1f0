"""Bulk scheduling: a DataFrame of messages, accepted as a whole or not at all.

Tasks check their rows and stage them at the broker; the driver's commit puts all of them in one
step. A task that is repeated stages under another token, so nothing is there twice. A bad row fails
the job and is named, or goes to the folder of the option `rejects` as Parquet, with the reason. How
many were scheduled is said on the driver's error output, and returned by `schedule`.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from dueline.errors import BrokerError, InvalidRequest
from dueline.flight import FlightClient, protocol
from dueline.spark.options import Options
from dueline.spark.schedule_rows import check_columns, checked
from dueline.spark.task import attempt_token
from dueline.store.schema import SCHEDULE_SCHEMA

__all__ = ["BulkWriter", "ScheduleResult", "Scheduled", "schedule"]

PUT_TIMEOUT_S: Final = 600.0
_REASON: Final = "reason"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResult:
    """What a bulk write did."""

    scheduled_count: int
    rejected_count: int


def schedule(frame: DataFrame, *, broker: str, rejects: str | None) -> ScheduleResult:
    """Write a frame and return the counts; see `dueline.spark.schedule`.

    A write to a data source returns nothing, and the commit runs in a process of its own: the
    counts come back through a file.
    """
    with tempfile.TemporaryDirectory(prefix="dueline-") as folder:
        report = Path(folder) / "report.json"
        writer = frame.write.format("dueline").option("brokers", broker)
        writer = writer.option("report", str(report))
        if rejects is not None:
            writer = writer.option("rejects", rejects)
        writer.mode("append").save()
        return ScheduleResult(**json.loads(report.read_text()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled(WriterCommitMessage):
    """What one task staged."""

    token: str
    row_count: int
    rejected_count: int


class BulkWriter(DataSourceArrowWriter):
    """The batch writer; the same class serves tasks and driver."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidRequest("bulk write: expected mode('append'), found overwrite")
        if len(options.brokers) != 1:
            raise InvalidRequest(
                f"bulk write: expected one broker, found {len(options.brokers)}; a job is accepted "
                "as a whole, so it goes to one shard: write a part of the rows to each"
            )
        check_columns(schema.fieldNames())
        self._address = options.brokers[0]
        with FlightClient(self._address) as client:
            self._limits = client.describe()  # of the whole job: a time may pass while it runs
        self._rejects = Path(options.rejects) if options.rejects else None
        self._report = Path(options.report) if options.report else None
        self._job = uuid.uuid4().hex

    # In tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Scheduled:
        token = attempt_token(self._job)
        with FlightClient(self._address) as client, _Rejects(self._rejects, self._job) as rejects:
            stage = client.open_stage(token, SCHEDULE_SCHEMA)
            seen = row_count = 0
            for batch in iterator:
                result = checked(batch, self._limits)
                if result.faults.null_count < batch.num_rows:
                    rejects.add(batch, result.faults, seen)
                if result.rows.num_rows:
                    stage.write(result.rows)
                seen += batch.num_rows
                row_count += result.rows.num_rows
            stage.finish()
        return Scheduled(token=token, row_count=row_count, rejected_count=rejects.row_count)

    # On the driver

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        staged = [message for message in messages if isinstance(message, Scheduled)]
        tokens = tuple(message.token for message in staged if message.row_count)
        if tokens:
            with FlightClient(self._address) as client:
                request = protocol.PutRows(tokens=tokens)
                client.call(request, protocol.RowsPut, timeout_s=PUT_TIMEOUT_S)
        result = ScheduleResult(
            scheduled_count=sum(message.row_count for message in staged),
            rejected_count=sum(message.rejected_count for message in staged),
        )
        if self._report is not None:
            self._report.write_text(json.dumps(asdict(result)))
        self._say(result)

    def _say(self, result: ScheduleResult) -> None:
        """On the error output, which is the driver's: this runs in a process that Spark starts."""
        line = f"dueline: {result.scheduled_count:,} messages scheduled at {self._address}"
        if result.rejected_count:
            line += f", {result.rejected_count:,} rows rejected; see {self._rejects}"
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        tokens = tuple(message.token for message in messages if isinstance(message, Scheduled))
        if not tokens:
            return
        try:
            with FlightClient(self._address) as client:
                client.call(protocol.Discard(tokens=tokens), protocol.Discarded)
        except BrokerError as error:
            # The broker forgets them by itself; the reason of the abort matters more.
            log.warning("staged rows not discarded: %s", error.message)


class _Rejects:
    """The bad rows of one task: a file in the rejects folder, or the end of the job.

    The file is named by job and partition, so that a task that is repeated writes it again.
    """

    def __init__(self, folder: Path | None, job: str) -> None:
        self._folder = folder
        self._job = job
        self._writer: parquet.ParquetWriter | None = None
        self.row_count = 0

    def __enter__(self) -> _Rejects:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, batch: pa.RecordBatch, faults: pa.StringArray, row_start: int) -> None:
        """Take the rows of a batch that have a fault.

        Raises:
            InvalidRequest: there is no folder for them; names the first.
        """
        is_bad = faults.is_valid()
        if self._folder is None:
            row = is_bad.to_pylist().index(True)
            raise InvalidRequest(
                f"row {row_start + row} of partition {_partition()}: {faults[row].as_py()}; "
                "nothing was scheduled. The option rejects=FOLDER sets such rows aside",
                row=row_start + row,
            )
        bad = batch.append_column(_REASON, faults).filter(is_bad)
        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{self._job}-{_partition():05d}.parquet"
            self._writer = parquet.ParquetWriter(path, bad.schema)
        self._writer.write_batch(bad)
        self.row_count += bad.num_rows


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context else 0
