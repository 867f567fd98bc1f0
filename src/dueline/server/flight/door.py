"""The Flight port: calls come in on gRPC's threads, as many at a time as there is room for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyarrow import flight

from dueline.broker import Broker
from dueline.broker.backups import Backups
from dueline.broker.pipeline import Pipeline
from dueline.errors import NotFound
from dueline.flight import operators, protocol
from dueline.server.crowd import Crowd, Guarded
from dueline.server.flight.answering import Handler, answered, check_size
from dueline.server.flight.backup_actions import BackupActions
from dueline.server.flight.operator_actions import OperatorActions
from dueline.server.flight.pipeline_actions import PipelineActions
from dueline.server.flight.streams import Streams
from dueline.server.flight.uploads import upload
from dueline.server.flight.waiting import Waiting

__all__ = ["FlightDoor"]

ACTION_SIZE_BYTES_MAX: Final = 256 << 20
"""Room for the keys of a large cancel and the tokens of a large commit."""

TICKET_SIZE_BYTES_MAX: Final = 1 << 20
CALL_COUNT_MAX: Final = 1_024
STREAM_COUNT_MAX: Final = 128
STREAM_WAIT_S: Final = 30.0
STOP_S_MAX: Final = 10.0

log = logging.getLogger(__name__)


class FlightDoor(flight.FlightServerBase):  # type: ignore[misc]
    """Bound when it is made; serves from `start` to `stop`."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        shard: str,
        address: str = "127.0.0.1:0",
        broker: Broker | None = None,
        backups: Backups | None = None,
    ) -> None:
        """Take the port.

        Args:
            broker: what the commands ask; without it only the pipeline is served.
            backups: without them there are none.

        Raises:
            pa.ArrowException, OSError: the port is taken.
        """
        super().__init__(f"grpc+tcp://{address}")
        self._pipeline = pipeline
        self._waiting = Waiting()
        self._actions: Final[dict[str, Handler]] = {
            **PipelineActions(pipeline, self._waiting, shard=shard).table,
            **(OperatorActions(broker).table if broker is not None else {}),
            **(BackupActions(backups, shard=shard).table if backups is not None else {}),
        }
        self.streams: Final = Streams(pipeline, backups)
        self._calls: Final = Crowd("calls of the Flight port", count_max=CALL_COUNT_MAX)
        self._open_streams: Final = Crowd(
            "streams of the Flight port", count_max=STREAM_COUNT_MAX, wait_s=STREAM_WAIT_S
        )
        self.has_hung_calls = False
        # Not Arrow's `serve`, which takes SIGTERM and SIGINT over: it would stop serving before
        # the broker has stopped accepting, and not tell us while a call is under way.
        self._thread = threading.Thread(target=self.wait, name="flight", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Answer those who wait, refuse new calls, and let those under way end.

        Not for ever: a peer that has fallen silent ends none. Then `has_hung_calls` says so.
        """
        self._waiting.stop()
        stopper = threading.Thread(target=self._shut_down, name="flight stop", daemon=True)
        stopper.start()
        stopper.join(STOP_S_MAX)
        self.has_hung_calls = stopper.is_alive()
        if self.has_hung_calls:
            log.warning("Flight calls did not end within %g s and are left", STOP_S_MAX)

    def _shut_down(self) -> None:
        self.shutdown()
        self._thread.join()

    def fill(self, ahead_ms: int, seconds_max: float) -> bool:
        """Before the pipeline stops: let it carry over what falls due within `ahead_ms`.

        Returns whether that was done in time.
        """
        windows = self._pipeline.windows
        windows.begin_filling()
        until_ms = self._pipeline.clock.now_ms() + ahead_ms
        done = self._waiting.wait_for(
            lambda: windows.is_carried_over(until_ms) or None, seconds_max
        )
        return done is not None

    # Flight's calls

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        known = {**protocol.ACTIONS, **operators.CONTROL_ACTIONS}
        return [
            (name, (known[name][0].__doc__ or "").splitlines()[0]) for name in sorted(self._actions)
        ]

    def do_action(
        self, context: flight.ServerCallContext, action: flight.Action
    ) -> list[flight.Result]:
        def answer() -> bytes:
            handle = self._actions.get(action.type)
            if handle is None:
                raise NotFound(
                    f"action {action.type[:80]!r}: expected one of {sorted(self._actions)}; are "
                    "both sides of the same version?"
                )
            check_size(f"action {action.type!r}", action.body.size, ACTION_SIZE_BYTES_MAX)
            with self._calls.one():
                return handle(action.body.to_pybytes())

        return [flight.Result(answered(answer))]

    def do_get(
        self, context: flight.ServerCallContext, ticket: flight.Ticket
    ) -> flight.FlightDataStream:
        def answer() -> flight.FlightDataStream:
            check_size("ticket", len(ticket.ticket), TICKET_SIZE_BYTES_MAX)
            schema, batches = self.streams.find(protocol.Ticket.decode(ticket.ticket))
            guarded = Guarded(self._open_streams, _reported(batches))
            return flight.GeneratorStream(schema, guarded)

        return answered(answer)

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        def take() -> int:
            command = descriptor.command or b""
            check_size("command", len(command), TICKET_SIZE_BYTES_MAX)
            with self._calls.one():
                return upload(self._pipeline.staging, command, reader)

        row_count = answered(take)
        writer.write(pa.py_buffer(str(row_count).encode()))


def _reported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a stream; an error while one is made becomes one that Flight sends."""
    while (batch := answered(lambda: next(batches, None))) is not None:
        yield batch
