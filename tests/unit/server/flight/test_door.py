"""The Flight port as a whole."""

import socket
from pathlib import Path
from typing import Any

from tests.ports import free_port
from tests.unit.store.making import Wall, open_store

from dueline.broker.pipeline import Pipeline
from dueline.server.flight import FlightDoor


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_everything_is_ready_when_the_port_is_taken(tmp_path: Path) -> None:
    """A call may come at once: before, it found a door that was half made."""
    port, late = free_port(), []

    class Watched(FlightDoor):
        def __setattr__(self, name: str, value: Any) -> None:
            if is_taken(port):
                late.append(name)
            super().__setattr__(name, value)

    with open_store(tmp_path, Wall()) as store:
        door = Watched(Pipeline(store), shard="s", address=f"127.0.0.1:{port}")
        made = list(late)
        assert is_taken(port)
        door.start()
        door.stop()

    assert made == []
