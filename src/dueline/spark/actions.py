"""The pending set as a table that one writes to: rows of `view=pending`, and what to do with them.

    action=cancel       they will not be delivered
    action=deliver      now
    action=reschedule   to the time in the column `deliver_at`, or `deliver_at_ms`; or by the
                        option `shift`, from the row's own `due_ms`

Rows are known by `origin` and, with several brokers, `shard`; all other columns are ignored. Tasks
change their rows as they come, in portions; every row has an answer, and a task or a job that is
run again finds what it did before *done*. How many there were of each is said on the driver's error
output, and returned by `dueline.spark.change`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from dueline.errors import InvalidRequest
from dueline.flight.operators import OperatorClient
from dueline.flight.waiting import ChangeNumbers, NumberAnswers
from dueline.spark.options import Options

__all__ = ["ActionWriter", "Answered", "ChangeResult", "change"]

PORTION_ROWS: Final = 2_000
_TIMES: Final = ("deliver_at", "deliver_at_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """How many rows had which answer."""

    done_count: int
    too_late_count: int
    unknown_count: int
    failed_count: int


def change(frame: DataFrame, *, broker: str, action: str, shift: str | None) -> ChangeResult:
    """Write a frame and return the counts; see `dueline.spark.change`."""
    with tempfile.TemporaryDirectory(prefix="dueline-") as folder:
        report = Path(folder) / "report.json"
        writer = frame.write.format("dueline").option("brokers", broker).option("action", action)
        writer = writer.option("report", str(report))
        if shift is not None:
            writer = writer.option("shift", shift)
        writer.mode("append").save()
        return ChangeResult(**json.loads(report.read_text()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(WriterCommitMessage):
    """What one task was answered."""

    counts: dict[str, int]


class ActionWriter(DataSourceArrowWriter):
    """The batch writer of changes; the same class serves tasks and driver."""

    def __init__(self, options: Options, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidRequest("action: expected mode('append'), found overwrite")
        assert options.action is not None
        self._action = options.action
        self._shift_ms = options.shift_ms
        self._report = Path(options.report) if options.report else None
        names = schema.fieldNames()
        self._check(names)
        self._time = next((name for name in _TIMES if name in names), None)
        self._addresses = _shards(options.brokers)
        self._has_shard = "shard" in names

    def _check(self, names: list[str]) -> None:
        wanted = ["origin"]
        if self._action == "reschedule":
            wanted.append("due_ms" if self._shift_ms is not None else "deliver_at")
        elif self._shift_ms is not None:
            raise InvalidRequest("option shift: expected action=reschedule with it", option="shift")
        for name in wanted:
            is_there = name in names or (name == "deliver_at" and "deliver_at_ms" in names)
            if not is_there:
                raise InvalidRequest(
                    f"action={self._action}: expected the column {name}, found {names}; rows are "
                    "those of view=pending"
                )

    # In tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Answered:
        counts: Counter[str] = Counter()
        for batch in iterator:
            for address, part in self._by_broker(batch):
                with OperatorClient(address) as client:
                    for start in range(0, part.num_rows, PORTION_ROWS):
                        request = self._request(part.slice(start, PORTION_ROWS))
                        counts.update(client.ask(request, NumberAnswers).answers)
        return Answered(counts=dict(counts))

    def _by_broker(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if not self._has_shard and len(self._addresses) == 1:
            yield next(iter(self._addresses.values())), batch
            return
        if not self._has_shard:
            raise InvalidRequest("several brokers: expected the column shard, found none")
        for shard in pc.unique(batch.column("shard")).to_pylist():
            if shard not in self._addresses:
                raise InvalidRequest(
                    f"shard: expected one of {sorted(self._addresses)}, found {shard!r}"
                )
            yield self._addresses[shard], batch.filter(pc.equal(batch.column("shard"), shard))

    def _request(self, rows: pa.RecordBatch) -> ChangeNumbers:
        numbers = tuple(_whole(rows, "origin"))
        if self._action != "reschedule":
            return ChangeNumbers(action=self._action, numbers=numbers)
        if self._shift_ms is not None:
            dues_ms = tuple(max(due_ms + self._shift_ms, 0) for due_ms in _whole(rows, "due_ms"))
        else:
            assert self._time is not None
            dues_ms = tuple(_whole(rows, self._time))
        return ChangeNumbers(action="reschedule", numbers=numbers, dues_ms=dues_ms)

    # On the driver

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        counts: Counter[str] = Counter()
        for message in messages:
            if isinstance(message, Answered):
                counts.update(message.counts)
        result = ChangeResult(
            done_count=counts["done"],
            too_late_count=counts["too late"],
            unknown_count=counts["unknown"],
            failed_count=counts["failed"],
        )
        if self._report is not None:
            self._report.write_text(json.dumps(asdict(result)))
        said = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()) if count)
        sys.stderr.write(f"dueline: {self._action}: {said or 'no rows'}\n")
        sys.stderr.flush()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was changed stays changed; the job can be run again."""


def _shards(addresses: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for address in addresses:
        with OperatorClient(address) as client:
            found[client.describe().shard] = address
    return found


def _whole(rows: pa.RecordBatch, name: str) -> list[int]:
    """A column of whole numbers, or of times as milliseconds."""
    column = rows.column(name)
    if column.null_count:
        raise InvalidRequest(f"column {name}: expected a value in every row, found null")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    if not pa.types.is_integer(column.type):
        raise InvalidRequest(
            f"column {name}: expected whole numbers or timestamps, found {column.type}"
        )
    values: list[int] = column.to_pylist()
    return values
