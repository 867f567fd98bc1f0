import base64
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import flight
from tests.unit.server.local import (
    carry,
    outgoing,
    pull_bodies,
    running,
    send,
    small_config,
    wait_until,
)

from dueline.errors import InvalidRequest, RemoteProtocolError, Unavailable
from dueline.flight import FlightClient, protocol
from dueline.flight.control import (
    Acknowledge,
    ControlClient,
    CountPending,
    Found,
    LookUp,
    PendingCounts,
    Positions,
    Pull,
    Pulled,
    Report,
    Reported,
    Send,
    Sent,
    StartPositions,
)
from dueline.server.process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(small_config(tmp_path)) as broker:
        yield broker


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[ControlClient]:
    with ControlClient(broker.address) as client:
        yield client


def pull(client: ControlClient, offsets: dict[str, int], *, wait_ms: int = 20_000) -> Pulled:
    return client.ask(Pull(topic="orders", offsets=offsets, count_max=100, wait_ms=wait_ms), Pulled)


def bodies(pulled: Pulled) -> list[str]:
    return [base64.b64decode(message.body).decode() for message in pulled.messages]


# --- sending and reading --------------------------------------------------------------------------


def test_an_ordinary_message_can_be_read_at_once(client: ControlClient) -> None:
    (result,) = send(client, outgoing("héllo", KEYS="k"))

    (message,) = pull(client, {}).messages

    assert (result.error, result.due_ms) == (None, None)
    assert base64.b64decode(message.body).decode() == "héllo"
    assert message.properties == {"KEYS": "k", "UNIQ_KEY": result.unique_id}
    assert message.store_ms == result.store_ms
    assert message.due_ms is None


def test_each_message_is_answered_on_its_own(client: ControlClient) -> None:
    good, bad, late = send(
        client,
        outgoing("a"),
        outgoing("b", topic="no such topic"),
        outgoing("c", DELAY="not a number"),
    )

    assert good.error is None
    assert "topic: expected" in str(bad.error)
    assert "property DELAY: expected a whole number" in str(late.error)
    assert pull_bodies(client) == ["a"]


def test_a_delayed_message_comes_when_it_is_due_and_not_before(
    broker: BrokerProcess, client: ControlClient
) -> None:
    (result,) = send(client, outgoing("later", TIMER_DELAY_MS="300"))
    assert carry(broker.store) == 1

    pulled = pull(client, {})

    assert bodies(pulled) == ["later"]
    assert result.due_ms is not None
    assert pulled.messages[0].due_ms == result.due_ms
    assert pulled.now_ms >= result.due_ms


def test_a_reader_that_waits_is_woken_by_any_queue(
    broker: BrokerProcess, client: ControlClient
) -> None:
    found: list[Pulled] = []
    reader = threading.Thread(target=lambda: found.append(pull(client, {})))
    reader.start()
    wait_until(lambda: broker.engine.figures().waiting_reader_count, "a waiting reader")

    send(client, outgoing("in a new queue", queue_id=3))
    reader.join()

    assert bodies(found[0]) == ["in a new queue"]
    assert found[0].offsets == {"3": 1}


def test_a_reader_goes_on_where_it_was_told(client: ControlClient) -> None:
    send(client, *[outgoing(f"{n}", queue_id=n % 2) for n in range(6)])
    first = client.ask(Pull(topic="orders", offsets={}, count_max=4, wait_ms=0), Pulled)

    second = pull(client, first.offsets, wait_ms=0)

    assert sorted(bodies(first) + bodies(second)) == ["0", "1", "2", "3", "4", "5"]
    assert pull(client, second.offsets, wait_ms=0).messages == ()


def test_a_waiting_reader_is_let_go_when_the_broker_stops(tmp_path: Path) -> None:
    found: list[Pulled] = []
    with running(small_config(tmp_path)) as broker:
        client = ControlClient(broker.address)
        reader = threading.Thread(target=lambda: found.append(pull(client, {})))
        reader.start()
        wait_until(lambda: broker.engine.figures().waiting_reader_count, "a waiting reader")

    reader.join()
    client.close()

    assert found[0].messages == ()


def test_groups_go_on_where_they_left_off(client: ControlClient) -> None:
    def start(group: str | None, at: str) -> dict[str, int]:
        request = StartPositions(topic="orders", at=at, group=group)
        return client.ask(request, Positions).offsets

    send(client, *[outgoing("x")] * 5)
    client.ask(Acknowledge(group="g", topic="orders", offsets={"0": 3}), Positions)

    assert start(None, "start") == {"0": 0}
    assert start(None, "end") == {"0": 5}
    assert start("g", "start") == {"0": 3}
    assert start("other", "end") == {"0": 5}


# --- delayed messages -----------------------------------------------------------------------------


def test_what_waits_is_counted_by_due_time_and_topic(client: ControlClient) -> None:
    for delay_ms, topic in ((3_600_000, "a"), (3_600_000, "b"), (7_200_000, "b")):
        send(client, outgoing("x", topic=topic, TIMER_DELAY_MS=str(delay_ms)))

    counts = client.ask(CountPending(bucket_ms=3_600_000), PendingCounts)
    of_b = client.ask(CountPending(bucket_ms=3_600_000, topic="b"), PendingCounts)

    assert (counts.count, counts.topics) == (3, {"a": 1, "b": 2})
    assert list(counts.buckets.values()) == [2, 1]
    assert sorted(counts.buckets, key=int) == list(counts.buckets)
    assert (of_b.count, list(of_b.buckets.values())) == (2, [1, 1])


def test_a_message_is_found_in_each_of_its_states(
    broker: BrokerProcess, client: ControlClient
) -> None:
    def states() -> dict[str, str]:
        found = {
            key: client.ask(LookUp(key=key), Found).messages for key in ("a", "b", "c", "nobody")
        }
        return {key: messages[0].state for key, messages in found.items() if messages}

    send(
        client,
        outgoing("a", KEYS="a", TIMER_DELAY_MS="50"),
        outgoing("b", KEYS="b", TIMER_DELAY_MS="30000"),
        outgoing("c", KEYS="c", TIMER_DELAY_MS="3600000"),
    )
    assert states() == {"a": "pending", "b": "pending", "c": "pending"}
    carry(broker.store)
    client.call(protocol.Cancel(keys=("c",)), protocol.Answers)
    assert bodies(pull(client, {})) == ["a"]

    assert states() == {"a": "delivered", "b": "carried over", "c": "cancelled"}


def test_a_message_at_the_gate_can_still_be_cancelled(
    broker: BrokerProcess, client: ControlClient
) -> None:
    send(client, outgoing("a", KEYS="a", TIMER_DELAY_MS="30000"))
    carry(broker.store)

    answers = client.call(protocol.Cancel(keys=("a",)), protocol.Answers).answers

    assert answers == ("cancelled",)
    assert broker.store.gate_row_count == 0


# --- figures --------------------------------------------------------------------------------------


def test_the_report_tells_what_happened(broker: BrokerProcess, client: ControlClient) -> None:
    send(client, outgoing("a"), outgoing("b", TIMER_DELAY_MS="20"), outgoing("c", topic="!"))
    send(client, outgoing("d", TIMER_DELAY_MS="3600000", KEYS="d"))
    carry(broker.store)
    pull(client, {"0": 1})
    client.call(protocol.Cancel(keys=("d",)), protocol.Answers)

    report = client.ask(Report(), Reported)

    assert (report.sent, report.sent_delayed, report.refused) == (3, 2, 1)
    assert (report.delivered, report.cancelled, report.pending, report.at_gate) == (1, 1, 0, 0)
    assert report.lateness.count == 1
    assert report.lateness.max_ms is not None
    assert report.lateness.max_ms >= 0
    assert report.driver.status == "off"
    assert report.driver.asked_ms is None
    assert report.folder == str(broker.store.path)


def test_a_pipeline_that_asks_is_noticed(broker: BrokerProcess, client: ControlClient) -> None:
    request = protocol.NextWindow(ahead_ms=0, lead_ms=0, row_count_max=1, wait_ms=0)
    client.call(request, protocol.WindowEnd)

    assert client.ask(Report(), Reported).driver.asked_ms is not None


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "answer", "text"),
    [
        (Send(messages=(outgoing("x"),) * 1001), Sent, "expected at most 1000 at once"),
        (Pull(topic="a b", offsets={}, count_max=1, wait_ms=0), Pulled, "topic: expected"),
        (Pull(topic="a", offsets={}, count_max=0, wait_ms=0), Pulled, "count_max: expected 1"),
        (Pull(topic="a", offsets={}, count_max=1, wait_ms=60_000), Pulled, "wait_ms: expected 0"),
        (Pull(topic="a", offsets={"x": 1}, count_max=1, wait_ms=0), Pulled, "queue ids as names"),
        (StartPositions(topic="a", at="middle"), Positions, "expected start or end"),
        (StartPositions(topic="a", at="end", group="g g"), Positions, "group: expected"),
        (Acknowledge(group="", topic="a", offsets={}), Positions, "group: expected"),
        (CountPending(bucket_ms=0), PendingCounts, "bucket: expected at least"),
    ],
)
def test_mistakes_are_told(client: ControlClient, request_: Send, answer: type, text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        client.ask(request_, answer)


def test_a_body_must_be_base64(client: ControlClient) -> None:
    broken = outgoing("x").to_json() | {"body": "*"}

    with pytest.raises(InvalidRequest, match="expected base64"):
        client.ask(Send.from_json({"messages": [broken]}), Sent)


def test_a_stopping_broker_says_so(broker: BrokerProcess, client: ControlClient) -> None:
    broker.refuse()

    with pytest.raises(Unavailable, match="stopping"):
        send(client, outgoing("x"))


def test_no_broker_is_told_as_such() -> None:
    with (
        ControlClient("127.0.0.1:1") as client,
        pytest.raises(Unavailable, match="is it running"),
    ):
        client.ask(Report(), Reported)


def test_actions_are_listed_with_what_they_are_for(broker: BrokerProcess) -> None:
    with flight.connect(f"grpc+tcp://{broker.address}") as client:
        listed = {action.type: action.description for action in client.list_actions()}

    assert {"send", "pull", "report", "next_window", "cancel"} <= listed.keys()
    assert all(listed.values())


def test_an_unknown_field_is_refused_by_name(client: ControlClient) -> None:
    with pytest.raises(RemoteProtocolError, match="unknown field `extra`"):
        Send.from_json({"messages": [], "extra": 1})
    with FlightClient(client.address) as plain:
        assert plain.describe().shard == "dueline"
