"""The deliver sink: tasks stage, the driver commits.

`write` runs in tasks: it sends its rows to the shard they came from, under a token of the attempt.
A row says where its message goes; of the message's fields it has those that the query has, which
then replace what was sent. The others never left the broker. `commit` runs on the driver when all
tasks have succeeded: each shard appends the messages that were staged under the tokens of this
batch, in one step, and marks what the transform left out. An attempt that dies, or whose batch
fails, leaves tokens that nobody names; the broker forgets them.

A shard's commit is atomic, all shards' together is not. It need not be: rows that were not
committed are not done and come again, rows that were are done and do not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from dueline.errors import BrokerError, InvalidRequest, Unavailable
from dueline.flight import FlightClient, protocol
from dueline.flight.client import StageStream
from dueline.spark import rows
from dueline.spark.options import Options
from dueline.spark.schema import MESSAGE_COLUMNS, ROUTE_COLUMNS
from dueline.spark.task import MicroBatch, attempt_token, current_batch
from dueline.store.schema import routed_schema

__all__ = ["DeliverWriter", "Staged"]

_IDENTITY: Final = ("origin", "due_ms", "shard")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged(WriterCommitMessage):
    """What one task staged: token and row count by broker address."""

    batch: MicroBatch
    tokens: dict[str, str]
    row_count: int


class DeliverWriter(DataSourceStreamArrowWriter):
    """The stream writer; the same class serves tasks and driver."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._columns = _columns_for(schema)

    # In tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        batch = current_batch()
        row_count = 0
        token, schema = attempt_token(batch.run), routed_schema(self._columns)
        with _Stages(self._options.brokers, token, schema) as stages:
            for received in iterator:
                row_count += received.num_rows
                for shard, part in _by_shard(received):
                    stages.stream(shard).write(rows.routed(part.select(self._columns)))
            tokens = stages.finish()
        return Staged(batch=batch, tokens=tokens, row_count=row_count)

    # On the driver

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = [message for message in messages if isinstance(message, Staged)]
        if not staged:
            return  # no partitions: there was nothing to read
        failures = []
        for address in self._options.brokers:
            try:
                self._commit_at(address, staged)
            except Unavailable as error:
                # What it had staged is not done, so it comes again in a later window.
                log.warning("batch %d: not committed: %s", batchId, error.message)
                failures.append(error)
        if len(failures) == len(self._options.brokers):
            raise failures[0]

    def _commit_at(self, address: str, staged: list[Staged]) -> None:
        """Also where nothing was staged: there all rows may have been dropped."""
        request = protocol.CommitWindow(
            run=staged[0].batch.run,
            batch=staged[0].batch.number,
            tokens=_tokens_at(address, staged),
            is_transformed=self._options.missing == "drop",
        )
        with FlightClient(address) as client:
            done = client.call(request, protocol.Committed)
        if done.repeated:
            log.warning(
                "batch %d: %d rows came more than once and were delivered once; does the "
                "transform's join match several rows?",
                request.batch,
                done.repeated,
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = [message for message in messages if isinstance(message, Staged)]
        for address in self._options.brokers:
            if tokens := _tokens_at(address, staged):
                try:
                    with FlightClient(address) as client:
                        client.call(protocol.Discard(tokens=tokens), protocol.Discarded)
                except BrokerError as error:
                    # The broker forgets them by itself; the reason of the abort matters more.
                    log.warning("batch %d: staged rows not discarded: %s", batchId, error.message)


class _Stages:
    """The streams of one task attempt: one for each shard that its rows came from."""

    def __init__(self, addresses: tuple[str, ...], token: str, schema: pa.Schema) -> None:
        self._addresses = addresses
        self._token = token
        self._schema = schema
        self._resources = ExitStack()
        self._clients: dict[str, FlightClient] = {}
        self._streams: dict[str, StageStream] = {}

    def __enter__(self) -> _Stages:
        return self

    def __exit__(self, *exception: object) -> None:
        self._resources.close()

    def stream(self, shard: str) -> StageStream:
        if shard not in self._streams:
            if not self._clients:
                self._connect()
            if shard not in self._clients:
                raise InvalidRequest(
                    f"expected rows of the shards {sorted(self._clients)}, found one of {shard!r}; "
                    "source and sink need the same option brokers, and a transform must keep the "
                    "column shard"
                )
            self._streams[shard] = self._clients[shard].open_stage(self._token, self._schema)
        return self._streams[shard]

    def finish(self) -> dict[str, str]:
        """End all streams; returns the token by address."""
        for stream in self._streams.values():
            stream.finish()
        return {stream.address: stream.token for stream in self._streams.values()}

    def _connect(self) -> None:
        failures = []
        for address in self._addresses:
            client = self._resources.enter_context(FlightClient(address))
            try:
                self._clients[client.describe().shard] = client
            except BrokerError as error:
                failures.append(error)
        if not self._clients and failures:
            raise failures[0]


def _columns_for(schema: StructType) -> list[str]:
    """The columns of a message that the sink is given; others are left aside."""
    names = set(schema.fieldNames())
    missing = [name for name in ROUTE_COLUMNS if name not in names]
    if missing:
        raise InvalidRequest(
            f"deliver sink: expected the columns {', '.join(ROUTE_COLUMNS)}, found {sorted(names)} "
            f"without {missing}; a transform must keep them",
            missing=missing,
        )
    return [name for name in MESSAGE_COLUMNS.names if name in names and name != "shard"]


def _by_shard(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    for name in _IDENTITY:
        if batch.column(name).null_count:
            raise InvalidRequest(
                f"deliver sink: expected a value in {name}, found null; a transform must keep "
                f"{', '.join(_IDENTITY)} as they are"
            )
    shards = pc.unique(batch.column("shard")).to_pylist()
    for shard in shards:
        part = batch if len(shards) == 1 else batch.filter(pc.equal(batch.column("shard"), shard))
        yield shard, part


def _tokens_at(address: str, staged: list[Staged]) -> tuple[str, ...]:
    return tuple(message.tokens[address] for message in staged if address in message.tokens)
