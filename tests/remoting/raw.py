"""Frames made by hand, and a broker as a process of its own: not the code under test."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parent.parent.parent


def frame(
    code: int,
    ext: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    opaque: int = 1,
    flag: int = 0,
) -> bytes:
    """One request as bytes."""
    fields = {"code": code, "opaque": opaque, "flag": flag, "language": "JAVA", "version": 409}
    header = json.dumps({**fields, "extFields": dict(ext or {})}).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


class Raw:
    """A connection that writes frames and reads answers, or does not."""

    def __init__(self, port: int, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(("127.0.0.1", port))
        self._opaque = 0
        self._data = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"") -> int:
        self._opaque += 1
        self.socket.sendall(frame(code, ext, body, opaque=self._opaque))
        return self._opaque

    def call(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """The header and the body of the answer; what the broker asks meanwhile is passed over."""
        opaque = self.send(code, ext, body)
        while True:
            header, answer = self.read()
            if header["flag"] & 1 and header["opaque"] == opaque:
                return header, answer

    def read(self) -> tuple[dict[str, Any], bytes]:
        length, word = struct.unpack(">II", self._take(8))
        data = self._take(length - 4)
        size = word & 0xFFFFFF
        return json.loads(data[:size]), data[size:]

    def _take(self, size: int) -> bytes:
        parts = [self._data]
        left = size - len(self._data)
        while left > 0:
            part = self.socket.recv(1 << 20)
            if not part:
                raise ConnectionError("the broker has closed the connection")
            parts.append(part)
            left -= len(part)
        data = b"".join(parts)
        self._data = data[size:]
        return data[:size]


class Served:
    """A broker process; ports, and how much memory of its own it has."""

    def __init__(self, process: subprocess.Popen[str], names: int, remoting: int) -> None:
        self.process = process
        self.names = names
        self.remoting = remoting

    def memory_bytes(self) -> int:
        """Without the files that it maps."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
        raise AssertionError("expected RssAnon, found none")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """`tests.remoting.process`, until the block ends."""
    names, remoting = free_port(), free_port()
    log = (folder / "broker.log").open("w")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.remoting.process",
            str(folder / "store"),
            str(names),
            str(remoting),
        ],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Served(process, names, remoting)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
        log.close()
    wait_until(lambda: process.returncode is not None, what="the broker to end")
