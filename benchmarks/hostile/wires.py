"""Connections of the 4.x protocol for those who mean harm."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

import grpc
from dueline.message import encode_properties
from dueline.wire import Command, FrameDecoder

__all__ = ["Addresses", "Wire", "again", "send_ext", "wire"]

Addresses = dict[str, str]

_ROUNDS_MAX: Final = 10_000
_ANSWER_S_MAX: Final = 5.0


class Wire:
    """A connection of the 4.x protocol."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=_ANSWER_S_MAX)
        self._decoder = FrameDecoder()
        self._opaque = 0

    def frame(self, code: int, ext: dict[str, str], body: bytes = b"") -> bytes:
        self._opaque += 1
        return Command(code=code, opaque=self._opaque, ext=ext, body=body).encode()

    def send(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        self.socket.sendall(self.frame(code, ext, body))

    def call(self, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
        self.send(code, ext, body)
        while True:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("closed by the broker")
            for frame in self._decoder.feed(data):
                command = Command.decode(frame)
                if command.is_response and command.opaque == self._opaque:
                    return command


@contextlib.contextmanager
def wire(address: str) -> Iterator[Wire]:
    made = Wire(address)
    try:
        yield made
    finally:
        made.socket.close()


def again(work: Callable[[], None], end_s: float) -> None:
    """Do it again and again; whatever the broker does to us, we come back."""
    for _ in range(_ROUNDS_MAX):
        if time.monotonic() > end_s:
            return
        try:
            work()
        except (OSError, grpc.RpcError, pa.ArrowException, ValueError):
            time.sleep(0.05)


def send_ext(topic: str, properties: dict[str, str], *, sys_flag: int = 0) -> dict[str, str]:
    return {
        **{"a": "hostile", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": str(sys_flag)},
        **{"g": "1700000000000", "h": "0", "j": "0"},
        "i": encode_properties(properties).decode(),
    }
