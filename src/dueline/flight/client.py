"""A thin client of the Flight service: one method for each request, our values and errors.

One client is one connection, opened by the first call (1 to 2 ms on loopback). Calls may come from
several threads. Every call has a deadline, so that a broker that hangs is noticed; streams have one
per chunk of work, since a slow reader is no fault of the broker's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import pyarrow as pa
from pyarrow import flight

from dueline.credentials import Credentials
from dueline.errors import RemoteProtocolError
from dueline.flight import protocol
from dueline.flight.errors import from_flight
from dueline.flight.values import Value
from dueline.tls import ClientTls

__all__ = ["FlightClient", "StageStream"]

CALL_TIMEOUT_S: Final = 60.0
"""Longer than any action on a window takes; a bulk job's put may need more."""

STREAM_TIMEOUT_S: Final = 600.0

_RECONNECT: Final = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
]
"""A broker that was restarted is found again soon; by itself gRPC pauses for up to two minutes."""

_Answer = TypeVar("_Answer", bound=Value)
_NAMES: Final = {request: name for name, (request, _) in protocol.ACTIONS.items()}
_FLIGHT_ERRORS: Final = (flight.FlightError, pa.ArrowException, OSError)


class FlightClient:
    """A connection to one broker's Flight port, `host:port`.

    Encrypted if the environment says so (`dueline.tls`): Spark's tasks, on whatever machine, have
    it from their executor's environment.
    """

    def __init__(self, address: str, credentials: Credentials | None = None) -> None:
        """Args:
        credentials: who asks; None: the user that the environment names, on whatever machine.
        """
        self.address: Final = address
        self._given = credentials
        self._credentials = credentials or Credentials.from_environment(os.environ)
        tls = ClientTls.from_environment(os.environ)
        scheme = "grpc+tcp" if tls is None else "grpc+tls"
        self._client = flight.connect(
            f"{scheme}://{address}", generic_options=_RECONNECT, **_encryption(tls)
        )

    def call(
        self, request: Value, answer: type[_Answer], *, timeout_s: float = CALL_TIMEOUT_S
    ) -> _Answer:
        """Send an action and wait for its answer.

        Raises:
            BrokerError: what the broker raised, or `Unavailable` if there is none.
        """
        return self._act(_NAMES[type(request)], request, answer, timeout_s)

    def _act(self, name: str, request: Value, answer: type[_Answer], timeout_s: float) -> _Answer:
        action = flight.Action(name, request.encode())
        try:
            results = list(self._client.do_action(action, self.options(timeout_s)))
        except _FLIGHT_ERRORS as error:
            raise from_flight(error, self.address) from error
        if len(results) != 1:
            raise RemoteProtocolError(
                f"broker {self.address}: expected one answer, found {len(results)}"
            )
        return answer.decode(results[0].body.to_pybytes())

    def options(self, timeout_s: float) -> flight.FlightCallOptions:
        """A call's deadline, and who makes it."""
        if self._credentials is None:
            return flight.FlightCallOptions(timeout=timeout_s)
        shown = f"Bearer {self._credentials.token}".encode()
        return flight.FlightCallOptions(timeout=timeout_s, headers=[(b"authorization", shown)])

    def read(self, ticket: protocol.Ticket) -> Iterator[pa.RecordBatch]:
        """The rows of a ticket, batch by batch."""
        options = self.options(STREAM_TIMEOUT_S)
        try:
            reader = self._client.do_get(flight.Ticket(ticket.encode()), options)
            for chunk in reader:
                yield chunk.data
        except _FLIGHT_ERRORS as error:
            raise from_flight(error, self.address) from error

    def open_stage(self, token: str, schema: pa.Schema) -> StageStream:
        """A stream of rows to be kept under a token; complete when `finish` has returned."""
        options = self.options(STREAM_TIMEOUT_S)
        command = protocol.StageRows(token=token).encode()
        descriptor = flight.FlightDescriptor.for_command(command)
        try:
            writer, answers = self._client.do_put(descriptor, schema, options)
        except _FLIGHT_ERRORS as error:
            raise from_flight(error, self.address) from error
        return StageStream(self.address, token, writer, answers)

    def stage(self, token: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Send rows to be kept under a token; returns how many the broker has."""
        stream = self.open_stage(token, schema)
        for batch in batches:
            stream.write(batch)
        return stream.finish()

    def describe(self) -> protocol.Description:
        """The shard behind this address, if it speaks our version."""
        description = self.call(protocol.Describe(), protocol.Description)
        if description.protocol != protocol.PROTOCOL_VERSION:
            raise RemoteProtocolError(
                f"broker {self.address}: expected protocol version {protocol.PROTOCOL_VERSION}, "
                f"found {description.protocol}; install the same version of dueline on both sides"
            )
        return description

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[FlightClient], tuple[str, Credentials | None]]:
        # What came from the environment comes from there again: no secret travels in a pickle.
        return FlightClient, (self.address, self._given)


def _encryption(tls: ClientTls | None) -> dict[str, Any]:
    if tls is None:
        return {}
    found = {}
    authorities, own = tls.authorities(), tls.own()
    if authorities is not None:
        found["tls_root_certs"] = authorities
    if tls.server_name is not None:
        found["override_hostname"] = tls.server_name
    if own is not None:
        found["cert_chain"], found["private_key"] = own
    return found


class StageStream:
    """Rows on their way to the broker's staging, under one token."""

    def __init__(
        self,
        address: str,
        token: str,
        writer: flight.FlightStreamWriter,
        answers: flight.FlightMetadataReader,
    ) -> None:
        self.address: Final = address
        self.token: Final = token
        self._writer = writer
        self._answers = answers

    def write(self, batch: pa.RecordBatch) -> None:
        try:
            self._writer.write_batch(batch)
        except _FLIGHT_ERRORS as error:
            raise self._reason(error) from error

    def finish(self) -> int:
        """End the stream and wait until the broker has all of it; returns its row count."""
        try:
            self._writer.done_writing()
            answer = self._answers.read()
            self._writer.close()
        except _FLIGHT_ERRORS as error:
            raise self._reason(error) from error
        if answer is None:
            raise RemoteProtocolError(f"broker {self.address}: expected a row count, found nothing")
        return int(answer.to_pybytes())

    def _reason(self, error: Exception) -> Exception:
        """A write fails with "stream closed" if the broker refused; why, only `close` tells."""
        try:
            self._writer.close()
        except _FLIGHT_ERRORS as reason:
            return from_flight(reason, self.address)
        return from_flight(error, self.address)
