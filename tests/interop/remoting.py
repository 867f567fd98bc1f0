"""A small blocking client of the remoting protocol, made of our own codec."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE_S

from dueline.wire import Command, FrameDecoder, Language, Serialization

_READ_BYTES = 1 << 16


class Connection:
    """One connection; requests one at a time, what comes in between is kept aside."""

    def __init__(
        self,
        address: str,
        *,
        serialization: Serialization = Serialization.JSON,
        timeout_seconds: float = PATIENCE_S,
    ) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout_seconds)
        self._serialization = serialization
        self._decoder = FrameDecoder()
        self._opaques = itertools.count(1)
        self._received: list[Command] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"") -> Command:
        """Send a request and wait for its answer."""
        return self.wait_answer(self.send(code, ext, body))

    def wait_answer(self, opaque: int) -> Command:
        """The answer to a request that was sent."""
        while True:
            for place, command in enumerate(self._received):
                if command.is_response and command.opaque == opaque:
                    return self._received.pop(place)
            self._receive()

    def send(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", flag: int = 0
    ) -> int:
        """Send a request and return its opaque."""
        request = Command(
            code=code,
            opaque=next(self._opaques),
            flag=flag,
            ext=ext or {},
            body=body,
            language=Language.JAVA,
            serialization=self._serialization,
        )
        self.send_raw(request.encode())
        return request.opaque

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def wait_request(self) -> Command:
        """The next request that the server sends by itself."""
        while True:
            for place, command in enumerate(self._received):
                if not command.is_response:
                    return self._received.pop(place)
            self._receive()

    def _receive(self) -> None:
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("closed by the server")
        self._received += map(Command.decode, self._decoder.feed(data))
