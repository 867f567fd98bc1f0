"""Flight's DoPut with bytes as they are given: what a peer can send that no Arrow library would."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyarrow import ipc
from tests.waiting import PATIENCE_S

import grpc
from dueline.flight.protocol import StageRows

_PATH = "/arrow.flight.protocol.FlightService/DoPut"
_COMMAND = 2
_DESCRIPTOR, _HEADER, _BODY = 1, 2, 1000

Message = tuple[bytes, bytes]
"""The metadata and the body of one IPC message."""


def messages_of(batch: pa.RecordBatch, **options: str) -> list[Message]:
    """A batch as a stream of IPC messages, the schema's first."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    reader = ipc.MessageReader.open_stream(sink.getvalue())
    return [
        (message.metadata.to_pybytes(), message.body.to_pybytes() if message.body else b"")
        for message in reader
    ]


class RawFlight:
    """One channel; leave the `with` block and it is closed."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    def put(self, token: str, messages: list[Message]) -> str:
        """Send a stream; returns what was refused and why, or nothing if it was taken."""
        call = self._channel.stream_stream(_PATH)
        try:
            list(call(_frames(token, messages), timeout=PATIENCE_S))
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
        return ""


def _frames(token: str, messages: list[Message]) -> Iterator[bytes]:
    command = StageRows(token=token).encode()
    descriptor = _field(_DESCRIPTOR, b"\x08\x02" + _field(_COMMAND, command))
    for metadata, body in messages:
        yield descriptor + _field(_HEADER, metadata) + _field(_BODY, body)
        descriptor = b""


def _field(number: int, data: bytes) -> bytes:
    """A protobuf field of bytes."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
