"""Pulls that are known: the same answers and the same offsets as one by one the usual way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tests.conftest import EXAMPLES
from tests.unit.server.remoting.world import Client, RemotingWorld, remoting_world

from dueline import compiled
from dueline.broker.groups import Consumption, Member, Subscription
from dueline.message import Message
from dueline.server.process import KERNELS
from dueline.server.remoting import known_pulls
from dueline.server.remoting.known_pulls import PATTERN_COUNT_MAX, KnownPulls
from dueline.server.remoting.limits import Limits
from dueline.server.remoting.pull import Pulls
from dueline.wire import Command, RequestCode

pytest.importorskip("numba")


class Counted(KnownPulls):
    """Counts the pulls that it has answered."""

    count = 0

    def answer(self, *known: Any) -> bytes | None:
        answer = super().answer(*known)
        self.count += answer is not None
        return answer


@contextmanager
def world_of(
    folder: Path, *, is_known: bool, limits: Limits | None = None
) -> Iterator[tuple[RemotingWorld, Counted]]:
    assert compiled.load(KERNELS)
    with remoting_world(folder, limits=limits) as world:
        known = Counted(world.context, world.hub)
        world.store._core.ids.prefix = "0A" * 10  # type: ignore[misc]
        world.serve(Pulls(world.context, world.hub, known if is_known else None).table())
        for topic in ("orders", "bills"):
            world.broker.topics.ensure(topic, queue_count=2)
        yield world, known


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[RemotingWorld, Counted]]:
    with world_of(tmp_path, is_known=True) as made:
        put(made[0], 6)
        yield made


def put(world: RemotingWorld, count: int, topic: str = "orders") -> None:
    world.store.put_all(
        [
            Message(
                topic=topic, body=b"%d" % number, queue_id=0, properties={"TAGS": "ab"[number % 2]}
            )
            for number in range(count)
        ]
    )


def fields(**changes: Any) -> dict[str, str]:
    """What a pull says; None: nothing of that."""
    ext: dict[str, object] = {
        "consumerGroup": "readers",
        "topic": "orders",
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 2,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subVersion": 0,
        "subscription": "*",
    }
    return {name: str(value) for name, value in {**ext, **changes}.items() if value is not None}


def pull(opaque: int = 1, offset: object = 0, *, flag: int = 0, **changes: Any) -> bytes:
    texts = fields(queueOffset=offset, **changes)
    return Command(code=RequestCode.PULL_MESSAGE, opaque=opaque, flag=flag, ext=texts).encode()


def fed(client: Client, data: bytes) -> list[Any]:
    client.channel.data_received(data)
    return [(each.opaque, each.code, each.remark, each.ext, each.body) for each in client.read()]


def subscribe(world: RemotingWorld, expression: str) -> None:
    subscription = Subscription(topic="orders", expression=expression)
    member = Member(client_id="c", channel=None)
    world.broker.groups.consumer("readers", member, Consumption(), [subscription])


def test_pulls_like_one_before_are_answered_as_they_come(
    both: tuple[RemotingWorld, Counted],
) -> None:
    world, known = both
    client, other = world.client(), world.client(port=40_001)

    answers = [fed(client, pull(number, number)) for number in range(4)]

    assert known.count == 2, "the first two show what it says"
    bodies = [[each[84:] for each in (answer[0][4],)] for answer in answers]
    assert all(answer[0][1] == 0 for answer in answers), bodies
    assert [answer[0][3]["nextBeginOffset"] for answer in answers] == ["2", "3", "4", "5"]
    client.channel.data_received(pull(9, 1))
    assert client.transport.written, "before the loop's turn is over"
    assert [each.opaque for each in client.read()] == [9]
    fed(other, pull(1))
    assert known.count == 3, "each connection has its own"


def test_several_pulls_and_what_follows_them_have_their_answers(
    both: tuple[RemotingWorld, Counted],
) -> None:
    world, known = both
    client = world.client()
    for number in range(2):
        fed(client, pull(number))
    data = pull(10) + pull(11, 2) + pull(12, 99) + pull(13, 1) + pull(14, 4)[:50]

    answers = fed(client, data)
    answers += fed(client, pull(14, 4)[50:])

    assert [(opaque, code) for opaque, code, *_ in answers] == [
        (10, 0),
        (11, 0),
        (12, 21),
        (13, 0),
        (14, 0),
    ]
    assert known.count == 2, "what comes behind one that is not found goes the usual way"


def test_what_may_be_read_is_asked_each_time(both: tuple[RemotingWorld, Counted]) -> None:
    world, known = both
    client = world.client()
    table, topics = world.broker.group_table, world.broker.topics

    def code(**changes: Any) -> int:
        ((_, found, *_),) = fed(client, pull(**changes))
        return int(found)

    assert [code(), code(), code()] == [0, 0, 0]
    table.put(replace(table.find("readers"), consume_enable=False))
    assert code() == 16
    table.put(replace(table.find("readers"), consume_enable=True))
    topics.put(replace(topics.find("orders"), perm=2))
    assert code() == 16
    topics.put(replace(topics.find("orders"), perm=6))
    assert code(queueId=2) == 29
    assert code(sysFlag=0) == 24, "the group has no client with a heartbeat"
    assert known.count == 1
    assert code() == 0
    assert known.count == 2


def test_what_the_group_wants_is_asked_each_time(both: tuple[RemotingWorld, Counted]) -> None:
    world, known = both
    client = world.client()
    subscribe(world, "*")
    ask: dict[str, Any] = {"sysFlag": 0, "subscription": None, "maxMsgNums": 9}

    sizes = []
    for expression in ("*", "*", "*", "a", "*"):
        subscribe(world, expression)
        ((_, _, _, ext, body),) = fed(client, pull(**ask))
        assert ext["nextBeginOffset"] == "6"
        sizes.append(len(body))

    assert sizes[0] == sizes[1] == sizes[2] == sizes[4] == 2 * sizes[3]
    assert known.count == 2


def test_messages_with_a_trace_are_handed_out_the_usual_way(
    both: tuple[RemotingWorld, Counted],
) -> None:
    world, known = both
    client = world.client()
    world.broker.reading.traces.read()

    for number in range(4):
        fed(client, pull(number))

    assert known.count == 0


def test_a_connection_has_few_patterns(both: tuple[RemotingWorld, Counted]) -> None:
    world, known = both
    client = world.client()

    for count in range(1, 3 * PATTERN_COUNT_MAX):
        fed(client, pull(maxMsgNums=count))
    patterns: Any = client.channel.first_look
    assert len(patterns._known) == PATTERN_COUNT_MAX
    assert known.count == 0
    fed(client, pull(maxMsgNums=PATTERN_COUNT_MAX * 2))
    assert known.count == 1


def test_pulls_that_are_never_alike_are_not_looked_at_for_ever(
    both: tuple[RemotingWorld, Counted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_pulls, "LEARN_COUNT_MAX", 3)
    world, _ = both
    client = world.client()

    for number in range(1, 9):
        fed(client, pull(maxMsgNums=number))

    patterns: Any = client.channel.first_look
    assert len(patterns._known) == 3


def test_who_may_wait_for_no_more_answers_is_told_so(tmp_path: Path) -> None:
    limits = Limits(total_request_count_max=1)
    with world_of(tmp_path, is_known=True, limits=limits) as (world, known):
        put(world, 6)
        client = world.client()
        for number in range(3):
            fed(client, pull(number))
        assert known.count == 1

        world.hub.request_count += 1
        ((_, code, *_),) = fed(client, pull(4))
        assert (code, known.count) == (2, 1)

        world.hub.request_count -= 1
        client.channel.pause_writing()
        client.channel.data_received(pull(5))
        assert not client.read(), "its answers are not read"
        client.channel.resume_writing()
        assert [each.opaque for each in client.read()] == [5]
        assert (world.hub.request_count, world.hub.request_size_bytes) == (0, 0)


_OFFSETS = st.integers(-1, 9) | st.sampled_from(["007", "+3", "x", str(1 << 62), None])
_CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "topic": st.sampled_from(["orders", "bills", "nowhere"]),
        "consumerGroup": st.sampled_from(["readers", "others", "%"]),
        "queueId": st.integers(0, 2),
        "maxMsgNums": st.sampled_from([1, 32]),
        "maxMsgBytes": st.sampled_from([1, 300]),
        "sysFlag": st.sampled_from([0, 1, 2, 4, 5, 6]),
        "commitOffset": _OFFSETS,
        "suspendTimeoutMillis": st.just(60_000),
        "subscription": st.sampled_from(["*", "a", None]),
    },
)
_PULLS = st.lists(
    st.tuples(
        st.integers(0, 3).map(lambda low: low or 7),
        _OFFSETS,
        _CHANGES,
        st.sampled_from([0, 0, 0, 2]),
    ),
    min_size=1,
    max_size=4,
)
_STEPS = st.lists(
    st.tuples(st.just("pull"), st.integers(0, 1), _PULLS, st.integers(0, 2_000))
    | st.tuples(st.just("put"), st.integers(1, 5))
    | st.tuples(st.just("subscribe"), st.sampled_from(["*", "a"]))
    | st.tuples(st.just("close"), st.booleans())
    | st.tuples(st.just("checkpoint"), st.none()),
    max_size=12,
)


def steps_of(world: RemotingWorld, steps: list[Any]) -> list[Any]:
    """What clients are told, step by step, and how far they are."""
    clients = [world.client(port=40_000 + number) for number in range(2)]
    put(world, 4)
    found: list[Any] = []
    for step in steps:
        match step:
            case ("pull", number, pulls, cut):
                # Twice, so that the second time they are known.
                for _ in range(2):
                    data = b"".join(
                        pull(opaque, offset, flag=flag, **changes)
                        for opaque, offset, changes, flag in pulls
                    )
                    found.append(fed(clients[number], data[:cut]))
                    found.append(fed(clients[number], data[cut:]))
            case ("put", count):
                put(world, count)
                found.append([fed(client, b"") for client in clients])
            case ("subscribe", expression):
                subscribe(world, expression)
            case ("close", is_open):
                table = world.broker.group_table
                table.put(replace(table.find("readers"), consume_enable=is_open))
            case _:
                world.store.checkpoint()
    for client in clients:
        client.leave()
    assert (world.hub.request_count, world.hub.request_size_bytes) == (0, 0)
    assert [client.channel.room.size_bytes for client in clients] == [0, 0]
    return [found, world.broker.offsets.all()]


@settings(max_examples=EXAMPLES // 10)
@given(_STEPS)
def test_answers_and_offsets_are_those_of_the_usual_way(steps: list[Any]) -> None:
    found = []
    with TemporaryDirectory() as folder:
        for is_known in (False, True):
            with world_of(Path(folder) / str(is_known), is_known=is_known) as (world, _):
                found.append(steps_of(world, steps))

    assert found[1] == found[0]
