"""The Flight service: the broker's door for Spark, bulk jobs and tools.

A thin shell: bytes to values, values to verbs, errors to Flight's errors. What a request means is
in `dueline.server.windows` (delivery), `dueline.server.jobs` (bulk puts) and in the store. The wire
is described in `docs/protocol/flight.md`.

gRPC calls in from threads of its own. Everything here may be called from any of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyarrow import flight

from dueline.broker.delayed import Delayed
from dueline.errors import BrokerError, InvalidRequest, LimitExceeded, NotFound, OutcomeUnknown
from dueline.flight import protocol
from dueline.flight.access import access_to
from dueline.flight.errors import to_flight
from dueline.flight.values import Value
from dueline.server.crowd import Crowd, Guarded
from dueline.server.staging import Staging
from dueline.server.tables import Tables, parts
from dueline.server.windows import Windows
from dueline.store import Changed, Store
from dueline.store.core import DELAY_LOG
from dueline.store.schema import (
    DELIVERY_SCHEMA,
    SCHEDULE_SCHEMA,
    STORED_SCHEMA,
    WINDOW_SCHEMA,
)
from dueline.store.staged import check_deliveries
from dueline.store.timeline import Window

__all__ = ["FlightService", "flight_answer"]

ACTION_SIZE_BYTES_MAX: Final = 256 << 20
"""A request of the commands with as many of the largest messages as the writer holds."""

TICKET_SIZE_BYTES_MAX: Final = 1 << 20
CALL_COUNT_MAX: Final = 1_024
STREAM_COUNT_MAX: Final = 128
STREAM_WAIT_S: Final = 30.0

_STAGED_SCHEMAS: Final = (DELIVERY_SCHEMA, SCHEDULE_SCHEMA)

_Result = TypeVar("_Result")


log = logging.getLogger(__name__)


class FlightService(flight.FlightServerBase):  # type: ignore[misc]
    """Serves one store. `start` returns when it listens; `stop` waits for calls under way."""

    def __init__(
        self,
        store: Store,
        *,
        shard: str,
        address: str = "127.0.0.1:0",
        staging: Staging | None = None,
        delayed: Delayed | None = None,
    ) -> None:
        """Serve a store; without `delayed`, rows may go to any topic and make none."""
        super().__init__(f"grpc+tcp://{address}")
        self._store = store
        self._shard = shard
        self._delayed = Delayed(store) if delayed is None else delayed
        self._staging = Staging(store.clock) if staging is None else staging
        self._windows = Windows(store, self._staging)
        self._tables = Tables(store)
        self._files = access_to(store.path / DELAY_LOG, store.options.delay_segment_size_bytes)
        self._actions: Final[dict[str, Callable[[Any], Value]]] = {
            "describe": self._describe,
            "next_window": self._windows.next_window,
            "plan_window": self._windows.plan,
            "commit_window": self._windows.commit,
            "discard": self._discard,
            "put_rows": self._put_rows,
            "plan_pending": self._tables.plan_pending,
            "list_queues": self._tables.list_queues,
            "cancel": self._cancel,
            "reschedule": self._reschedule,
            "stats": self._stats,
        }
        self._calls: Final = Crowd("calls of the Flight port", count_max=CALL_COUNT_MAX)
        self._streams: Final = Crowd(
            "streams of the Flight port", count_max=STREAM_COUNT_MAX, wait_s=STREAM_WAIT_S
        )
        self._thread = threading.Thread(target=self.serve, name="flight", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def fill(self, ahead_ms: int, seconds_max: float) -> bool:
        """See `Windows.fill`."""
        return self._windows.fill(ahead_ms, seconds_max)

    def stop(self) -> None:
        """Answer waiting questions, refuse new calls, return when none is left."""
        self._windows.stop()
        self.shutdown()
        self._thread.join()

    # Actions

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        return [
            (name, (request.__doc__ or "").splitlines()[0])
            for name, (request, _) in protocol.ACTIONS.items()
        ]

    def do_action(
        self, context: flight.ServerCallContext, action: flight.Action
    ) -> list[flight.Result]:
        def answer() -> Value:
            if action.type not in self._actions:
                raise NotFound(
                    f"action {action.type!r}: expected one of {sorted(self._actions)}; are both "
                    "sides of the same version?"
                )
            request, _ = protocol.ACTIONS[action.type]
            with self._calls.one():
                return self._actions[action.type](request.decode(body_of(action)))

        return [flight.Result(flight_answer(answer).encode())]

    def _describe(self, request: protocol.Describe) -> protocol.Description:
        options = self._store.options
        return protocol.Description(
            protocol=protocol.PROTOCOL_VERSION,
            shard=self._shard,
            now_ms=self._store.clock.now_ms(),
            body_size_bytes_max=options.body_size_max,
            delay_ms_max=options.delay_max_ms,
            files=self._files,
        )

    def _discard(self, request: protocol.Discard) -> protocol.Discarded:
        return protocol.Discarded(token_count=self._staging.discard(request.tokens))

    def _put_rows(self, request: protocol.PutRows) -> protocol.RowsPut:
        batches = self._staging.take(request.tokens, SCHEDULE_SCHEMA)
        table = pa.Table.from_batches(batches, schema=SCHEDULE_SCHEMA)
        result = self._delayed.put_rows(table)
        return protocol.RowsPut(first_seq=result.first_seq, row_count=result.count)

    def _cancel(self, request: protocol.Cancel) -> protocol.Answers:
        return _answers(self._delayed.cancel(request.keys))

    def _reschedule(self, request: protocol.Reschedule) -> protocol.Answers:
        return _answers(self._delayed.reschedule([(m.key, m.due_ms) for m in request.moves]))

    def _stats(self, request: protocol.Stats) -> protocol.Figures:
        figures = self._store.stats()
        return protocol.Figures(
            accepted=figures["accepted_delayed"],
            pending=figures["pending"],
            at_gate=figures["at_gate"],
            next_due_ms=self._store.next_due_ms(),
            gate_next_ms=figures["gate_next_ms"],
            staged_bytes=self._staging.size_bytes,
            plan_count=len(self._windows),
        )

    # Streams

    def do_get(
        self, context: flight.ServerCallContext, ticket: flight.Ticket
    ) -> flight.FlightDataStream:
        def answer() -> flight.FlightDataStream:
            check_size("ticket", len(ticket.ticket), TICKET_SIZE_BYTES_MAX)
            return self._stream(protocol.Ticket.decode(ticket.ticket))

        return flight_answer(answer)

    def _stream(self, ticket: protocol.Ticket) -> flight.FlightDataStream:
        if ticket.slice is not None:
            window = self._windows.read(ticket.slice)
            if ticket.slice.is_mapped:
                return flight.RecordBatchStream(pa.Table.from_batches([_units(window)]))
            return self.streamed(WINDOW_SCHEMA, map(self._store.read_window, parts(window)))
        if ticket.pending is not None:
            return self.streamed(WINDOW_SCHEMA, self._tables.pending(ticket.pending))
        if ticket.found is not None:
            return self.streamed(WINDOW_SCHEMA, self._tables.found(ticket.found))
        if ticket.messages is not None:
            return self.streamed(STORED_SCHEMA, self._tables.messages(ticket.messages))
        raise InvalidRequest("ticket: expected the name of a stream, found none")

    def streamed(
        self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
    ) -> flight.FlightDataStream:
        """A stream of batches; an error while one is made becomes one that Flight sends."""

        def reported() -> Iterator[pa.RecordBatch]:
            while (batch := flight_answer(lambda: next(batches, None))) is not None:
                yield batch

        return flight.GeneratorStream(schema, Guarded(self._streams, reported()))

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        def take() -> int:
            check_size("command", len(descriptor.command or b""), TICKET_SIZE_BYTES_MAX)
            with self._calls.one():
                return staged()

        def staged() -> int:
            token = protocol.StageRows.decode(descriptor.command).token
            schema = _known_schema(reader)
            with self._staging.writing(token, schema):
                for batch in _batches(reader):
                    self._staging.add(token, batch)
                    if schema is DELIVERY_SCHEMA:
                        check_deliveries(batch)
            return self._staging.row_count(token)

        row_count = flight_answer(take)
        writer.write(pa.py_buffer(str(row_count).encode()))


def body_of(action: flight.Action) -> bytes:
    """A request's bytes.

    Raises:
        LimitExceeded: more than any request has.
    """
    check_size(f"action {action.type[:80]!r}", action.body.size, ACTION_SIZE_BYTES_MAX)
    body: bytes = action.body.to_pybytes()
    return body


def check_size(what: str, found: int, limit: int) -> None:
    if found > limit:
        raise LimitExceeded(
            f"{what}: expected at most {limit} bytes, found {found}", limit=limit, found=found
        )


def _known_schema(reader: flight.MetadataRecordBatchReader) -> pa.Schema:
    """Our own copy of the schema that a stream has; a peer's may carry any metadata."""
    with _refusing_other_bytes():
        found = reader.schema
    for known in _STAGED_SCHEMAS:
        if found.equals(known):
            return known
    raise InvalidRequest(
        f"staged rows: expected the columns of a delivery or a schedule, found {found.names!r:.500}"
    )


def _batches(reader: flight.MetadataRecordBatchReader) -> Iterator[pa.RecordBatch]:
    """What a stream brings, as it comes: nothing in it was looked at yet."""
    with _refusing_other_bytes():
        for chunk in reader:
            if chunk.data is not None:
                yield chunk.data


@contextmanager
def _refusing_other_bytes() -> Iterator[None]:
    """Bytes that Arrow's reader cannot read are the peer's mistake."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidRequest(
            f"rows: expected Arrow's IPC format, found: {str(error)[:500]}"
        ) from error


def flight_answer(answer: Callable[[], _Result]) -> _Result:
    """Call, and turn what it raises into what Flight sends."""
    try:
        return answer()
    except BrokerError as error:
        raise to_flight(error) from error
    except flight.FlightError:
        raise
    except Exception as error:
        # A mistake of ours: the caller must not wait for an answer, and the log says where.
        log.exception("a Flight call failed")
        raise to_flight(
            OutcomeUnknown(f"the broker failed: {type(error).__name__}: {error}")
        ) from error


def _answers(changed: Sequence[Changed]) -> protocol.Answers:
    return protocol.Answers(
        answers=tuple(each.answer.value for each in changed),
        counts=tuple(each.count for each in changed),
    )


def _units(window: Window) -> pa.RecordBatch:
    units = window.units
    return pa.RecordBatch.from_arrays(
        [
            pa.array(units.seq),
            pa.array(units.due_ms),
            window.topics(),
            pa.array(units.queue_id),
            pa.array(units.position),
            pa.array(units.size),
        ],
        schema=protocol.UNIT_SCHEMA,
    )
