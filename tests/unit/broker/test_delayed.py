"""Delayed messages that were accepted: every change of mind has a definite answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.broker.sending_world import START_MS, World

from dueline.broker.topics import Permission, TopicConfig
from dueline.errors import InvalidRequest, NotFound, Unavailable
from dueline.recall_handle import RecallHandle
from dueline.store import Answer, PutResult
from dueline.store.restore import deliveries
from dueline.store.schema import SCHEDULE_SCHEMA


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


def test_changes_of_mind_have_definite_answers(world: World) -> None:
    world.send("t", b"a", TIMER_DELAY_MS="5000", KEYS="a")
    world.send("t", b"b", TIMER_DELAY_MS="5000", KEYS="b")
    world.send("t", b"c", KEYS="c")
    delayed = world.broker.delayed

    assert [each.answer for each in delayed.cancel(["a", "c", "nobody"])] == [
        Answer.CANCELLED,
        Answer.DELIVERED,
        Answer.UNKNOWN,
    ]
    moves = [("b", START_MS + 9_000), ("a", START_MS + 9_000)]
    assert [each.answer for each in delayed.reschedule(moves)] == [
        Answer.RESCHEDULED,
        Answer.CANCELLED,
    ]
    assert [found.due_ms for found in delayed.find("b")][:1] == [START_MS + 9_000]


def test_what_waits_is_summed_up(world: World) -> None:
    for delay in ("1000", "1500", "61000"):
        world.send("t", b"x", TIMER_DELAY_MS=delay)

    summary = world.broker.delayed.pending(bucket_ms=60_000)

    assert summary.count == 3
    assert summary.next_due_ms == START_MS + 1_000
    assert summary.by_topic == {"t": 3}
    assert summary.by_bucket_ms == {960_000: 2, 1_020_000: 1}
    assert world.broker.delayed.pending(bucket_ms=60_000, topic="other").count == 0


def test_what_was_carried_over_and_is_not_due_waits_too(world: World) -> None:
    world.send("t", b"x", TIMER_DELAY_MS="1000")
    world.send("t", b"y", TIMER_DELAY_MS="90000")
    corner = world.store.next_corner(until_ms=START_MS + 30_000, row_count_max=10)
    world.store.deliver([deliveries(world.store.read_window(world.store.window(corner)))])

    summary = world.broker.delayed.pending(bucket_ms=60_000, topic="t")

    assert summary.count == 2
    assert summary.next_due_ms == START_MS + 1_000
    assert summary.by_bucket_ms == {960_000: 1, 1_080_000: 1}


def handle_of(
    result: PutResult,
    *,
    topic: str | None = None,
    broker_name: str = "dueline",
    unique_id: str | None = None,
) -> str:
    return RecallHandle(
        topic=topic or result.topic,
        broker_name=broker_name,
        due_ms=result.due_ms or 0,
        unique_id=unique_id or result.unique_id,
    ).encode()


def test_recall_takes_the_message_of_its_handle_and_no_other(world: World) -> None:
    first = world.accepted("t", TIMER_DELAY_MS="5000", UNIQ_KEY="one")
    world.accepted("t", TIMER_DELAY_MS="5000", UNIQ_KEY="two", KEYS="one")
    world.accepted("u", TIMER_DELAY_MS="5000", UNIQ_KEY="one")

    handle = world.sending.recall_handle(first)
    assert handle is not None
    assert world.broker.delayed.recall(handle, topic="t") == "one"

    world.carry()
    world.clock.advance(6_000)
    world.store.open_gate()
    assert sum(len(world.read("t", queue)) for queue in range(4)) == 1
    assert sum(len(world.read("u", queue)) for queue in range(4)) == 1


def test_recall_says_why_it_takes_nothing(world: World) -> None:
    delivered = world.accepted("t", UNIQ_KEY="done")
    waiting = world.accepted("t", TIMER_DELAY_MS="5000", UNIQ_KEY="waits")
    recall = world.broker.delayed.recall

    for text, kind, what in (
        ("nonsense", InvalidRequest, "recall handle"),
        (handle_of(waiting, broker_name="other"), InvalidRequest, "recall handle"),
        (handle_of(waiting, topic="other"), InvalidRequest, "recall handle"),
        (handle_of(delivered), InvalidRequest, "delivered message"),
        (handle_of(waiting, unique_id="nobody"), NotFound, "delayed message"),
    ):
        with pytest.raises(kind) as refused:
            recall(text, topic="t")
        assert refused.value.what == what
    with pytest.raises(NotFound) as refused:
        recall(handle_of(waiting, topic="never"), topic=None)
    assert refused.value.what == "topic"
    assert world.broker.delayed.pending(bucket_ms=60_000).count == 1


def test_message_of_a_deleted_topic_can_still_be_taken_back(world: World) -> None:
    waiting = world.accepted("t", TIMER_DELAY_MS="5000")
    world.broker.topics.delete("t")

    assert world.broker.delayed.recall(handle_of(waiting), topic="t") == waiting.unique_id


def rows(*topics: str) -> pa.Table:
    empty = dict.fromkeys(SCHEDULE_SCHEMA.names)
    return pa.Table.from_pylist(
        [{**empty, "topic": topic, "body": b"x", "delay_ms": 5_000} for topic in topics],
        schema=SCHEDULE_SCHEMA,
    )


def test_rows_make_their_topics_and_wait(world: World) -> None:
    result = world.broker.delayed.put_rows(rows("a", "b", "a"))

    assert (result.first_seq, result.count) == (0, 3)
    assert world.broker.delayed.pending(bucket_ms=60_000).by_topic == {"a": 2, "b": 1}
    assert {"a", "b"} <= world.topics()
    assert world.broker.topics.is_saved


def test_rows_are_accepted_all_or_none(world: World) -> None:
    closed = TopicConfig(
        topic_name="closed", read_queue_nums=1, write_queue_nums=1, perm=int(Permission.READ)
    )
    world.broker.topics.put(closed)

    with pytest.raises(InvalidRequest) as refused:
        world.broker.delayed.put_rows(rows("a", "closed"))

    assert refused.value.what == "permission"
    assert "a" not in world.topics()
    assert world.broker.delayed.pending(bucket_ms=60_000).count == 0


@pytest.mark.parametrize(
    "verb",
    [
        lambda world: world.broker.delayed.cancel(["k"]),
        lambda world: world.broker.delayed.reschedule([("k", 1)]),
        lambda world: world.broker.delayed.recall("x", topic=None),
        lambda world: world.broker.delayed.put_rows(rows("a")),
    ],
)
def test_stopping_broker_changes_nothing(world: World, verb: Callable[[World], object]) -> None:
    world.broker.acceptance.end()

    with pytest.raises(Unavailable, match="stopping"):
        verb(world)


def test_levels_say_how_far_they_are(world: World) -> None:
    assert world.broker.delayed.levels() == {}
    for _ in range(3):
        world.send("t", b"soon", DELAY="1")
    world.send("t", b"later", DELAY="5")
    world.send("t", b"timed", TIMER_DELAY_MS="5000")

    assert world.broker.delayed.levels() == {1: (0, 3), 5: (0, 1)}

    world.carry()  # all of them, ahead of time
    world.send("t", b"soon", DELAY="1")
    assert world.broker.delayed.levels() == {1: (3, 4), 5: (1, 1)}
