from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.local import running, small_config

from dueline.errors import InvalidRequest, NotFound
from dueline.flight import console
from dueline.flight.operators import OperatorClient


@pytest.fixture
def client(tmp_path: Path) -> Iterator[OperatorClient]:
    config = small_config(tmp_path, **{"delivery.conf": "spark.ssl.keyPassword=hush"})
    with running(config) as broker, OperatorClient(broker.address) as client:
        yield client


def test_settings_are_shown_without_secrets(client: OperatorClient) -> None:
    found = client.ask(console.ListSettings(), console.SettingList).settings

    by_name = {each.name: each for each in found}
    assert by_name["store.commit_segment_size"].value == '"1MiB"'
    assert by_name["store.commit_segment_size"].default != '"1MiB"'
    assert "hush" not in str(found)
    assert "********" in by_name["delivery.conf"].value


def test_topics_are_made_changed_and_deleted(client: OperatorClient) -> None:
    def listed() -> dict[str, int]:
        found = client.ask(console.ListTopics(), console.TopicList).topics
        return {each.topic: each.queue_count for each in found}

    for queue_count in (2, 8):
        request = console.CreateTopic(topic="a", queue_count=queue_count)
        client.ask(request, console.TopicChanged)
    assert listed() == {"a": 8}
    client.ask(console.DeleteTopic(topic="a"), console.TopicChanged)
    assert listed() == {}
    with pytest.raises(NotFound, match="expected one that exists"):
        client.ask(console.DeleteTopic(topic="a"), console.TopicChanged)
    for topic, queue_count in (("TBW102", 4), ("a", 0), ("a", 1 << 40), ("a b", 1)):
        with pytest.raises(InvalidRequest):
            client.ask(
                console.CreateTopic(topic=topic, queue_count=queue_count), console.TopicChanged
            )


def test_a_long_body_is_cut(client: OperatorClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "BODY_SIZE_MAX", 100)
    body = b"x" * (console.BODY_SIZE_MAX + 10)
    request = console.Send(topic="a", body=body, keys=("k",), delay_ms=3_600_000)
    client.ask(request, console.SentMessage)

    (found,) = client.ask(console.Inspect(name="k"), console.InspectedList).messages

    assert len(found.body) == console.BODY_SIZE_MAX
    assert found.body_size_bytes == len(body)


def test_history_knows_the_last_minutes(client: OperatorClient) -> None:
    client.ask(console.Send(topic="a", body=b"x"), console.SentMessage)

    found = client.ask(console.ReadHistory(), console.HistoryRead)

    assert sum(each.sent_count for each in found.minutes) == 1
    assert found.batches == ()
