"""Reading: who may, what a filter leaves, who is woken, and what is found by key, id and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.broker.reading_world import QUEUE, START_MS, ReadingWorld, reading_world

from dueline.broker import BrokerOptions, reading
from dueline.broker.filters import filter_of
from dueline.broker.group_configs import GroupConfig
from dueline.broker.groups import Consumption, Member, Subscription
from dueline.broker.reading import Pull
from dueline.broker.topics import TopicConfig
from dueline.errors import BrokerError, NotFound
from dueline.message import DELAY_LOG_MARK, Message, parse_message_id
from dueline.store import PutResult, ReadStatus
from dueline.store import record as records


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReadingWorld]:
    with reading_world(tmp_path) as world:
        yield world


# Waiting


def test_a_reader_at_the_end_is_woken_and_then_finds_the_message(world: ReadingWorld) -> None:
    woken: list[int] = []
    waiting = world.reading.pull(QUEUE, 0, lambda: woken.append(1))
    assert waiting.result.status is ReadStatus.AT_END
    assert waiting.watch is not None

    world.send("a", "b")

    assert woken == [1]
    found = world.reading.pull(QUEUE, 0, lambda: woken.append(2))
    assert [records.decode(view).body for view in found.result.records] == [b"a", b"b"]
    assert found.watch is None


def test_a_delayed_message_wakes_its_reader_when_it_is_due_and_not_before(
    world: ReadingWorld,
) -> None:
    woken: list[int] = []
    world.send("a", TIMER_DELAY_MS="1000")
    world.reading.pull(QUEUE, 0, lambda: woken.append(world.clock.now_ms()))

    world.carry()
    world.clock.advance(999)
    world.store.open_gate()
    assert woken == []
    world.clock.advance(1)
    world.store.open_gate()

    assert woken == [START_MS + 1_000]


def test_a_message_that_comes_between_reading_and_watching_is_not_missed(
    world: ReadingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = world.reading.watch

    def late_watch(*arguments: object) -> object:
        world.send("just now")
        return watch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(world.reading, "watch", late_watch)

    pulled = world.reading.pull(QUEUE, 0, lambda: None)

    assert pulled.result.status is ReadStatus.FOUND
    assert len(world.reading.watches) == 0


def test_a_reader_beyond_the_end_does_not_wait(world: ReadingWorld) -> None:
    pulled = world.reading.pull(QUEUE, 5, lambda: None)

    assert (pulled.result.status, pulled.watch) == (ReadStatus.BEYOND_END, None)


def test_a_stopping_broker_lets_readers_go(world: ReadingWorld) -> None:
    woken: list[int] = []
    world.reading.pull(QUEUE, 0, lambda: woken.append(1))

    world.broker.refuse()

    assert woken == [1]
    assert world.reading.pull(QUEUE, 0, lambda: None).watch is None
    world.reading.watch("t", 0, lambda: woken.append(2))
    assert woken == [1, 2]


# Filters


def test_a_filter_leaves_what_it_wants_and_goes_on_over_what_it_does_not(
    world: ReadingWorld,
) -> None:
    world.send(*(f"x{number}" for number in range(100)), TAGS="other")
    world.send("wanted", TAGS="paid")
    world.send("y", TAGS="other")

    few = replace(QUEUE, count_max=8)
    assert world.bodies(replace(few, wanted=filter_of("paid"))) == (["wanted"], 102)
    by_condition = replace(few, wanted=filter_of("TAGS = 'paid'", "SQL92"))
    assert world.bodies(by_condition) == (["wanted"], 102)
    assert world.bodies(replace(few, wanted=filter_of("nothing"))) == ([], 102)


def test_a_pull_that_looks_for_long_stops_and_says_where_to_go_on(
    world: ReadingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SCAN_COUNT_MAX", 2)
    world.send(*"abcdefgh", TAGS="other")
    pull = replace(QUEUE, count_max=2, wanted=filter_of("paid"))

    result = world.reading.pull(pull, 0, lambda: None).result

    assert (result.status, result.next_offset) == (ReadStatus.NO_MATCH, 4)


def test_a_condition_has_a_bound_of_work(
    world: ReadingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WORK_MAX", 10)
    world.send(*"abcdefgh", price="5")
    wanted = filter_of("price > 1 AND price < 9", "SQL92")

    found, following = world.bodies(replace(QUEUE, wanted=wanted))

    assert found == list("abcdefgh")[:following]
    assert 0 < following < 8


def test_tags_with_one_hash_are_told_apart_where_the_reader_cannot(world: ReadingWorld) -> None:
    world.send("wanted", TAGS="Aa")
    world.send("alike", TAGS="BB")  # in Java's hash, as in ours, the same
    pull = replace(QUEUE, wanted=filter_of("Aa"))

    assert world.bodies(pull) == (["wanted", "alike"], 2)
    assert world.bodies(replace(pull, is_exact=True)) == (["wanted"], 2)


# Who may


def what(error: BrokerError) -> object:
    return error.details.get("what") or error.details.get("field")


def test_closed_topics_and_stopped_groups_are_refused(world: ReadingWorld) -> None:
    topics, groups = world.broker.topics, world.broker.group_table
    topics.put(TopicConfig(topic_name="closed", read_queue_nums=1, write_queue_nums=1, perm=2))
    topics.put(TopicConfig(topic_name="t", read_queue_nums=2, write_queue_nums=4))
    groups.put(GroupConfig(group_name="stopped", consume_enable=False))

    world.reading.check("g", "t", 1)
    refused = {
        ("g", "closed", 0): "permission",
        ("stopped", "t", 0): "permission",
        ("g", "t", 2): "queue_id",
        ("g", "t", -1): "queue_id",
        ("g", "nowhere", 0): "topic",
        ("CID_RMQ_SYS_TRANS", "t", 0): "group",
    }
    for attempt, expected in refused.items():
        with pytest.raises(BrokerError) as caught:
            world.reading.check(*attempt)
        assert what(caught.value) == expected, attempt


def test_a_group_that_is_not_made_by_being_used_is_refused(tmp_path: Path) -> None:
    with reading_world(tmp_path, BrokerOptions(auto_create_groups=False)) as world:
        world.send("a")
        with pytest.raises(NotFound) as caught:
            world.reading.check("g", "t", 0)
        assert what(caught.value) == "group"


def test_a_group_reads_by_its_newest_subscription(world: ReadingWorld) -> None:
    def subscribe(group: str, model: str = "CLUSTERING") -> None:
        world.broker.groups.consumer(
            group,
            Member(client_id="c", channel=None),
            Consumption(message_model=model),
            [Subscription(topic="t", expression="paid", version=7)],
        )

    subscribe("g")
    matches = world.reading.subscribed("g", "t", 7).matches
    assert matches is not None
    assert matches({"TAGS": "paid"})
    assert not matches({"TAGS": "x"})

    subscribe("loud", "BROADCASTING")
    world.broker.group_table.put(GroupConfig(group_name="loud", consume_broadcast_enable=False))
    refused = {
        ("g", "t", 8): "newest subscription",
        ("g", "other", 0): "subscription",
        ("nobody", "t", 0): "subscription",
        ("loud", "t", 0): "permission",
    }
    for attempt, expected in refused.items():
        with pytest.raises(BrokerError) as caught:
            world.reading.subscribed(*attempt)
        assert what(caught.value) == expected, attempt


# Looking up


def test_places_are_found_by_time(world: ReadingWorld) -> None:
    for body in "abc":
        world.send(body)
        world.clock.advance(1_000)

    assert world.reading.offset_range("t", 0) == (0, 3)
    assert world.reading.offset_range("nowhere", 0) == (0, 0)
    at = {ms: world.reading.offset_at("t", 0, START_MS + ms) for ms in (-1, 0, 1, 1_000, 9_000)}
    assert at == {-1: 0, 0: 0, 1: 1, 1_000: 1, 9_000: 3}
    until = {
        ms: world.reading.last_offset_until("t", 0, START_MS + ms) for ms in (-1, 0, 999, 1_000)
    }
    assert until == {-1: 0, 0: 0, 999: 0, 1_000: 1}
    assert world.reading.shown_ms("t", 0, 1) == START_MS + 1_000
    assert (world.reading.shown_ms("t", 0, 3), world.reading.shown_ms("t", 0, -1)) == (0, 0)


def message(body: str, **properties: str) -> Message:
    return Message(topic="t", body=body.encode(), properties={"KEYS": "k", **properties})


def test_messages_are_found_by_key_and_by_offset_id(world: ReadingWorld) -> None:
    (result,) = world.broker.store.put_all([message("now")])
    assert isinstance(result, PutResult)
    (delayed,) = world.broker.store.put_all([message("later", TIMER_DELAY_MS="5000")])
    assert isinstance(delayed, PutResult)

    assert [found.body for found in world.reading.by_key("t", "k")] == [b"now"]
    assert world.reading.by_key("other", "k") == []
    assert world.reading.by_position(result.position).body == b"now"
    _, position = parse_message_id(delayed.message_id)
    assert position & DELAY_LOG_MARK
    found = world.reading.by_position(position)
    assert (found.body, found.position) == (b"later", position)
    for nowhere in (position + 1, result.position + 1):
        with pytest.raises(NotFound):
            world.reading.by_position(nowhere)


def test_a_pull_has_bounds_of_count_and_size(world: ReadingWorld) -> None:
    world.send(*("x" * 1_000 for _ in range(5)))

    assert world.bodies(Pull(topic="t", queue_id=0, count_max=3))[1] == 3
    assert world.bodies(Pull(topic="t", queue_id=0, size_bytes_max=2_500))[1] == 2
    assert world.bodies(Pull(topic="t", queue_id=0, size_bytes_max=1))[1] == 1


def test_units_say_where_the_messages_of_a_queue_stand(world: ReadingWorld) -> None:
    assert world.reading.units("t", 0, 0, count_max=10) == []
    assert world.reading.first_stored_ms() is None
    world.send(*(str(number) for number in range(50)))
    world.clock.advance(1_000)

    units = world.reading.units("t", 0, 3, count_max=40)

    assert len(units) == 40
    for number, unit in enumerate(units, start=3):
        record = world.reading.by_position(unit.position)
        assert (record.body, record.size_bytes) == (str(number).encode(), unit.size_bytes)
    assert len(world.reading.units("t", 0, 3, count_max=100)) == 47
    assert world.reading.first_stored_ms() == START_MS
