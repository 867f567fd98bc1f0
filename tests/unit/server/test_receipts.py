"""The thread that writes receipts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.inflight.world import World
from tests.waiting import PATIENCE_S

from dueline.server.receipts import ReceiptWriter


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


def test_acknowledgements_are_written_and_answered(world: World) -> None:
    failures: list[BaseException] = []
    writer = ReceiptWriter(world.inflight, on_failure=failures.append)
    world.send("a")
    (held,) = world.take().messages
    answered = threading.Event()

    writer.start()
    world.inflight.acknowledge("g", "t", held.receipt, lambda error: answered.set())
    assert answered.wait(PATIENCE_S)
    writer.stop()
    world.inflight.close()

    world.restart(is_flushed=False)
    world.clock.advance(10_000)
    assert world.bodies() == []
    assert failures == []


def test_failed_write_ends_the_thread_with_a_word(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[BaseException] = []
    failed = threading.Event()
    errors: list[BaseException | None] = []

    def fail(error: BaseException) -> None:
        failures.append(error)
        failed.set()

    world.send("a")
    (held,) = world.take().messages

    def refuse(position: int, data: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(world.inflight._log._file, "write_at", refuse)
    writer = ReceiptWriter(world.inflight, on_failure=fail)
    writer.start()
    world.inflight.acknowledge("g", "t", held.receipt, errors.append)
    assert failed.wait(PATIENCE_S)
    writer.stop()

    assert errors == failures
