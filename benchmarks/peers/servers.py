"""The peers as processes: start, stop in order, start again on the same files, end.

All sync to disk before they answer, as Dueline does: Redis with `appendfsync always`, beanstalkd
with `-f 0`, RocketMQ with SYNC_FLUSH.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import pytest
from tests.interop.apache import Apache
from tests.ports import free_ports

from benchmarks.pipeline import Server as Served

__all__ = ["PEERS", "Server", "disk_bytes", "memory_bytes", "missing", "moving", "role", "start"]

START_S_MAX: Final = 120.0
_NULL: Final = subprocess.DEVNULL
_APACHE: Final = {
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": str(1 << 30),
    "timerPrecisionMs": "100",
    "timerMaxDelaySec": str(40 * 86_400),
    "mappedFileSizeConsumeQueue": str(20 * 300_000),
}


class Server(Protocol):
    """A peer that runs."""

    name: str
    address: str
    data: Path

    def roots(self) -> Sequence[int]:
        """The processes that all others of it descend from."""

    def stop(self) -> None:
        """Stop in order."""

    def start_again(self) -> None:
        """On the same files and ports."""

    def end(self) -> None:
        """Stop for good."""


def memory_bytes(server: Server) -> int:
    """What all its processes use, what they share counted once."""
    total = 0
    for pid in _descendants(server.roots()):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def disk_bytes(server: Server) -> int:
    """Blocks that are taken: files may have holes."""
    files = [path for path in server.data.rglob("*") if path.is_file()]
    return sum(path.stat().st_blocks * 512 for path in files)


class _Program:
    """A peer that is one process with a port."""

    def __init__(self, name: str, command: list[str], data: Path, port: int) -> None:
        self.name, self.address = name, f"127.0.0.1:{port}"
        self.data, self._command, self._port = data, command, port
        data.mkdir(parents=True, exist_ok=True)
        self.start_again()

    def start_again(self) -> None:
        self._process = subprocess.Popen(self._command, cwd=self.data, stdout=_NULL, stderr=_NULL)
        end_s = time.monotonic() + START_S_MAX
        while time.monotonic() < end_s and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
                return
            time.sleep(0.005)
        raise RuntimeError(f"{self.name}: expected it to listen on {self.address}, found nobody")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def end(self) -> None:
        if self._process.poll() is None:
            self.stop()

    def roots(self) -> Sequence[int]:
        return [self._process.pid]


class _Dueline:
    name = "Dueline"

    def __init__(self, folder: Path) -> None:
        flight, names, remoting = free_ports(3)
        self._flags = (
            *("--flight", f"127.0.0.1:{flight}", "--name-server", f"127.0.0.1:{names}"),
            *("--remoting", f"127.0.0.1:{remoting}"),
        )
        self.data = folder / "data"
        self.start_again()
        self.address = self._served.name_server
        self._served.wait_ready()

    def start_again(self) -> None:
        self._served = Served(self.data, *self._flags)

    def stop(self) -> None:
        self._served.stop()

    def end(self) -> None:
        self._served.stop()

    def roots(self) -> Sequence[int]:
        return list(self._served.processes())[:1]


class _RocketMQ:
    name = "RocketMQ"

    def __init__(self, folder: Path) -> None:
        self._apache = Apache.start("apache5", folder, settings=_APACHE, jvm=("-Xms1g", "-Xmx1g"))
        self.address = self._apache.name_server
        self.data = self._apache.store

    def stop(self) -> None:
        self._apache.stop_broker()

    def start_again(self) -> None:
        self._apache.start_broker()

    def end(self) -> None:
        self._apache.stop()

    def roots(self) -> Sequence[int]:
        both = (self._apache.broker_process, self._apache.name_server_process)
        return [process.pid for process in both if process is not None]


PEERS: Final = ("dueline", "redis", "beanstalkd", "rocketmq")
_PROGRAMS: Final = {"redis": "redis-server", "beanstalkd": "beanstalkd", "rocketmq": "mvn"}


def missing(peer: str) -> str | None:
    """What is not installed and would be needed."""
    program = _PROGRAMS.get(peer)
    return program if program is not None and shutil.which(program) is None else None


def start(peer: str, folder: Path) -> Server:
    """Start a peer in an empty folder.

    Raises:
        RuntimeError: it does not run here.
    """
    folder.mkdir(parents=True)
    if peer == "dueline":
        return _Dueline(folder)
    if peer == "rocketmq":
        try:
            return _RocketMQ(folder)
        except pytest.skip.Exception as reason:
            raise RuntimeError(str(reason)) from None
    (port,) = free_ports(1)
    data = folder / "data"
    commands = {
        "redis": [
            *("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(data)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
        ],
        "beanstalkd": [
            *("beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", str(data), "-f", "0"),
        ],
    }
    return _Program(peer.capitalize(), commands[peer], data, port)


def _descendants(roots: Sequence[int]) -> set[int]:
    """Processes and all that they have started."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parents[int(folder.name)] = int(
                    (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
                )
    found = set(roots)
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def role(name: str, peer: str, server: Server, topic: str, *words: object) -> subprocess.Popen[str]:
    """A process of a measurement."""
    command = [sys.executable, "-m", "benchmarks.peers.roles", name, peer, server.address, topic]
    return subprocess.Popen(
        [*command, *map(str, words)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )


@contextlib.contextmanager
def moving(peer: str, server: Server, topic: str) -> Iterator[None]:
    """Redis needs somebody who carries what is due from the set to the list."""
    if peer != "redis":
        yield
        return
    process = role("move", peer, server, topic)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()
