"""The brokers that are compared, each in processes of its own and stopped while another runs.

Dueline is the real `dueline serve`, without its Spark pipeline: Apache's broker has nothing like
it, and nothing is due while we measure. Apache's brokers come from their published jars (see
`tests.interop.apache`) with their own defaults for files, threads and the virtual machine's
compiler and collector.

All start at once. A broker that is not measured is suspended by SIGSTOP, so that it takes no time
from the one that is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from tests.children import broker_pid, children_of
from tests.interop import toolchain
from tests.interop.apache import Apache
from tests.ports import free_ports

from benchmarks.remoting.frames import LEVELS, USER

__all__ = ["Running", "start_apache", "start_dueline"]

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
START_ATTEMPTS_MAX: Final = 3
_JVM: Final = ("-Xms1g", "-Xmx1g")
_RELEASES: Final = {"apache49": "4.9.8", "apache5": "5.x"}
_APACHE_SETTINGS: Final = {
    "messageDelayLevel": LEVELS,
    # Apache's defaults, which the tests make smaller.
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": str(20 * 300_000),
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
    "transactionTimeOut": "6000",
    "transactionCheckInterval": "60000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A broker that listens."""

    name: str
    flush: str
    address: str
    pids: Sequence[int]
    is_guarded: bool = False

    def suspend(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)

    def cpu_s(self) -> float:
        """Processor time so far."""
        total = 0
        for pid in self.pids:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(words[11]) + int(words[12])
        return total / TICKS_PER_S


def start_dueline(  # noqa: PLR0913 - each kind of broker has its switch
    stack: ExitStack,
    folder: Path,
    flush: str,
    *,
    is_compiled: bool = True,
    is_guarded: bool = False,
    before: Path | None = None,
) -> Running:
    """`dueline serve --no-spark`, which ends when `stack` is closed.

    Args:
        before: another work tree, whose broker it is.
    """
    python = {"PYTHONPATH": str(before / "src")} if before is not None else {}
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "dueline", "serve", "--no-spark", "--tethered"),
            *("--data", str(folder), "--remoting", f"127.0.0.1:{port}", "--name-server", "off"),
            *("--grpc", "off", "--http", "off", "--flight", "127.0.0.1:0"),
            *("--set", f"store.flush={flush}", "--set", f"store.levels={LEVELS}"),
            *("--set", f"compiled={str(is_compiled).lower()}"),
            *("--set", f"access.enabled={str(is_guarded).lower()}"),
        ],
        env={**os.environ, **python, "DUELINE_SUPER_USER": USER.token},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def end() -> None:
        assert process.stdin is not None
        process.send_signal(signal.SIGCONT)
        for pid in children_of(process.pid):
            os.kill(pid, signal.SIGCONT)
        process.stdin.close()
        process.wait(60)

    stack.callback(end)
    assert process.stdout is not None
    for line in process.stdout:
        if line.rstrip().endswith(f":{port}"):
            break
    else:
        raise RuntimeError(f"dueline serve: expected it to listen on {port}, found that it ended")
    pids = (broker_pid(process.pid), process.pid)
    name = "guarded" if is_guarded else "Dueline" if is_compiled else "interpreted"
    if before is not None:
        name = "before"
    return Running(
        name=name,
        flush=flush,
        address=f"127.0.0.1:{port}",
        pids=pids,
        is_guarded=is_guarded,
    )


def start_apache(stack: ExitStack, release: str, folder: Path, flush: str) -> Running:
    """One of Apache's brokers with its name server.

    Raises:
        RuntimeError: the tools to run it are not installed.
    """
    settings = {**_APACHE_SETTINGS, "flushDiskType": f"{flush.upper()}_FLUSH"}
    try:
        apache = _started(release, folder, settings)
    except pytest.skip.Exception as missing:
        raise RuntimeError(str(missing)) from None
    stack.enter_context(apache)
    assert apache.broker_process is not None
    assert apache.name_server_process is not None
    return Running(
        name=f"Apache {version(release)}",
        flush=flush,
        address=apache.broker,
        pids=(apache.broker_process.pid, apache.name_server_process.pid),
    )


def _started(release: str, folder: Path, settings: Mapping[str, str]) -> Apache:
    """Ports that were free may be taken by somebody else before Java binds them."""
    for attempt in range(START_ATTEMPTS_MAX - 1):
        try:
            return _start_once(release, folder / str(attempt), settings)
        except AssertionError:
            continue
    return _start_once(release, folder / "last", settings)


def _start_once(release: str, folder: Path, settings: Mapping[str, str]) -> Apache:
    folder.mkdir(parents=True)
    return Apache.start(release, folder, settings=settings, jvm=_JVM)


def version(release: str) -> str:
    """The release's number, from the name of its jar."""
    for jar in toolchain.build(release).glob("dependency/rocketmq-broker-*.jar"):
        return jar.stem.removeprefix("rocketmq-broker-")
    return _RELEASES[release]
