"""What may be sent and where it goes, whichever protocol asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.broker.sending_world import START_MS, World

from dueline.broker import transactions
from dueline.broker.group_configs import GroupConfig
from dueline.broker.sending import BATCH_COUNT_MAX
from dueline.broker.topics import Permission, TopicConfig
from dueline.broker.writing import Results
from dueline.errors import InvalidRequest, LimitExceeded, NotFound, Unavailable
from dueline.message import Message, decode_properties
from dueline.recall_handle import RecallHandle
from dueline.store import PutResult


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


def test_first_message_makes_its_topic(world: World) -> None:
    (result,) = world.send("orders", b"x")

    assert isinstance(result, PutResult)
    assert "orders" in world.topics()
    assert world.broker.topics.has_saved("orders")


@pytest.mark.parametrize(
    ("body", "properties"),
    [(bytes(10_001), {}), (b"x", {"TIMER_DELAY_MS": str(11 * 366 * 86_400_000)})],
)
def test_refused_first_message_makes_no_topic(
    world: World, body: bytes, properties: dict[str, str]
) -> None:
    (result,) = world.send("orders", body, **properties)

    assert isinstance(result, LimitExceeded)
    assert "orders" not in world.topics()
    assert world.groups == []


def test_one_good_message_of_several_makes_the_topic(world: World) -> None:
    good, bad = world.send("orders", b"x", bytes(10_001))

    assert isinstance(good, PutResult)
    assert isinstance(bad, LimitExceeded)
    assert "orders" in world.topics()


@pytest.mark.parametrize(
    ("topic", "is_client_4x", "is_refused"),
    [
        ("orders", True, False),
        ("orders", False, False),
        ("%RETRY%g", True, False),
        ("%RETRY%g", False, True),
        ("%DLQ%g", True, False),
        ("%DLQ%g", False, True),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", True, True),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", False, True),
        ("a/b", True, True),
    ],
)
def test_who_may_send_where(world: World, topic: str, is_client_4x: bool, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(InvalidRequest):
            world.sending.destination(topic, is_client_4x=is_client_4x)
    else:
        assert world.sending.destination(topic, is_client_4x=is_client_4x).topic == topic
    assert topic not in world.topics() - {"RMQ_SYS_TRANS_OP_HALF_TOPIC"}


def topic_of(world: World, *, write_queue_nums: int = 4, perm: int = 6) -> None:
    world.broker.topics.put(
        TopicConfig(topic_name="t", read_queue_nums=4, write_queue_nums=write_queue_nums, perm=perm)
    )


def test_topic_that_may_not_be_written_is_refused(world: World) -> None:
    topic_of(world, perm=int(Permission.READ))

    with pytest.raises(InvalidRequest) as refused:
        world.sending.destination("t")
    assert refused.value.what == "permission"


def test_topic_without_queues_to_write_to_has_none_to_choose(world: World) -> None:
    topic_of(world, write_queue_nums=0)

    with pytest.raises(InvalidRequest) as refused:
        world.sending.destination("t")
    assert refused.value.what == "permission"
    assert world.sending.destination("t", queue_id=3).queue_id == 3


@pytest.mark.parametrize(("queue_id", "is_refused"), [(3, False), (4, True), (65_535, True)])
def test_queue_must_be_one_of_the_topic(world: World, queue_id: int, is_refused: bool) -> None:
    topic_of(world)

    if is_refused:
        with pytest.raises(InvalidRequest, match="queue id"):
            world.sending.destination("t", queue_id=queue_id)
    else:
        assert world.sending.queue_id(world.sending.destination("t", queue_id=3), {}) == 3


def test_messages_of_one_message_group_go_to_one_queue_and_others_in_turn(world: World) -> None:
    destination = world.sending.destination("t")

    in_turn = [world.sending.queue_id(destination, {}) for _ in range(8)]
    of_group = {world.sending.queue_id(destination, {"__SHARDINGKEY": "g"}) for _ in range(8)}

    assert sorted(in_turn) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len(of_group) == 1


def test_destination_is_good_until_the_topic_changes(world: World) -> None:
    planned = world.sending.destination("t")
    assert not world.sending.is_current(planned)
    world.send("t", b"x")
    destination = world.sending.destination("t")
    assert world.sending.is_current(destination)

    world.broker.topics.put(replace(destination.config, perm=int(Permission.READ)))

    assert not world.sending.is_current(destination)


def test_half_messages_are_refused_while_there_is_no_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "UNDECIDED_COUNT_MAX", 1)
    world.send("t", b"1", TRAN_MSG="true", PGROUP="p")
    world.broker.transactions.refresh()

    with pytest.raises(LimitExceeded, match="undecided"):
        world.send("t", b"2", TRAN_MSG="true", PGROUP="p")
    world.accepted("t", b"3")


def test_stopping_broker_refuses_at_once(world: World) -> None:
    destination = world.sending.destination("t")
    world.broker.acceptance.end()

    with pytest.raises(Unavailable, match="stopping"):
        world.send(destination, b"x")
    with pytest.raises(Unavailable, match="stopping"):
        world.sending.send_back(0, group="g", delay_level=0, attempts_max=None, done=print)
    assert "t" not in world.topics()


def test_delayed_message_is_answered_with_a_handle_that_names_it(world: World) -> None:
    delayed, plain = world.accepted("t", TIMER_DELAY_MS="5000"), world.accepted("t")

    handle = RecallHandle.decode(world.sending.recall_handle(delayed) or "")
    assert (handle.topic, handle.due_ms) == ("t", START_MS + 5_000)
    assert handle.unique_id == delayed.unique_id
    assert world.sending.recall_handle(plain) is None


# Batches


def batch(world: World, *messages: Message, topic: str = "t", **properties: str) -> None:
    world.sending.check_batch(
        world.sending.destination(topic, is_client_4x=True),
        messages,
        properties=properties,
        properties_size_max=100,
    )


def test_batch_of_ordinary_and_of_delayed_messages_passes(world: World) -> None:
    batch(
        world,
        Message(topic="t", body=b"1"),
        Message(topic="t", body=b"2", properties={"TIMER_DELAY_MS": "5"}),
    )


PLAIN = Message(topic="t", body=b"x")
FAR = {"TIMER_DELAY_MS": str(11 * 366 * 86_400_000)}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([], id="none"),
        pytest.param([PLAIN] * (BATCH_COUNT_MAX + 1), id="too many"),
        pytest.param([replace(PLAIN, sys_flag=4)], id="of a transaction"),
        pytest.param([PLAIN, replace(PLAIN, body=bytes(10_001))], id="too large"),
        pytest.param([PLAIN, replace(PLAIN, properties=FAR)], id="too far"),
    ],
)
def test_batch_is_refused_as_a_whole(world: World, messages: list[Message]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        batch(world, *messages)
    assert refused.value.what == "message"


def test_batch_has_no_delay_level_and_no_retry_topic(world: World) -> None:
    with pytest.raises(InvalidRequest, match="without transaction, delay level"):
        batch(world, PLAIN, DELAY="3")
    with pytest.raises(InvalidRequest, match="without transaction, delay level"):
        batch(world, PLAIN, topic="%RETRY%g")


# Messages that consumers could not handle


def send_back(
    world: World, position: int, *, delay_level: int = 0, attempts_max: int | None = None
) -> Results:
    answers: list[Results | BaseException] = []
    world.sending.send_back(
        position,
        group="g",
        delay_level=delay_level,
        attempts_max=attempts_max,
        done=answers.append,
    )
    world.loop.settle()
    (results,) = answers
    assert isinstance(results, list)
    return results


def test_refused_message_comes_again_by_the_retry_topic(world: World) -> None:
    sent = world.accepted("t")
    world.broker.group_table.put(GroupConfig(group_name="g"))

    (again,) = send_back(world, sent.position)

    assert isinstance(again, PutResult)
    assert again.topic == "%RETRY%g"
    assert again.due_ms == START_MS + 10_000  # level 3
    assert world.broker.topics.has_saved("%RETRY%g")


@pytest.mark.parametrize(("delay_level", "attempts_max"), [(-1, None), (0, 0)])
def test_message_that_was_tried_enough_is_a_dead_letter(
    world: World, delay_level: int, attempts_max: int | None
) -> None:
    sent = world.accepted("t")
    world.broker.group_table.put(GroupConfig(group_name="g"))

    send_back(world, sent.position, delay_level=delay_level, attempts_max=attempts_max)

    (letter,) = world.read("%DLQ%g")
    assert letter.body == b"x"
    assert decode_properties(letter.properties)["DLQ_ORIGIN_TOPIC"] == "t"


def test_group_without_retries_is_answered_and_nothing_is_written(world: World) -> None:
    sent = world.accepted("t")
    world.broker.group_table.put(GroupConfig(group_name="g", retry_queue_nums=0))

    assert send_back(world, sent.position) == []
    assert len(world.groups) == 1


def test_send_back_of_nobody_and_of_nothing_is_refused(world: World) -> None:
    with pytest.raises(NotFound, match="consumer group"):
        send_back(world, 0)
    world.broker.group_table.put(GroupConfig(group_name="g"))
    with pytest.raises(NotFound, match="too old"):
        send_back(world, 1 << 40)


@pytest.mark.parametrize(("attempts_max", "topic"), [(None, "%RETRY%g"), (3, "%DLQ%g")])
def test_consumer_that_sends_a_retry_itself_is_held_to_the_same_maximum(
    world: World, attempts_max: int | None, topic: str
) -> None:
    world.broker.group_table.put(GroupConfig(group_name="g"))
    destination = world.sending.destination("%RETRY%g", is_client_4x=True)
    message = Message(topic="%RETRY%g", body=b"x", reconsume_times=4)
    answers: list[Results | BaseException] = []

    world.sending.send(
        destination, [message], answers.append, size_bytes=1, attempts_max=attempts_max
    )
    world.loop.settle()

    assert isinstance(answers[0], list)
    (result,) = answers[0]
    assert isinstance(result, PutResult)
    assert result.topic == topic


def test_retry_topic_of_nobody_is_refused(world: World) -> None:
    destination = world.sending.destination("%RETRY%nobody", is_client_4x=True)

    with pytest.raises(NotFound, match="consumer group nobody"):
        world.send(destination, b"x")
    assert "%RETRY%nobody" not in world.topics()
