"""The due source: what falls due soon, as a stream.

Spark asks in turns, in one long-lived process on the driver: `latestOffset` (how far is there
something to do?) and `partitions` (who reads what?). Tasks then `read`, in processes of their own,
and share nothing with the reader but what is pickled.

An idle query costs hardly any time: `latestOffset` waits at the broker for something to do and
answers with the start, which Spark takes for "nothing new". Spark ends Python workers that had
nothing to do for a minute, and starting them takes as long as some delays are. So a batch without
rows is run when the query starts and, with the option `keep_warm`, whenever it was idle for so
long.

Rows have the columns that the query uses (option `columns`). If those are what the timeline knows
of a message, no record is read at all.

A shard that does not answer does not stop the others: it is left out until it is back. Nothing of
it is lost, since a window holds whatever is not done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from dueline.errors import InvalidRequest, Unavailable
from dueline.flight import FlightClient, protocol
from dueline.flight.access import is_here
from dueline.spark import rows
from dueline.spark.offsets import Offset, ShardOffset
from dueline.spark.options import Options
from dueline.spark.schema import ROUTE_COLUMNS, message_columns
from dueline.spark.task import current_batch
from dueline.store.files import Files
from dueline.store.log import LogReader
from dueline.store.schema import WINDOW_SCHEMA

__all__ = ["DueReader", "EmptyPartition", "SlicePartition"]

_START: Final = ShardOffset(due_ms=-1, seq=-1, end=0)
_WAIT_MS_SHARED: Final = 200
"""With several shards: one that has something must not wait longer for those that have not."""

_AWAY_S_MAX: Final = 30.0
_AWAY_PAUSE_S: Final = 0.05
_ROW_COUNT_ALL: Final = 1 << 40
_CHUNK_ROWS: Final = 16_384
_CHUNK_BYTES: Final = 32 << 20

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePartition(InputPartition):
    """One task's part of a batch."""

    address: str
    shard: str
    plan: str
    index: int
    files: protocol.FileAccess | None


class EmptyPartition(InputPartition):
    """A task without rows: it loads what later ones need."""

    def __init__(self) -> None:
        super().__init__(None)


class DueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader; pickled into tasks without its connections."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._until_ms: dict[str, int] = {}
        self._busy_s = -inf  # the first batch does not wait for rows: it shows that all works
        self._answered_s = -inf

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_until_ms": self._until_ms}

    # On the driver

    def initialOffset(self) -> dict[str, Any]:
        return Offset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.row_count_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the horizon: the query ends when everything due by then is done."""
        failures: list[Unavailable] = []
        for address in self._options.brokers:
            try:
                now_ms = self._client(address).describe().now_ms
                self._until_ms[address] = now_ms + self._options.ahead_ms
            except Unavailable as error:
                log.warning("left out of this run: %s", error.message)
                failures.append(error)
        if not self._until_ms:
            raise failures[0]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = Offset.from_json(start)
        try:
            ends = self._next_windows(_row_count_max(limit))
        except Unavailable as error:
            self._wait_for_brokers(error)
            return start
        self._answered_s = monotonic()
        if not ends and not self._until_ms and self._is_cooling():
            address = self._options.brokers[0]
            ends = {address: before.shards.get(address, _START).corner}
        if ends:
            self._busy_s = monotonic()
        offset = before
        for address, end in ends.items():
            past = before.shards.get(address, _START)
            offset = offset.with_shard(address, past.next(end))
        return offset.to_json()

    def _wait_for_brokers(self, error: Unavailable) -> None:
        """Brokers that are being restarted are waited for, which is quicker than a new query.

        Raises:
            Unavailable: none has ever answered, or not for a while.
        """
        if self._until_ms or monotonic() - self._answered_s > _AWAY_S_MAX:
            raise error
        if self._busy_s > -inf:
            log.warning("waiting for the broker: %s", error.message)
        self._busy_s = -inf  # when it is back, a batch shows that all works
        sleep(_AWAY_PAUSE_S)

    def _is_cooling(self) -> bool:
        keep_warm_ms = self._options.keep_warm_ms
        return keep_warm_ms is not None and 1000 * (monotonic() - self._busy_s) >= keep_warm_ms

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        before, after = Offset.from_json(start), Offset.from_json(end)
        partitions: list[InputPartition] = []
        for address, offset in after.shards.items():
            if offset == before.shards.get(address):
                continue
            try:
                partitions += self._plan(address, offset)
            except Unavailable as error:
                log.warning("left out of this batch: %s", error.message)
        return partitions or [EmptyPartition()]

    def stop(self) -> None:
        for client in self._clients.values():
            client.close()

    def _plan(self, address: str, offset: ShardOffset) -> list[SlicePartition]:
        client = self._client(address)
        description = client.describe()
        plan = client.call(
            protocol.PlanWindow(
                end=offset.corner,
                slice_count_max=self._options.slice_count_max,
                slice_row_count_min=self._options.slice_row_count_min,
            ),
            protocol.WindowPlan,
        )
        return [
            SlicePartition(
                address=address,
                shard=description.shard,
                plan=plan.plan,
                index=index,
                files=description.files,
            )
            for index in range(len(plan.slices))
        ]

    def _next_windows(self, row_count_max: int) -> dict[str, protocol.WindowCorner]:
        """The shards that have something to do, with how far; waits for the first that has."""
        if len(self._options.brokers) == 1:
            is_due = bool(self._until_ms) or self._is_cooling()
            return self._ask_all(row_count_max, 0 if is_due else self._options.wait_ms)
        ends = self._ask_all(row_count_max, 0)
        if ends or self._until_ms or self._is_cooling():
            return ends
        return self._ask_all(row_count_max, min(self._options.wait_ms, _WAIT_MS_SHARED))

    def _ask_all(self, row_count_max: int, wait_ms: int) -> dict[str, protocol.WindowCorner]:
        """Ask all shards at once; with `wait_ms`, the first that has something is enough."""
        asked = {
            self._pool.submit(self._next_window, address, row_count_max, wait_ms): address
            for address in self._until_ms or self._options.brokers
        }
        ends: dict[str, protocol.WindowCorner] = {}
        failures: list[Unavailable] = []
        waiting: set[Future[protocol.WindowEnd]] = set(asked)
        while waiting and not (wait_ms and ends):
            answered, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in answered:
                try:
                    answer = future.result()
                except Unavailable as error:
                    failures.append(error)
                else:
                    if answer.end is not None:
                        ends[asked[future]] = answer.end
        if len(failures) == len(asked):
            raise failures[0]
        for failure in failures:
            log.warning("left out of this batch: %s", failure.message)
        return ends

    def _next_window(self, address: str, row_count_max: int, wait_ms: int) -> protocol.WindowEnd:
        options = self._options
        request = protocol.NextWindow(
            ahead_ms=options.ahead_ms,
            lead_ms=min(options.lead_ms, options.ahead_ms),
            row_count_max=row_count_max,
            wait_ms=wait_ms,
            until_ms=self._until_ms.get(address),
            is_transformed=options.is_transformed,
        )
        return self._client(address).call(request, protocol.WindowEnd)

    def _client(self, address: str) -> FlightClient:
        if address not in self._clients:
            self._clients[address] = FlightClient(address)
        return self._clients[address]

    @cached_property
    def _clients(self) -> dict[str, FlightClient]:
        return {}

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max_workers=2 * len(self._options.brokers))

    # In tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SlicePartition):
            return
        schema = message_columns(self._options.columns)
        if set(schema.names) == set(ROUTE_COLUMNS):
            for units in _units(partition):
                yield rows.route_rows(units, partition.shard)
            return
        for window in _windows(partition, self._options.transport):
            yield from rows.message_rows(window, partition.shard, schema)


def _row_count_max(limit: ReadLimit) -> int:
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    if isinstance(limit, ReadAllAvailable):
        return _ROW_COUNT_ALL
    raise InvalidRequest(f"read limit: expected rows or everything, found {limit}")


def _units(partition: SlicePartition) -> Iterator[pa.RecordBatch]:
    """The slice's UNIT rows."""
    with FlightClient(partition.address) as client:
        yield from client.read(_ticket(partition, units_only=True))


def _ticket(partition: SlicePartition, *, units_only: bool) -> protocol.Ticket:
    batch = current_batch()
    request = protocol.ReadSlice(
        plan=partition.plan,
        index=partition.index,
        run=batch.run,
        batch=batch.number,
        units_only=units_only,
    )
    return protocol.Ticket(slice=request)


def _windows(partition: SlicePartition, transport: str) -> Iterator[pa.RecordBatch]:
    """The slice's WINDOW rows, by whichever way is open."""
    is_mapped = transport != "flight" and partition.files is not None and is_here(partition.files)
    if transport == "files" and not is_mapped:
        raise InvalidRequest(
            f"option transport=files: expected the delay log of {partition.address} on this "
            f"machine, found {partition.files}; use auto or flight"
        )
    if partition.files is not None and is_mapped:
        yield from _mapped(_units(partition), partition.files)
        return
    with FlightClient(partition.address) as client:
        yield from client.read(_ticket(partition, units_only=False))


def _mapped(
    units: Iterator[pa.RecordBatch], access: protocol.FileAccess
) -> Iterator[pa.RecordBatch]:
    """WINDOW rows from units, by reading the records out of the mapped files."""
    log_reader = LogReader(Files(), Path(access.folder), access.segment_size_bytes)
    try:
        for batch in units:
            for part in _chunks(batch):
                records = log_reader.gather(part["position"].to_numpy(), part["size"].to_numpy())
                columns = [part.column(name) for name in WINDOW_SCHEMA.names[:-1]]
                yield pa.RecordBatch.from_arrays([*columns, records], schema=WINDOW_SCHEMA)
    finally:
        log_reader.close()


def _chunks(units: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts of bounded rows and bytes; a single row may be larger."""
    ends = units["size"].to_numpy().astype("int64").cumsum()
    start = 0
    while start < units.num_rows:
        base = int(ends[start - 1]) if start else 0
        end = max(int(ends.searchsorted(base + _CHUNK_BYTES, side="right")), start + 1)
        end = min(end, start + _CHUNK_ROWS)
        yield units.slice(start, end - start)
        start = end
