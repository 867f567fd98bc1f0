from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import flight
from tests.unit.server.local import (
    carry,
    outgoing,
    running,
    send,
    small_config,
    visible_bodies,
)
from tests.waiting import wait_until

from dueline.errors import InvalidRequest, RemoteProtocolError, Unavailable
from dueline.flight import FlightClient, protocol
from dueline.flight.operators import (
    CountPending,
    Found,
    LookUp,
    OperatorClient,
    PendingCounts,
    Report,
    Reported,
)
from dueline.server.process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(small_config(tmp_path)) as broker:
        yield broker


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[OperatorClient]:
    with OperatorClient(broker.address) as client:
        yield client


# --- delayed messages -----------------------------------------------------------------------------


def test_what_waits_is_counted_by_due_time_and_topic(
    broker: BrokerProcess, client: OperatorClient
) -> None:
    for delay_ms, topic in ((3_600_000, "a"), (3_600_000, "b"), (7_200_000, "b")):
        send(broker, outgoing("x", topic=topic, TIMER_DELAY_MS=str(delay_ms)))

    counts = client.ask(CountPending(bucket_ms=3_600_000), PendingCounts)
    of_b = client.ask(CountPending(bucket_ms=3_600_000, topic="b"), PendingCounts)

    assert (counts.count, counts.topics) == (3, {"a": 1, "b": 2})
    assert list(counts.buckets.values()) == [2, 1]
    assert sorted(counts.buckets, key=int) == list(counts.buckets)
    assert (of_b.count, list(of_b.buckets.values())) == (2, [1, 1])


def test_a_message_is_found_in_each_of_its_states(
    broker: BrokerProcess, client: OperatorClient
) -> None:
    def states() -> dict[str, str]:
        found = {
            key: client.ask(LookUp(key=key), Found).messages for key in ("a", "b", "c", "nobody")
        }
        return {key: messages[0].state for key, messages in found.items() if messages}

    send(
        broker,
        outgoing("b", KEYS="b", TIMER_DELAY_MS="30000"),
        outgoing("c", KEYS="c", TIMER_DELAY_MS="3600000"),
    )
    assert states() == {"b": "pending", "c": "pending"}
    send(broker, outgoing("a", KEYS="a", TIMER_DELAY_MS="50"))
    carry(broker.store)
    client.call(protocol.Cancel(keys=("c",)), protocol.Answers)
    wait_until(lambda: visible_bodies(broker) == ["a"], "the first message")

    assert states() == {"a": "delivered", "b": "carried over", "c": "cancelled"}


def test_a_message_at_the_gate_can_still_be_cancelled(
    broker: BrokerProcess, client: OperatorClient
) -> None:
    send(broker, outgoing("a", KEYS="a", TIMER_DELAY_MS="30000"))
    carry(broker.store)

    answers = client.call(protocol.Cancel(keys=("a",)), protocol.Answers).answers

    assert answers == ("cancelled",)
    assert broker.store.gate_row_count == 0


# --- figures --------------------------------------------------------------------------------------


def test_the_report_tells_what_happened(broker: BrokerProcess, client: OperatorClient) -> None:
    send(broker, outgoing("a"), outgoing("b", TIMER_DELAY_MS="20"), outgoing("c", DELAY="x"))
    send(broker, outgoing("d", TIMER_DELAY_MS="3600000", KEYS="d"))
    carry(broker.store)
    wait_until(lambda: visible_bodies(broker) == ["a", "b"], "the delayed message")
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


def test_a_pipeline_that_asks_is_noticed(broker: BrokerProcess, client: OperatorClient) -> None:
    request = protocol.NextWindow(ahead_ms=0, lead_ms=0, row_count_max=1, wait_ms=0)
    client.call(request, protocol.WindowEnd)

    assert client.ask(Report(), Reported).driver.asked_ms is not None


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "answer", "text"),
    [
        (CountPending(bucket_ms=0), PendingCounts, "bucket: expected at least"),
    ],
)
def test_mistakes_are_told(
    client: OperatorClient, request_: CountPending, answer: type, text: str
) -> None:
    with pytest.raises(InvalidRequest, match=text):
        client.ask(request_, answer)


def test_no_broker_is_told_as_such() -> None:
    with (
        OperatorClient("127.0.0.1:1") as client,
        pytest.raises(Unavailable, match="is it running"),
    ):
        client.ask(Report(), Reported)


def test_actions_are_listed_with_what_they_are_for(broker: BrokerProcess) -> None:
    with flight.connect(f"grpc+tcp://{broker.address}") as client:
        listed = {action.type: action.description for action in client.list_actions()}

    assert {"look_up", "report", "next_window", "cancel"} <= listed.keys()
    assert all(listed.values())


def test_an_unknown_field_is_refused_by_name(client: OperatorClient) -> None:
    with pytest.raises(RemoteProtocolError, match="unknown field `extra`"):
        LookUp.from_json({"key": "k", "extra": 1})
    with FlightClient(client.address) as plain:
        assert plain.describe().shard == "dueline"
