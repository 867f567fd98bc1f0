"""A broker with few files: strangers that use them up stop neither the store nor the others."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.children import broker_pid
from tests.remoting.peer import Peer
from tests.serve.conftest import clean_environment
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

FILE_COUNT = 512
PORTS = {
    "--flight": r"accepting on (\S+)",
    "--name-server": r"RocketMQ name server on (\S+)",
    "--remoting": r"RocketMQ broker on (\S+)",
    "--grpc": r"RocketMQ 5\.x clients on (\S+)",
}


class Scarce:
    """`dueline serve` without a pipeline in a process that may open few files."""

    def __init__(self, folder: Path) -> None:
        self.output = folder / "output"
        words = [word for flag in PORTS for word in (flag, "127.0.0.1:0")]
        command = [sys.executable, "-m", "dueline", "serve", "--tethered", "--no-spark", *words]
        command += ["--http", "off", "--data", str(folder / "data")]
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                ["sh", "-c", f'ulimit -n {FILE_COUNT} && exec "$@"', "sh", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=clean_environment(),
            )

    def address(self, flag: str) -> tuple[str, int]:
        def found() -> str | None:
            match = re.search(PORTS[flag], self.output.read_text())
            assert match or self.process.poll() is None, self.output.read_text()
            return match.group(1) if match else None

        host, _, port = wait_until(found, flag).rpartition(":")
        return host, int(port)

    @property
    def file_count(self) -> int:
        return len(list(Path(f"/proc/{broker_pid(self.process.pid)}/fd").iterdir()))


@pytest.fixture
def scarce(tmp_path: Path) -> Iterator[Scarce]:
    made = Scarce(tmp_path)
    yield made
    made.process.terminate()
    made.process.communicate(timeout=PATIENCE_S)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts files by /proc")
def test_idle_strangers_on_all_ports_leave_files_for_the_store_and_for_others(
    scarce: Scarce,
) -> None:
    addresses = [scarce.address(flag) for flag in PORTS]
    with ExitStack() as stack:
        for address in addresses * 300:
            with suppress(OSError):  # refused, as it should be at some time
                stack.enter_context(socket.create_connection(address, timeout=PATIENCE_S))

        wait_until(lambda: scarce.file_count < FILE_COUNT - 128, "some files are left")
        host, port = scarce.address("--remoting")
        for number in range(40):
            wait_until(lambda n=number: is_sent(host, port, f"topic-{n}"), "a send")  # type: ignore[misc]

    assert scarce.process.poll() is None


def is_sent(host: str, port: int, topic: str) -> bool:
    """A client that comes now: it may be refused for a moment, until idle ones are closed."""
    with suppress(OSError, EOFError), Peer(f"{host}:{port}") as peer:
        return peer.send_message(topic).code == 0
    return False
