from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.local import carry, outgoing, running, send, small_config
from tests.waiting import wait_until

from dueline.broker.inspecting import Inspecting
from dueline.server.process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(small_config(tmp_path)) as broker:
        yield broker


@pytest.fixture
def inspecting(broker: BrokerProcess) -> Inspecting:
    return broker.broker.inspecting


def test_a_delivered_message_says_where_it_is_and_who_has_read_it(
    broker: BrokerProcess, inspecting: Inspecting
) -> None:
    send(broker, outgoing("first"), outgoing("x", KEYS="k", TAGS="t", TIMER_DELAY_MS="20"))
    carry(broker.store)
    wait_until(lambda: inspecting.stories("k")[0].state == "delivered" or None, "its delivery")
    broker.broker.offsets.set("past", "orders", {0: 2})
    broker.broker.offsets.set("behind", "orders", {0: 1})

    (story,) = inspecting.stories("k")

    assert (story.topic, story.body, story.properties["TAGS"]) == ("orders", b"x", "t")
    assert story.place is not None
    assert (story.place.topic, story.place.queue_id, story.place.offset) == ("orders", 0, 1)
    assert story.readers == {"behind": False, "past": True}
    assert story.due_ms is not None
    assert max(story.accepted_ms, story.due_ms) <= story.place.visible_ms
    assert [each.place for each in inspecting.stories("k", topic="orders")] == [story.place]
    assert inspecting.stories(story.unique_id) == [story]


def test_a_message_that_was_never_delayed_is_found_in_its_topic(
    broker: BrokerProcess, inspecting: Inspecting
) -> None:
    send(broker, outgoing("x", KEYS="k"))

    (story,) = inspecting.stories("k", topic="orders")

    assert (story.state, story.number, story.due_ms) == ("delivered", None, None)
    assert inspecting.stories("k") == []
    assert inspecting.stories("k", topic="other") == []


def test_a_message_that_was_moved_has_a_story_for_each_time(
    broker: BrokerProcess, inspecting: Inspecting
) -> None:
    send(broker, outgoing("x", KEYS="k", TIMER_DELAY_MS="3600000"))
    due_ms = broker.clock.now_ms() + 7_200_000
    broker.broker.delayed.reschedule([("k", due_ms)])

    stories = inspecting.stories("k")

    assert [each.state for each in stories] == ["pending", "moved"]
    assert stories[0].due_ms == due_ms
    assert [each.place for each in stories] == [None, None]
