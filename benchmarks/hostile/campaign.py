"""One broker, honest clients, hostile peers: started, watched, and ended, each by its own id."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.children import broker_pid

from benchmarks.hostile.honest import Result
from dueline.clock import system_time_ms

__all__ = ["Served", "Stage", "campaign"]

READY_S_MAX: Final = 300.0
STOP_S_MAX: Final = 60.0
_SAMPLE_S: Final = 0.2
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What honest clients saw beside some peers, and what the broker used."""

    peers: list[str]
    seen: Result
    is_alive: bool
    before_mib: float
    memory_mib: float
    peak_mib: float
    file_count: int
    cpu_s: float

    @property
    def is_sound(self) -> bool:
        """Whether no promise was broken."""
        return self.is_alive and not (self.seen.lost or self.seen.early or self.seen.twice)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Served:
    """A running `dueline serve` on free ports, until the block ends."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.output = folder / "output"
        command = [sys.executable, "-m", "dueline", "serve", "--tethered", "--http", "off"]
        for flag in ("--flight", "--name-server", "--remoting", "--grpc"):
            command += [flag, "127.0.0.1:0"]
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [*command, "--data", str(folder / "data"), *words],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        self.addresses = {
            name: self._wait_for(rf"{words} (\S+:\d+)")
            for name, words in {
                "flight": "accepting on",
                "name_server": "RocketMQ name server on",
                "remoting": "RocketMQ broker on",
                "grpc": r"RocketMQ 5\.x clients on",
            }.items()
        }
        self._wait_for("(Spark ready)")
        # The first batch takes longer than all later ones.
        _honest(self, "warm-up", seconds=1, rate=10, seed=0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def _wait_for(self, pattern: str) -> str:
        end_s = time.monotonic() + READY_S_MAX
        while time.monotonic() < end_s and self.process.poll() is None:
            match = re.search(pattern, self.output.read_text())
            if match:
                return match.group(1)
            time.sleep(0.05)
        raise TimeoutError(f"{pattern}: not in {self.output.read_text()!r}")

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def memory_mib(self) -> float:
        words = self._proc("statm").split()
        return int(words[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20) if words else 0.0

    def file_count(self) -> int:
        with contextlib.suppress(OSError):
            return len(list(Path(f"/proc/{broker_pid(self.process.pid)}/fd").iterdir()))
        return 0

    def cpu_s(self) -> float:
        words = self._proc("stat").rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / _TICKS_PER_S if words else 0.0

    def _proc(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{broker_pid(self.process.pid)}/{name}").read_text()
        return ""


def campaign(
    served: Served, peers: Sequence[str], *, seconds: float, rate: int, seed: int
) -> Stage:
    """Run honest clients for a while beside some peers."""
    topic = f"honest-{system_time_ms()}"
    cpu_s, before_mib = served.cpu_s(), served.memory_mib()
    with _watching(served) as watch, _running(served, peers, seconds):
        seen = _honest(served, topic, seconds=seconds, rate=rate, seed=seed)
    return Stage(
        peers=list(peers),
        seen=seen,
        is_alive=served.is_alive,
        before_mib=before_mib,
        memory_mib=served.memory_mib(),
        peak_mib=watch.peak_mib,
        file_count=watch.file_count,
        cpu_s=served.cpu_s() - cpu_s,
    )


def _honest(served: Served, topic: str, *, seconds: float, rate: int, seed: int) -> Result:
    words = [served.addresses["name_server"], topic, str(seconds), str(rate), str(seed)]
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.hostile.honest", *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Result(**json.loads(ended.stdout))


@contextlib.contextmanager
def _running(served: Served, peers: Sequence[str], seconds: float) -> Iterator[None]:
    """The hostile peers; what has not ended by itself is ended."""
    addresses = json.dumps(served.addresses)
    module = "benchmarks.hostile.peers"
    processes = [
        subprocess.Popen([sys.executable, "-m", module, name, addresses, str(seconds)])
        for name in peers
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


class _Watch(threading.Thread):
    """Looks at the broker's memory and files again and again."""

    def __init__(self, served: Served) -> None:
        super().__init__(daemon=True)
        self._served = served
        self.ended = threading.Event()
        self.peak_mib = 0.0
        self.file_count = 0

    def run(self) -> None:
        while not self.ended.wait(_SAMPLE_S):
            self.peak_mib = max(self.peak_mib, self._served.memory_mib())
            self.file_count = max(self.file_count, self._served.file_count())


@contextlib.contextmanager
def _watching(served: Served) -> Iterator[_Watch]:
    watch = _Watch(served)
    watch.start()
    try:
        yield watch
    finally:
        watch.ended.set()
        watch.join()
