"""Batch reads: what waits and what was delivered, as DataFrames, with filters pushed down.

    view=pending     delayed messages that are not done. Pushed down: ranges of `due_ms` and
                     `deliver_at`, `topic` (=, in), `unique_id` and `keys` (=; an index finds them
                     without a scan)
    view=messages    what consumers of one topic (option or filter `topic`) can read. Pushed down:
                     `topic`, `queue_id` (=, in), ranges of `queue_offset` and `store_ms`
    view=ledger      every delayed message within retention, with its outcome. Nothing is
                     pushed down

A filter that is pushed down narrows what the broker sends; Spark still applies every filter itself,
so that the narrowing may be coarse (a key matches whole words of `keys`, a time is cut to
milliseconds).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from dueline.errors import InvalidRequest
from dueline.flight import FlightClient, protocol
from dueline.spark import rows
from dueline.spark.filters import Wanted, narrowed
from dueline.spark.options import Options
from dueline.spark.schema import LEDGER_COLUMNS

__all__ = ["MessagesReader", "PendingReader", "reader_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePartition(InputPartition):
    """One task's part of a table."""

    address: str
    shard: str
    ticket: protocol.Ticket


class _TableReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options
        self._wanted = Wanted()

    def partitions(self) -> list[InputPartition]:
        partitions: list[InputPartition] = []
        for address in self._options.brokers:
            with FlightClient(address) as client:
                shard = client.describe().shard
                partitions += [
                    TablePartition(address=address, shard=shard, ticket=ticket)
                    for ticket in self._tickets(client)
                ]
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark plans a partition of its own where there is none.
        if not isinstance(partition, TablePartition):
            return
        with FlightClient(partition.address) as client:
            for batch in client.read(partition.ticket):
                if batch.num_rows:
                    yield from self._restored(batch, partition)

    def _tickets(self, client: FlightClient) -> Iterator[protocol.Ticket]:
        raise NotImplementedError

    def _restored(
        self, batch: pa.RecordBatch, partition: TablePartition
    ) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class PendingReader(_TableReader):
    """`view=pending`."""

    def _tickets(self, client: FlightClient) -> Iterator[protocol.Ticket]:
        wanted = self._wanted
        due = wanted.bounds("due_ms").within(wanted.bounds("deliver_at"))
        keys = wanted.values("unique_id") or wanted.values("keys")
        if keys is not None and len(keys) == 1:
            yield protocol.Ticket(found=protocol.FindPending(key=str(keys[0])))
            return
        topics = wanted.values("topic")
        if due.is_empty or topics == ():
            return
        plan = client.call(
            protocol.PlanPending(
                start_ms=max(due.start, 0),
                end_ms=due.end,
                slice_count_max=self._options.slice_count_max,
                slice_row_count_min=self._options.slice_row_count_min,
            ),
            protocol.PendingPlan,
        )
        for each in plan.ranges:
            yield protocol.Ticket(
                pending=protocol.ReadPending(
                    start_ms=each.start_ms, end_ms=each.end_ms, topics=topics
                )
            )

    def _restored(
        self, batch: pa.RecordBatch, partition: TablePartition
    ) -> Iterator[pa.RecordBatch]:
        return rows.pending_rows(batch, partition.shard)


class MessagesReader(_TableReader):
    """`view=messages`."""

    def _tickets(self, client: FlightClient) -> Iterator[protocol.Ticket]:
        wanted = self._wanted
        queue_ids = wanted.values("queue_id")
        offsets, times = wanted.bounds("queue_offset"), wanted.bounds("store_ms")
        for topic in self._topics():
            request = protocol.ListQueues(
                topic=topic,
                start_ms=times.start if times.has_start else None,
                end_ms=times.end if times.has_end else None,
            )
            for queue in client.call(request, protocol.QueueList).queues:
                start, end = max(queue.start, offsets.start), min(queue.end, offsets.end)
                if (queue_ids is None or queue.queue_id in queue_ids) and start < end:
                    yield from self._split(topic, queue.queue_id, start, end)

    def _topics(self) -> tuple[str, ...]:
        wanted = self._wanted.values("topic")
        if self._options.topic is not None:
            return (self._options.topic,)
        if wanted is None:
            raise InvalidRequest(
                "view=messages: expected a topic, found none; give the option topic or filter by "
                "the column topic"
            )
        return tuple(str(topic) for topic in wanted)

    def _split(self, topic: str, queue_id: int, start: int, end: int) -> Iterator[protocol.Ticket]:
        count = end - start
        part_count = min(self._options.slice_count_max, count // self._options.slice_row_count_min)
        cuts = [start + count * part // max(part_count, 1) for part in range(max(part_count, 1))]
        for low, high in zip(cuts, [*cuts[1:], end], strict=True):
            request = protocol.ReadMessages(topic=topic, queue_id=queue_id, start=low, end=high)
            yield protocol.Ticket(messages=request)

    def _restored(
        self, batch: pa.RecordBatch, partition: TablePartition
    ) -> Iterator[pa.RecordBatch]:
        assert partition.ticket.messages is not None
        ticket = partition.ticket.messages
        return rows.stored_rows(batch, ticket.topic, ticket.queue_id, partition.shard)


class LedgerReader(_TableReader):
    """`view=ledger`: one task for each broker."""

    def _tickets(self, client: FlightClient) -> Iterator[protocol.Ticket]:
        yield protocol.Ticket(ledger=protocol.ReadLedger())

    def _restored(
        self, batch: pa.RecordBatch, partition: TablePartition
    ) -> Iterator[pa.RecordBatch]:
        shard = pa.repeat(partition.shard, batch.num_rows)
        yield pa.RecordBatch.from_arrays([*batch.columns, shard], schema=LEDGER_COLUMNS)


class _Narrowing(DataSourceReader):
    """Takes Spark's filters. Apart, since Spark looks whether a reader has the method."""

    _wanted: Wanted

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._wanted = narrowed(filters)
        return filters


class _NarrowPendingReader(_Narrowing, PendingReader):
    pass


class _NarrowMessagesReader(_Narrowing, MessagesReader):
    pass


def reader_of(options: Options, *, narrows: bool) -> DataSourceReader:
    """The reader of a view, with or without filters pushed down."""
    if options.view == "ledger":
        return LedgerReader(options)
    if options.view == "pending":
        return (_NarrowPendingReader if narrows else PendingReader)(options)
    return (_NarrowMessagesReader if narrows else MessagesReader)(options)
