"""The Flight port: calls come in on gRPC's threads, as many at a time as there is room for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from dueline.broker import Broker
from dueline.broker.backups import Backups
from dueline.broker.pipeline import Pipeline
from dueline.config import Config
from dueline.errors import NotFound
from dueline.flight import console, operators, protocol
from dueline.server.crowd import Crowd, Guarded
from dueline.server.flight.answering import Handler, answered, check_size
from dueline.server.flight.backup_actions import BackupActions
from dueline.server.flight.callers import CHANGES, HEADERS, Callers, HeaderFactory
from dueline.server.flight.console_actions import ConsoleActions
from dueline.server.flight.operator_actions import OperatorActions
from dueline.server.flight.pipeline_actions import PipelineActions
from dueline.server.flight.requirements import (
    ACTIONS,
    USER,
    needs_of_rows,
    needs_of_ticket,
)
from dueline.server.flight.streams import Streams
from dueline.server.flight.uploads import schema_of, upload
from dueline.server.flight.user_actions import UserActions
from dueline.server.flight.waiting import Waiting
from dueline.server.flight.waiting_actions import WaitingActions
from dueline.server.tls import Tls

__all__ = ["FlightDoor"]

ACTION_SIZE_BYTES_MAX: Final = 256 << 20
"""Room for the keys of a large cancel and the tokens of a large commit."""

TICKET_SIZE_BYTES_MAX: Final = 1 << 20
CALL_COUNT_MAX: Final = 1_024
STREAM_COUNT_MAX: Final = 128
STREAM_WAIT_S: Final = 30.0
STOP_S_MAX: Final = 10.0

_KINDS: Final = {**protocol.ACTIONS, **operators.CONTROL_ACTIONS, **console.CONSOLE_ACTIONS}

log = logging.getLogger(__name__)


class FlightDoor(flight.FlightServerBase):  # type: ignore[misc]
    """Bound when it is made; serves from `start` to `stop`."""

    def __init__(  # noqa: PLR0913 - what it serves, keyword-only
        self,
        pipeline: Pipeline,
        *,
        shard: str,
        address: str = "127.0.0.1:0",
        tls: Tls | None = None,
        broker: Broker | None = None,
        backups: Backups | None = None,
        config: Config | None = None,
    ) -> None:
        """Take the port.

        Args:
            tls: the certificate; None: plain text only.
            broker: what the commands ask; without it only the pipeline is served.
            backups: without them there are none.
            config: as the broker is set up; without it the web process is not served.

        Raises:
            pa.ArrowException, OSError: the port is taken.
        """
        self._pipeline = pipeline
        self._waiting = Waiting()
        self._actions: Final[dict[str, Handler]] = {
            **PipelineActions(pipeline, self._waiting, shard=shard).table,
            **(OperatorActions(broker).table if broker is not None else {}),
            **(UserActions(broker).table if broker is not None else {}),
            **(ConsoleActions(broker, config).table if broker and config is not None else {}),
            **(WaitingActions(broker).table if broker is not None else {}),
            **(BackupActions(backups, shard=shard).table if backups is not None else {}),
        }
        unasked = self._actions.keys() - ACTIONS.keys()
        assert not unasked, f"actions without a requirement: {sorted(unasked)}"
        self._callers: Final = Callers(
            *((broker.access, broker.trail) if broker is not None else (None, None))
        )
        self.streams: Final = Streams(pipeline, backups)
        self._calls: Final = Crowd("calls of the Flight port", count_max=CALL_COUNT_MAX)
        self._open_streams: Final = Crowd(
            "streams of the Flight port", count_max=STREAM_COUNT_MAX, wait_s=STREAM_WAIT_S
        )
        self.has_hung_calls = False
        # Not Arrow's `serve`, which takes SIGTERM and SIGINT over: it would stop serving before
        # the broker has stopped accepting, and not tell us while a call is under way.
        self._thread = threading.Thread(target=self.wait, name="flight", daemon=True)
        super().__init__(  # last: calls may come as soon as the port is taken
            f"{'grpc+tls' if tls is not None else 'grpc+tcp'}://{address}",
            middleware={HEADERS: HeaderFactory()},
            **_encryption(tls),
        )

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
        windows.begin_filling(ahead_ms)
        done = self._waiting.wait_for(lambda: windows.is_filled() or None, seconds_max)
        return done is not None

    # Flight's calls

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        def listed() -> list[tuple[str, str]]:
            with self._callers.admitted(context, "list_actions", lambda: USER):
                return [
                    (name, (_KINDS[name][0].__doc__ or "").splitlines()[0])
                    for name in sorted(self._actions)
                ]

        return answered(listed)

    def do_action(
        self, context: flight.ServerCallContext, action: flight.Action
    ) -> list[flight.Result]:
        def answer() -> bytes:
            name = action.type
            handle = self._actions.get(name)
            if handle is None:
                raise NotFound(
                    f"action {name[:80]!r}: expected one of {sorted(self._actions)}; are both "
                    "sides of the same version?"
                )
            check_size(f"action {name!r}", action.body.size, ACTION_SIZE_BYTES_MAX)
            with self._calls.one():
                body = action.body.to_pybytes()
                kinds = _KINDS[name]
                needs = partial(self._callers.needs_of, name, kinds[0], body)
                with self._callers.admitted(context, name, needs):
                    answer = handle(body)
                    if name in CHANGES:
                        self._callers.note(name, kinds[0].decode(body), kinds[1].decode(answer))
                    return answer

        return [flight.Result(answered(answer))]

    def do_get(
        self, context: flight.ServerCallContext, ticket: flight.Ticket
    ) -> flight.FlightDataStream:
        def answer() -> flight.FlightDataStream:
            check_size("ticket", len(ticket.ticket), TICKET_SIZE_BYTES_MAX)
            wanted = protocol.Ticket.decode(ticket.ticket)
            with self._callers.admitted(context, "read", lambda: needs_of_ticket(wanted)):
                schema, batches = self.streams.find(wanted)
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
            with (
                self._calls.one(),
                self._callers.admitted(context, "stage", lambda: needs_of_rows(schema_of(reader))),
            ):
                return upload(self._pipeline.staging, command, reader)

        row_count = answered(take)
        writer.write(pa.py_buffer(str(row_count).encode()))


def _encryption(tls: Tls | None) -> dict[str, Any]:
    """Arrow's server takes a certificate when it is made, and no other one later."""
    if tls is None:
        return {}
    certificate = tls.certificate()
    found: dict[str, Any] = {"tls_certificates": [(certificate.chain, certificate.private_key)]}
    if tls.options.requires_client_certificate:
        found |= {"verify_client": True, "root_certificates": certificate.client_ca}
    return found


def _reported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a stream; an error while one is made becomes one that Flight sends."""
    while (batch := answered(lambda: next(batches, None))) is not None:
        yield batch
