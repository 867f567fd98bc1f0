"""The same attempts at every door of one broker; a door that decides differently fails."""

import base64
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.contract.cases import AT_ONCE, CASES, IGNORE, REFUSE
from tests.contract.doors import (
    DOORS,
    HANDLES,
    HOUR_MS,
    RECALLERS,
    Attempt,
    Unsayable,
    flight_rows,
)
from tests.unit.server.local import carry, running, small_config, visible_bodies
from tests.waiting import wait_until

from dueline.broker.topics import TopicConfig
from dueline.flight import FlightClient, protocol
from dueline.server.process import BrokerProcess
from dueline.store import restore

FAR_MS = 20 * 365 * 24 * HOUR_MS
ROOM = {"store.commit_segment_size": "16MiB", "store.delay_segment_size": "16MiB"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("contract")
    with running(small_config(folder, **{"listen.grpc": "127.0.0.1:0"}, **ROOM)) as broker:
        yield broker


class Waiting(NamedTuple):
    """A delayed message, from its record."""

    topic: str
    queue_id: int
    body: bytes
    due_ms: int
    properties: tuple[tuple[str, str], ...]


def waiting(broker: BrokerProcess) -> list[Waiting]:
    """Every delayed message, in the order of delivery."""
    until_ms = broker.clock.now_ms() + FAR_MS
    corner = broker.store.next_corner(until_ms=until_ms, row_count_max=100_000)
    window = broker.store.read_window(broker.store.window(corner))
    return [
        Waiting(row["topic"], row["queue_id"], row["body"], row["due_ms"], tuple(row["properties"]))
        for row in restore.messages(window).to_pylist()
    ]


def visible(broker: BrokerProcess, topic: str) -> list[bytes]:
    """Bodies that consumers of a topic can read."""
    bodies = [body for queue_id in range(4) for body in visible_bodies(broker, topic, queue_id)]
    return [body.encode() for body in bodies]


def named(door: str) -> str:
    """A door in the name of a topic."""
    return door.replace(" ", "-").replace(".", "-")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", CASES)
def test_every_door_decides_alike(broker: BrokerProcess, door: str, name: str) -> None:
    case = CASES[name]
    topic = case.attempt.topic.replace("{door}", named(door))
    before_ms = broker.clock.now_ms()
    attempt = replace(case.attempt, topic=topic)
    if case.deliver_in_ms is not None:
        attempt = replace(attempt, deliver_at_ms=before_ms + case.deliver_in_ms)
    if case.config is not None:
        broker.broker.topics.put(replace(case.config, topic_name=topic))
    before = waiting(broker)
    topics = set(broker.broker.topics.all().entries)
    ends = broker.store.stats()["commit_log"]["end"]

    try:
        refusal = DOORS[door](broker, attempt)
    except Unsayable:
        pytest.skip(f"{door} has no words for it")

    if case.expected(door) is REFUSE:
        assert refusal
        assert waiting(broker) == before
        assert broker.store.stats()["commit_log"]["end"] == ends
        assert set(broker.broker.topics.all().entries) == topics
        return
    assert refusal is None
    assert broker.broker.topics.get(topic) is not None
    if case.expected(door) is AT_ONCE:
        wait_until(lambda: visible(broker, topic) == [attempt.body], "it is carried over")
        return
    (one,) = [each for each in waiting(broker) if each not in before]
    assert one[:3] == (topic, attempt.queue_id or one.queue_id, attempt.body)
    assert before_ms + case.due_in_ms <= one.due_ms <= broker.clock.now_ms() + case.due_in_ms
    if case.expected(door) is IGNORE:
        assert not attempt.properties.items() & dict(one.properties).items()
    else:
        assert attempt.properties.items() <= dict(one.properties).items()


def test_every_door_keeps_due_order_and_then_the_order_of_acceptance(
    broker: BrokerProcess,
) -> None:
    start_ms = broker.clock.now_ms() + HOUR_MS
    for number, (late_ms, door) in enumerate(itertools.product((2, 1, 1, 0), DOORS.values())):
        attempt = Attempt(
            topic="ordered",
            body=b"%d %02d" % (late_ms, number),
            delay_ms=None,
            deliver_at_ms=start_ms + late_ms,
        )
        assert door(broker, attempt) is None

    bodies = [each.body for each in waiting(broker) if each.topic == "ordered"]

    assert len(bodies) == 4 * len(DOORS)
    assert bodies == sorted(bodies)


def test_no_door_makes_topics_where_the_operator_forbids_it(tmp_path: Path) -> None:
    settings = {"listen.grpc": "127.0.0.1:0", "messaging.auto_create_topics": "false", **ROOM}
    with running(small_config(tmp_path, **settings)) as broker:
        broker.broker.topics.put(
            TopicConfig(topic_name="made", read_queue_nums=4, write_queue_nums=4)
        )
        refused = [door(broker, Attempt(topic="unmade")) for door in DOORS.values()]
        taken = [door(broker, Attempt(topic="made")) for door in DOORS.values()]

        assert all(refused)
        assert not any(taken)
        assert "unmade" not in broker.broker.topics.all().entries
        assert {each.topic for each in waiting(broker)} == {"made"}


def test_no_door_takes_anything_from_a_broker_that_stops(tmp_path: Path) -> None:
    with running(small_config(tmp_path, **{"listen.grpc": "127.0.0.1:0"}, **ROOM)) as broker:
        broker.refuse()

        refused = [door(broker, Attempt(topic="late")) for door in DOORS.values()]

        assert all(refused)
        assert waiting(broker) == []
        assert "late" not in broker.broker.topics.all().entries


# Changes of mind


def cancel(broker: BrokerProcess, *keys: str) -> tuple[str, ...]:
    with FlightClient(broker.address) as client:
        return client.call(protocol.Cancel(keys=keys), protocol.Answers).answers


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("by", ["id", "key"])
def test_what_a_door_took_can_be_cancelled(broker: BrokerProcess, door: str, by: str) -> None:
    topic, key = f"cancel-{by}-{named(door)}", f"key-{named(door)}-{by}"
    before = waiting(broker)
    assert DOORS[door](broker, Attempt(topic=topic, keys=key)) is None
    (taken,) = [each for each in waiting(broker) if each not in before]
    name = key if by == "key" else dict(taken.properties)["UNIQ_KEY"]

    assert cancel(broker, name) == ("cancelled",)
    assert cancel(broker, name, f"{name}-of-nobody") == ("cancelled", "unknown")
    assert waiting(broker) == before


@pytest.mark.parametrize("door", DOORS)
def test_what_a_door_took_can_be_rescheduled(broker: BrokerProcess, door: str) -> None:
    topic, key = f"move-{named(door)}", f"moved-{named(door)}"
    assert DOORS[door](broker, Attempt(topic=topic, keys=key)) is None
    due_ms = broker.clock.now_ms() + 5 * HOUR_MS

    with FlightClient(broker.address) as client:
        request = protocol.Reschedule(moves=(protocol.Move(key=key, due_ms=due_ms),))
        answers = client.call(request, protocol.Answers).answers

    assert answers == ("rescheduled",)
    assert [each.due_ms for each in waiting(broker) if each.topic == topic] == [due_ms]


@pytest.mark.parametrize("recaller", RECALLERS)
@pytest.mark.parametrize("sender", HANDLES)
def test_handle_of_any_door_is_good_at_any_door(
    broker: BrokerProcess, sender: str, recaller: str
) -> None:
    topic = f"recall-{named(sender)}-{named(recaller)}"
    handle = HANDLES[sender](broker, Attempt(topic=topic))
    recall = RECALLERS[recaller]
    text = base64.urlsafe_b64decode(handle).decode()

    other_topic = base64.urlsafe_b64encode(text.replace(topic, "another").encode()).decode()
    other_id = base64.urlsafe_b64encode(f"{text}x".encode()).decode()
    other_broker = base64.urlsafe_b64encode(text.replace(" dueline ", " x ").encode()).decode()

    assert [each.topic for each in waiting(broker) if each.topic == topic] == [topic]
    for wrong in ("", "nonsense", other_topic, other_id, other_broker):
        assert recall(broker, topic, wrong)
    assert [each.topic for each in waiting(broker) if each.topic == topic] == [topic]
    assert recall(broker, topic, handle) is None
    assert [each for each in waiting(broker) if each.topic == topic] == []
    assert recall(broker, topic, handle) is None  # it is so already


@pytest.mark.parametrize("recaller", RECALLERS)
@pytest.mark.parametrize("sender", HANDLES)
def test_what_was_delivered_is_too_late_to_recall_at_any_door(
    broker: BrokerProcess, sender: str, recaller: str
) -> None:
    topic = f"late-{named(sender)}-{named(recaller)}"
    handle = HANDLES[sender](broker, Attempt(topic=topic, delay_ms=200))

    def delivered() -> list[bytes]:
        carry(broker.store, ahead_ms=0)
        return visible(broker, topic)

    wait_until(delivered, "the message")

    refusal = RECALLERS[recaller](broker, topic, handle)

    assert refusal is not None
    assert "delivered" in refusal


def test_a_topic_that_is_made_survives_a_crash(broker: BrokerProcess) -> None:
    assert flight_rows(broker, Attempt(topic="durable")) is None

    saved = json.loads((broker.store.path / "config" / "topics.json").read_text())
    assert "durable" in saved["topicConfigTable"]


def test_a_row_cannot_end_a_transaction(broker: BrokerProcess) -> None:
    """An outcome is a record of a topic of the broker's own, with a half message's offset."""
    outcome = Attempt(topic="RMQ_SYS_TRANS_OP_HALF_TOPIC", body=b"0", delay_ms=0)

    refusals = [door(broker, outcome) for door in DOORS.values()]

    assert all(refusals)
    assert broker.store.offset_range("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0) == (0, 0)


def test_nobody_waits_in_a_topic_that_recovery_would_read_differently(tmp_path: Path) -> None:
    """What is taken from memory before a crash and from the log after it is the same."""
    config = small_config(tmp_path, **{"listen.grpc": "127.0.0.1:0"}, **ROOM)
    with running(config) as broker:
        for number, door in enumerate(DOORS.values()):
            for property_name in ("REAL_TOPIC", "REAL_QID"):
                attempt = Attempt(
                    topic=f"t{number}-{property_name}", properties={property_name: "../../evil"}
                )
                door(broker, attempt)
        before = [each[:4] for each in waiting(broker)]
    # As after a crash: everything derived is read from the logs again.
    for derived in ("checkpoint", "states", "timeline", "runs"):
        for path in config.store_folder.glob(f"{derived}*"):
            if path.is_file():
                path.unlink()
    with running(config) as broker:
        after = [each[:4] for each in waiting(broker)]

    assert before
    assert after == before
    assert all("evil" not in each[0] for each in after)
