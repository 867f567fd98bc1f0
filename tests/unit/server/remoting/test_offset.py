"""Where queues begin and end, and how far groups are, as 4.x clients ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.reading_world import START_MS
from tests.unit.server.remoting.world import Client, remoting_world

from dueline.broker import progress
from dueline.server.remoting.offset import Offsets
from dueline.wire import RequestCode

NOT_FOUND = 22
QUEUE = {"topic": "t", "queueId": 0}
GROUP = {"consumerGroup": "g", **QUEUE}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Of a broker whose queue has a message at each of three seconds."""
    with remoting_world(tmp_path) as world:
        world.serve(Offsets(world.context).table())
        for body in (b"a", b"b", b"c"):
            world.send(body)
            world.clock.advance(1_000)
        yield world.client()


def number(client: Client, code: int, **ext: object) -> int:
    answer = client.ask(code, {**QUEUE, **ext})
    assert answer.code == 0, answer.remark
    return int(answer.ext.get("offset", answer.ext.get("timestamp", "")))


def test_a_queue_has_a_start_an_end_and_a_first_time(client: Client) -> None:
    assert number(client, RequestCode.GET_MIN_OFFSET) == 0
    assert number(client, RequestCode.GET_MAX_OFFSET) == 3
    earliest = RequestCode.GET_EARLIEST_MESSAGE_STORE_TIME
    assert number(client, earliest) == START_MS
    assert number(client, earliest, queueId=1) == -1


def test_offsets_are_found_by_time_from_either_side(client: Client) -> None:
    search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP

    assert number(client, search, timestamp=START_MS + 1_000) == 1
    assert number(client, search, timestamp=START_MS + 1_001) == 2
    assert number(client, search, timestamp=START_MS + 1_001, boundaryType="upper") == 1
    assert number(client, search, timestamp=START_MS + 1_001, boundaryType="lower") == 2


def test_a_group_goes_on_where_it_said(client: Client) -> None:
    update = {**GROUP, "commitOffset": 2}
    assert client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update).code == 0

    assert number(client, RequestCode.QUERY_CONSUMER_OFFSET, **GROUP) == 2
    assert client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**GROUP, "commitOffset": 9}).code != 0


def test_a_group_that_has_not_read_starts_at_the_beginning_if_it_may(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = RequestCode.QUERY_CONSUMER_OFFSET

    assert number(client, query, **GROUP) == 0
    assert number(client, query, **GROUP, setZeroIfNotFound=True) == 0
    assert client.ask(query, {**GROUP, "setZeroIfNotFound": False}).code == NOT_FOUND
    monkeypatch.setattr(progress, "YOUNG_COUNT_MAX", 2)
    assert client.ask(query, GROUP).code == NOT_FOUND
