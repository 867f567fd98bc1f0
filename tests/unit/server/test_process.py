import gc
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port
from tests.unit.server.local import (
    carry,
    connect,
    outgoing,
    running,
    send,
    send_by,
    small_config,
    visible_bodies,
)
from tests.waiting import wait_until

from dueline.clock import Clock
from dueline.errors import InvalidRequest, StoreFailed, Unavailable
from dueline.flight.operators import OperatorClient
from dueline.server.process import BrokerProcess
from dueline.store import Files, StoreOptions
from dueline.store.files import File


def test_everything_is_there_again_after_a_restart(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    with running(config) as broker:
        send(broker, outgoing("now"))
        send(broker, outgoing("carried over", TIMER_DELAY_MS="200"))
        carry(broker.store)
        send(broker, outgoing("pending", TIMER_DELAY_MS="3600000"))
        broker.broker.offsets.set("g", "orders", {0: 1})

    with running(config) as broker:
        wait_until(lambda: visible_bodies(broker) == ["now", "carried over"], "the carried one")
        assert broker.store.pending_count() == 1
        assert broker.broker.offsets.get("g", "orders") == {0: 1}


def test_what_a_broker_begins_with_is_not_looked_through_for_garbage(tmp_path: Path) -> None:
    gc.unfreeze()
    with running(replace(small_config(tmp_path), compiled=False)):
        assert gc.get_freeze_count() > 10_000
    gc.unfreeze()


def test_stopping_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with running(small_config(tmp_path)):
        assert {thread.name for thread in threading.enumerate()} >= {
            "writer",
            "gate",
            "caretaker",
            "flight",
        }

    # One that compiles is nobody's to wait for.
    left = [thread.name for thread in set(threading.enumerate()) - before]
    assert set(left) <= {"kernels"}


def test_a_message_acknowledged_while_the_broker_stops_is_kept(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    acknowledged: list[str] = []
    broker = BrokerProcess(config)
    broker.start()

    def produce() -> None:
        with connect(broker) as peer:
            for number in range(100_000):
                try:
                    (refusal,) = send_by(peer, outgoing(f"{number}"))
                except ConnectionError:
                    return
                if refusal is not None:
                    return
                acknowledged.append(f"{number}")

    producer = threading.Thread(target=produce)
    producer.start()
    wait_until(lambda: len(acknowledged) > 20, "some messages")
    broker.stop()
    producer.join()

    with running(config) as broker:
        assert visible_bodies(broker)[: len(acknowledged)] == acknowledged


def test_a_stopping_broker_says_so(tmp_path: Path) -> None:
    with running(small_config(tmp_path)) as broker:
        broker.refuse()

        (refusal,) = send(broker, outgoing("x"))

    assert "stopping" in str(refusal)


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with running(small_config(tmp_path / "a")) as broker:
        config = small_config(tmp_path / "b", **{"listen.flight": broker.address})

        with pytest.raises(Unavailable, match=r"listen\.flight: expected to listen on"):
            BrokerProcess(config).start()

        # The store was let go: another process may open it.
        opened = subprocess.run(
            [sys.executable, "-c", OPEN_STORE, str(config.store_folder)], check=False
        )
        assert opened.returncode == 0


def test_a_start_that_fails_half_way_leaves_nothing_running(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flight_port = free_port()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        flags = {"listen.grpc": address, "tls.mode": "disabled"}
        flags["listen.flight"] = f"127.0.0.1:{flight_port}"
        config = small_config(tmp_path, **flags)
        before = set(threading.enumerate())

        with pytest.raises(Unavailable, match=r"listen\.grpc: expected to listen on"):
            BrokerProcess(config).start()

        wait_until(lambda: set(threading.enumerate()) <= before, "the end of all threads")
        socket.create_server(("127.0.0.1", flight_port)).close()
    with running(small_config(tmp_path)):
        pass  # nobody else has the store


OPEN_STORE = """
import sys
from dueline.store import Store, StoreOptions
size = 1 << 20
options = StoreOptions(commit_segment_size_bytes=size, delay_segment_size_bytes=size)
Store.open(sys.argv[1], options).close()
"""


def test_an_address_for_all_is_called_by_loopback(tmp_path: Path) -> None:
    with running(small_config(tmp_path, **{"listen.flight": "0.0.0.0:0"})) as broker:
        assert broker.address == f"0.0.0.0:{broker.service.port}"
        assert broker.local_address == f"127.0.0.1:{broker.service.port}"
        with OperatorClient(broker.local_address) as client:
            assert client.describe().shard == "dueline"


class FailingFile(File):
    """A disk that fails once it is told to."""

    is_broken: Callable[[], bool] = staticmethod(lambda: False)

    def write_at(self, position: int, data: Any) -> None:
        if self.is_broken():
            raise OSError(5, "Input/output error")
        super().write_at(position, data)


class FailingFiles(Files):
    def __init__(self) -> None:
        self.is_broken = False

    def open(self, path: Path, *, writable: bool = False) -> File:
        file = FailingFile(path, writable=writable)
        file.is_broken = lambda: self.is_broken
        return file


def test_a_failed_write_is_reported_and_the_next_start_has_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    config, files = small_config(tmp_path), FailingFiles()
    failures: list[BaseException] = []
    broker = BrokerProcess(config, clock=Clock(), files=files, on_failure=failures.append)
    broker.start()
    with connect(broker) as peer:
        assert send_by(peer, outgoing("kept")) == [None]
        files.is_broken = True
        (lost,) = send_by(peer, outgoing("lost"))
        (refused,) = send_by(peer, outgoing("refused"))
    files.is_broken = False
    broker.stop()

    assert "closed by a failed write" in str(lost)
    assert refused is not None
    assert [type(failure) for failure in failures] == [StoreFailed]
    with running(config) as broker:
        assert visible_bodies(broker)[0] == "kept"
        assert "refused" not in visible_bodies(broker)


def test_the_stores_options_are_the_configured_ones(tmp_path: Path) -> None:
    config = small_config(tmp_path, **{"store.flush": "async", "store.levels": "2s 3s"})

    with running(config) as broker:
        options = broker.store.options

    assert (options.flush, options.levels) == ("async", "2s 3s")
    assert options.retention_ms == StoreOptions().retention_ms


def test_access_control_needs_a_first_super_user_and_no_default(tmp_path: Path) -> None:
    config = small_config(tmp_path / "data", **{"access.enabled": "true"})
    with pytest.raises(InvalidRequest, match="expected a super user who can make others"):
        BrokerProcess(config).start()

    token = tmp_path / "admin.token"
    token.write_text("admin:a secret of admin")
    flags = {"access.enabled": "true", "access.super_user_file": str(token)}
    with running(small_config(tmp_path / "data", **flags)) as broker:
        assert list(broker.broker.access.users) == ["admin"]
        assert broker.broker.access.users["admin"].is_super

    token.unlink()  # it is not needed any more
    with running(small_config(tmp_path / "data", **flags)) as broker:
        assert list(broker.broker.access.users) == ["admin"]


def test_the_first_super_user_may_come_from_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUELINE_SUPER_USER", "root:a secret of root")
    with running(small_config(tmp_path, **{"access.enabled": "true"})) as broker:
        assert list(broker.broker.access.users) == ["root"]
