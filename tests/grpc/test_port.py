"""The port as a part of a whole broker, by its settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.grpc.calls import Caller
from tests.ports import free_ports
from tests.waiting import PATIENCE_S

from dueline.config import load
from dueline.errors import InvalidRequest, Unavailable
from dueline.server.process import BrokerProcess

OK = 20000
PORTS_OFF = {
    "listen.flight": "127.0.0.1:0",
    "listen.name_server": "off",
    "listen.remoting": "off",
    "store.commit_segment_size": "16MiB",
    "store.delay_segment_size": "16MiB",
}


def broker_in(folder: Path, **settings: str) -> BrokerProcess:
    flags = {"data": str(folder), **PORTS_OFF, **settings}
    return BrokerProcess(load(environ={}, flags=flags).config)


def test_broker_serves_5x_clients_and_remembers_their_receipts(tmp_path: Path) -> None:
    for is_first in (True, False):
        broker = broker_in(tmp_path, **{"listen.grpc": "127.0.0.1:0"})
        broker.start()
        try:
            with Caller(f"127.0.0.1:{broker.grpc.port}") as caller:
                if is_first:
                    assert caller.send("t", {}).status.code == OK
                    _, (message,) = caller.receive("t")
                    assert caller.ack("t", message) == OK
                else:
                    assert caller.receive("t")[1] == []
        finally:
            broker.stop()


def test_port_can_be_off(tmp_path: Path) -> None:
    broker = broker_in(tmp_path, **{"listen.grpc": "off"})
    broker.start()
    try:
        assert broker.grpc.port is None
    finally:
        broker.stop()


def test_what_only_the_port_needs_is_loaded_with_it() -> None:
    program = (
        "import sys, dueline.server.process\n"
        "names = {'google.protobuf', 'dueline.wire.http2', 'cryptography', 'grpc'}\n"
        "before = names & set(sys.modules)\n"
        "import dueline.server.grpc.server\n"
        "print(sorted(before), sorted(names & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    assert result.stdout.strip() == "[] ['dueline.wire.http2', 'google.protobuf']"


def test_taken_port_is_a_clear_error_and_lets_go_of_the_store(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    first = broker_in(tmp_path / "first", **{"listen.grpc": address})
    first.start()
    try:
        with pytest.raises(Unavailable, match=address):
            broker_in(tmp_path / "second", **{"listen.grpc": address}).start()
    finally:
        first.stop()

    again = broker_in(tmp_path / "second", **{"listen.grpc": "127.0.0.1:0"})
    again.start()
    again.stop()


def test_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="both or neither"):
        broker_in(tmp_path, **{"tls.certificate": "some.pem"})
