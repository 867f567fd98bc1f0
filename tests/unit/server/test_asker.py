"""The thread that has producers asked goes on, whatever a turn runs into."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.sending_world import START_MS, World
from tests.waiting import PATIENCE_S

from dueline.broker.asking import Ask
from dueline.broker.transactions import Half
from dueline.errors import Unavailable
from dueline.server.asker import Asker


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


@pytest.mark.parametrize("failure", [Unavailable("the disk is full"), RuntimeError("a mistake")])
def test_turn_that_fails_is_followed_by_another(world: World, failure: Exception) -> None:
    seen: list[Half] = []
    is_asked_again = threading.Event()

    def producers(half: Half) -> list[Ask]:
        seen.append(half)
        if len(seen) == 1:
            raise failure
        is_asked_again.set()
        return []

    world.broker.asking.add_door(producers)
    world.accepted("orders", TRAN_MSG="true", PGROUP="pg")
    world.clock.wall_ms = START_MS + 60_000
    failures: list[BaseException] = []
    asker = Asker(world.broker.asking, world.clock, on_failure=failures.append, turn_s=0.01)

    asker.start()
    try:
        assert is_asked_again.wait(PATIENCE_S)
    finally:
        asker.stop()
    assert failures == []
