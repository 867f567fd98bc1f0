"""The same cases for readers of either protocol: pulls, offsets, permissions, names.

A door that decides differently from the other fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from tests.contract.receivers import OK_5X, peer_of
from tests.grpc.calls import Caller
from tests.remoting.peer import Peer, bodies_of
from tests.unit.server.local import running, small_config

from dueline.broker.group_configs import GroupConfig
from dueline.broker.topics import TopicConfig
from dueline.message import Message
from dueline.server.process import BrokerProcess
from dueline.wire import RequestCode

NO_PERMISSION, NO_TOPIC, NO_MATCH, AT_END, MOVED = 16, 17, 20, 19, 21
_NUMBERS = itertools.count()


class Refusal(Exception):
    """The door has refused, and says why."""


class Puller(Protocol):
    """A client of one door that keeps its own place."""

    def pull(
        self, group: str, topic: str, offset: int, *, queue_id: int = 0, tags: str = "*"
    ) -> tuple[list[bytes], int]:
        """Bodies, and where to go on."""

    def offset(self, group: str, topic: str) -> int | None: ...

    def commit(self, group: str, topic: str, offset: int, *, queue_id: int = 0) -> None: ...

    def ends(self, topic: str) -> tuple[int, int]: ...

    def search(self, topic: str, timestamp_ms: int) -> int: ...


class Remoting:
    """A pull consumer of the 4.x protocol."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def _call(self, code: RequestCode, **ext: object) -> dict[str, str]:
        answer = self._peer.call(code, {name: str(value) for name, value in ext.items()})
        if answer.code != 0:
            raise Refusal(f"{answer.code}: {answer.remark}")
        return dict(answer.ext)

    def pull(
        self, group: str, topic: str, offset: int, *, queue_id: int = 0, tags: str = "*"
    ) -> tuple[list[bytes], int]:
        ext = {
            **self._peer.pull_ext(topic, offset, expression=tags),
            "consumerGroup": group,
            "queueId": str(queue_id),
        }
        answer = self._peer.call(RequestCode.PULL_MESSAGE, ext)
        if answer.code not in (0, AT_END, NO_MATCH):
            raise Refusal(f"{answer.code}: {answer.remark}")
        return bodies_of(answer), int(answer.ext["nextBeginOffset"])

    def offset(self, group: str, topic: str) -> int | None:
        ext = {"consumerGroup": group, "topic": topic, "queueId": "0", "setZeroIfNotFound": "false"}
        answer = self._peer.call(RequestCode.QUERY_CONSUMER_OFFSET, ext)
        return int(answer.ext["offset"]) if answer.code == 0 else None

    def commit(self, group: str, topic: str, offset: int, *, queue_id: int = 0) -> None:
        place = {"topic": topic, "queueId": queue_id, "commitOffset": offset}
        self._call(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=group, **place)

    def ends(self, topic: str) -> tuple[int, int]:
        codes = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
        first, last = (self._call(code, topic=topic, queueId=0)["offset"] for code in codes)
        return int(first), int(last)

    def search(self, topic: str, timestamp_ms: int) -> int:
        place = {"topic": topic, "queueId": 0, "timestamp": timestamp_ms}
        return int(self._call(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, **place)["offset"])


class Grpc:
    """A pull consumer of the 5.x protocol."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def _call(self, method: str, **fields: Any) -> Any:
        answer = self._caller.call(method, **fields)
        if answer.status.code != OK_5X:
            raise Refusal(f"{answer.status.code}: {answer.status.message}")
        return answer

    def pull(
        self, group: str, topic: str, offset: int, *, queue_id: int = 0, tags: str = "*"
    ) -> tuple[list[bytes], int]:
        answers = list(
            self._caller.stream(
                "PullMessage",
                group={"name": group},
                message_queue=_at(topic, queue_id),
                offset=offset,
                batch_size=32,
                filter_expression={"type": 1, "expression": tags},
            )
        )
        if answers[0].status.code not in (OK_5X, 40_401):
            raise Refusal(f"{answers[0].status.code}: {answers[0].status.message}")
        bodies = [each.message.body for each in answers if each.HasField("message")]
        return bodies, answers[-1].next_offset

    def offset(self, group: str, topic: str) -> int | None:
        answer = self._caller.call("GetOffset", group={"name": group}, message_queue=_at(topic))
        return answer.offset if answer.status.code == OK_5X else None

    def commit(self, group: str, topic: str, offset: int, *, queue_id: int = 0) -> None:
        place = {"message_queue": _at(topic, queue_id), "offset": offset}
        self._call("UpdateOffset", group={"name": group}, **place)

    def ends(self, topic: str) -> tuple[int, int]:
        asked = (
            self._call("QueryOffset", message_queue=_at(topic), query_offset_policy=policy)
            for policy in (0, 1)
        )
        first, last = (answer.offset for answer in asked)
        return first, last

    def search(self, topic: str, timestamp_ms: int) -> int:
        seconds, rest_ms = divmod(timestamp_ms, 1_000)
        answer = self._call(
            "QueryOffset",
            message_queue=_at(topic),
            query_offset_policy=2,
            timestamp={"seconds": seconds, "nanos": rest_ms * 1_000_000},
        )
        return int(answer.offset)


def _at(topic: str, queue_id: int = 0) -> dict[str, Any]:
    return {"topic": {"name": topic}, "id": queue_id}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("reading")
    with running(small_config(folder, **{"listen.grpc": "127.0.0.1:0"})) as broker:
        yield broker


@pytest.fixture(params=["4.x", "5.x"])
def puller(broker: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[Puller]:
    if request.param == "4.x":
        with peer_of(broker) as peer:
            yield Remoting(peer)
    else:
        with Caller(f"127.0.0.1:{broker.grpc.port}") as caller:
            yield Grpc(caller)


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    """With one queue, and `a`, `b` and `c` in it."""
    name = f"topic-{next(_NUMBERS)}"
    broker.broker.topics.ensure(name, queue_count=1)
    for body, tag in (("a", "odd"), ("b", "even"), ("c", "odd")):
        message = Message(topic=name, body=body.encode(), properties={"TAGS": tag})
        broker.store.put(message)
    return name


@pytest.fixture
def group() -> str:
    return f"group-{next(_NUMBERS)}"


def test_a_queue_is_read_from_an_offset_on(puller: Puller, topic: str, group: str) -> None:
    assert puller.pull(group, topic, 0) == ([b"a", b"b", b"c"], 3)
    assert puller.pull(group, topic, 2) == ([b"c"], 3)
    assert puller.pull(group, topic, 3) == ([], 3)
    with pytest.raises(Refusal):
        puller.pull(group, topic, 9)


def test_a_filter_leaves_what_it_wants(puller: Puller, topic: str, group: str) -> None:
    assert puller.pull(group, topic, 0, tags="odd") == ([b"a", b"c"], 3)
    assert puller.pull(group, topic, 0, tags="even || odd") == ([b"a", b"b", b"c"], 3)
    assert puller.pull(group, topic, 0, tags="none") == ([], 3)


def test_a_group_goes_on_where_it_committed(puller: Puller, topic: str, group: str) -> None:
    assert puller.offset(group, topic) is None

    puller.commit(group, topic, 2)

    assert puller.offset(group, topic) == 2
    puller.commit(group, topic, 0)
    assert puller.offset(group, topic) == 0


@pytest.mark.parametrize("offset", [-1, 4, 1 << 40])
def test_an_offset_outside_of_the_queue_is_not_committed(
    puller: Puller, topic: str, group: str, offset: int
) -> None:
    with pytest.raises(Refusal):
        puller.commit(group, topic, offset)
    assert puller.offset(group, topic) is None


def test_a_queue_that_the_topic_does_not_have_is_refused(
    puller: Puller, topic: str, group: str
) -> None:
    for queue_id in (1, -1):
        with pytest.raises(Refusal):
            puller.pull(group, topic, 0, queue_id=queue_id)
        with pytest.raises(Refusal):
            puller.commit(group, topic, 0, queue_id=queue_id)


@pytest.mark.parametrize("bad", ["", "two words", "x" * 256, "CID_RMQ_SYS_TRANS"])
def test_a_group_that_no_client_can_have_neither_reads_nor_commits(
    puller: Puller, topic: str, bad: str
) -> None:
    """The last one is the broker's own: its offsets decide which half messages are looked at."""
    with pytest.raises(Refusal):
        puller.pull(bad, topic, 0)
    with pytest.raises(Refusal):
        puller.commit(bad, topic, 1)


def test_a_closed_topic_is_not_read(
    broker: BrokerProcess, puller: Puller, topic: str, group: str
) -> None:
    broker.broker.topics.put(
        TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1, perm=2)
    )
    with pytest.raises(Refusal):
        puller.pull(group, topic, 0)


def test_a_stopped_group_does_not_read(
    broker: BrokerProcess, puller: Puller, topic: str, group: str
) -> None:
    broker.broker.group_table.put(GroupConfig(group_name=group, consume_enable=False))
    with pytest.raises(Refusal):
        puller.pull(group, topic, 0)


def test_a_group_that_commits_has_a_topic_for_its_retries(
    broker: BrokerProcess, puller: Puller, topic: str, group: str
) -> None:
    puller.commit(group, topic, 1)

    assert broker.broker.topics.get(f"%RETRY%{group}") is not None
    assert broker.broker.group_table.get(group) is not None


def test_ends_and_times_of_a_queue(broker: BrokerProcess, puller: Puller, topic: str) -> None:
    assert puller.ends(topic) == (0, 3)
    second_ms = broker.broker.reading.shown_ms(topic, 0, 1)
    assert puller.search(topic, 0) == 0
    assert puller.search(topic, second_ms + 3_600_000) == 3
    assert puller.search(topic, second_ms) <= 1
