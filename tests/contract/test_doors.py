"""The same attempts at every door of one broker; a door that decides differently fails."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.cases import CASES, IGNORE, REFUSE
from tests.contract.doors import DOORS, HOUR_MS, Attempt, Unsayable, flight_rows
from tests.unit.server.local import running, small_config

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


def waiting(broker: BrokerProcess) -> list[tuple[str, int, bytes, dict[str, str]]]:
    """Topic, queue, body and properties of every delayed message, from its record."""
    until_ms = broker.clock.now_ms() + FAR_MS
    corner = broker.store.next_corner(until_ms=until_ms, row_count_max=100_000)
    window = broker.store.read_window(broker.store.window(corner))
    found = []
    for row in restore.messages(window).to_pylist():
        properties = dict(row["properties"])
        found.append((row["topic"], row["queue_id"], row["body"], properties))
    return found


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", CASES)
def test_every_door_decides_alike(broker: BrokerProcess, door: str, name: str) -> None:
    case = CASES[name]
    topic = case.attempt.topic.replace("{door}", door.replace(" ", "-").replace(".", "-"))
    attempt = Attempt(
        topic=topic,
        body=case.attempt.body,
        queue_id=case.attempt.queue_id,
        properties=case.attempt.properties,
        delay_ms=case.attempt.delay_ms,
    )
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
    (taken,) = [each for each in waiting(broker) if each not in before]
    assert taken[:3] == (topic, attempt.queue_id or taken[1], attempt.body)
    if case.expected(door) is IGNORE:
        assert not attempt.properties.items() & taken[3].items()
    else:
        assert attempt.properties.items() <= taken[3].items()
    assert broker.broker.topics.get(topic) is not None


@pytest.mark.parametrize("door", DOORS)
def test_what_a_door_took_can_be_cancelled(broker: BrokerProcess, door: str) -> None:
    topic = f"cancel-{door}".replace(" ", "-").replace(".", "-")
    before = waiting(broker)
    assert DOORS[door](broker, Attempt(topic=topic)) is None
    (taken,) = [each for each in waiting(broker) if each not in before]

    with FlightClient(broker.address) as client:
        request = protocol.Cancel(keys=(taken[3]["UNIQ_KEY"],))
        answers = client.call(request, protocol.Answers).answers

    assert answers == ("cancelled",)
    assert waiting(broker) == before


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
        before = [each[:3] for each in waiting(broker)]
    # As after a crash: everything derived is read from the logs again.
    for derived in ("checkpoint", "states", "timeline", "runs"):
        for path in config.store_folder.glob(f"{derived}*"):
            if path.is_file():
                path.unlink()
    with running(config) as broker:
        after = [each[:3] for each in waiting(broker)]

    assert before
    assert after == before
    assert all("evil" not in each[0] for each in after)
