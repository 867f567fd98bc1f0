"""How far groups are: committed inside of the queue, reset by an operator, shown to people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.broker.reading_world import START_MS, ReadingWorld, reading_world

from dueline.broker import BrokerOptions, progress
from dueline.broker.progress import QueueLag, QueueTimes
from dueline.errors import BrokerError, InvalidRequest, NotFound


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReadingWorld]:
    """A topic with a message each second, in one of its four queues."""
    with reading_world(tmp_path) as world:
        for body in "abcd":
            world.send(body)
            world.clock.advance(1_000)
        world.broker.topics.find("t")
        yield world


def test_a_group_goes_on_where_it_has_committed(world: ReadingWorld) -> None:
    assert world.progress.offset("g", "t", 0) is None

    world.progress.commit("g", "t", 0, 4)
    assert world.progress.offset("g", "t", 0) == 4
    world.progress.commit("g", "t", 0, 2)
    assert world.progress.offset("g", "t", 0) == 2


def test_a_group_that_commits_exists_with_its_retry_topic(world: ReadingWorld) -> None:
    """Tools ask for that topic before they show how far the group is."""
    world.progress.commit("g", "t", 0, 1)

    assert world.broker.group_table.get("g") is not None
    assert world.broker.topics.get("%RETRY%g") is not None


def test_the_brokers_own_group_is_not_moved_even_if_the_file_of_groups_lists_it(
    tmp_path: Path,
) -> None:
    """As a file does that comes from another broker; to move it would undo transactions."""
    own = "CID_RMQ_SYS_TRANS"
    folder = tmp_path / "store" / "config"
    folder.mkdir(parents=True)
    table = {"subscriptionGroupTable": {own: {"groupName": own}}}
    (folder / "subscriptionGroup.json").write_text(json.dumps(table))
    with reading_world(tmp_path) as world:
        world.send("a")
        world.broker.topics.find("t")
        attempts: list[Callable[[], object]] = [
            lambda: world.reading.check(own, "t", 0),
            lambda: world.progress.commit(own, "t", 0, 1),
            lambda: world.progress.reset(own, "t"),
        ]
        for attempt in attempts:
            with pytest.raises(InvalidRequest) as caught:
                attempt()
            assert caught.value.details["field"] == "group"
        assert world.broker.offsets.all() == {}


def test_what_cannot_be_is_not_committed(world: ReadingWorld) -> None:
    refused = {
        ("g", "t", 0, 5): "offset",  # would skip a message that is yet to come
        ("g", "t", 0, -1): "offset",
        ("g", "t", 4, 0): "queue_id",
        ("g", "nowhere", 0, 0): "topic",
        ("CID_RMQ_SYS_TRANS", "t", 0, 0): "group",
        ("a group", "t", 0, 0): "group",
    }
    for attempt, expected in refused.items():
        with pytest.raises(BrokerError) as caught:
            world.progress.commit(*attempt)
        details = caught.value.details
        assert expected in (details.get("what"), details.get("field")), attempt
    assert world.broker.offsets.all() == {}


def test_an_unknown_group_cannot_commit_where_groups_are_created(tmp_path: Path) -> None:
    with reading_world(tmp_path, BrokerOptions(auto_create_groups=False)) as world:
        world.send("a")
        with pytest.raises(NotFound):
            world.progress.commit("g", "t", 0, 1)


def test_a_new_group_reads_a_young_queue_whole(
    world: ReadingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.progress.first_offset("g", "t", 0) == 0
    monkeypatch.setattr(progress, "YOUNG_COUNT_MAX", 3)
    assert world.progress.first_offset("g", "t", 0) is None
    world.progress.commit("g", "t", 0, 3)
    assert world.progress.first_offset("g", "t", 0) == 3


def test_an_operator_sends_a_group_elsewhere(world: ReadingWorld) -> None:
    reset = world.progress.reset
    assert reset("g", "t", timestamp_ms=START_MS + 1_500) == {0: 2, 1: 0, 2: 0, 3: 0}
    assert reset("g", "t", queue_id=0) == {0: 4}
    assert reset("g", "t", queue_id=0, offset=99) == {0: 4}
    assert reset("g", "t", queue_id=0, offset=1) == {0: 1}
    assert reset("g", "t", queue_id=0, offset=3, may_skip=False) == {0: 1}
    assert world.progress.offset("g", "t", 0) == 1
    for group, queue_id in (("CID_RMQ_SYS_TRANS", 0), ("g", 4)):
        with pytest.raises(InvalidRequest):
            reset(group, "t", queue_id=queue_id)


def test_those_who_hold_messages_are_told_of_a_reset(world: ReadingWorld) -> None:
    told: list[tuple[str, str, dict[int, int]]] = []
    world.broker.offsets.on_reset(lambda group, topic, at: told.append((group, topic, dict(at))))

    world.progress.reset("g", "t", queue_id=0)

    assert told == [("g", "t", {0: 4})]


def test_progress_is_shown_by_queue(world: ReadingWorld) -> None:
    world.progress.commit("g", "t", 0, 3)
    world.broker.offsets.set("CID_RMQ_SYS_TRANS", "t", {0: 1})

    lags = world.progress.of_topic("g", "t")

    assert lags[0] == QueueLag(offset=3, end=4, consumed_ms=START_MS + 2_000)
    assert lags[1] == QueueLag(offset=0, end=0, consumed_ms=0)
    assert world.progress.of_groups() == {"g": {"t": lags}}
    assert world.progress.times("g", "t")[0] == QueueTimes(
        first_ms=START_MS,
        last_ms=START_MS + 3_000,
        consumed_ms=START_MS + 2_000,
        next_ms=START_MS + 3_000,
    )
