"""One queue's requests as a broker gets them, and what is made of its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from tests.unit.client.scripted import Scripted
from tests.unit.store.recording import make_record
from tests.waiting import PATIENCE_S

from dueline.client.cluster import Cluster, TopicQueue
from dueline.client.pulling import PullResult, QueuePuller
from dueline.errors import BrokerError, InvalidRequest, LimitExceeded, NotFound, Unavailable
from dueline.store import record as records
from dueline.wire import Command

PULL, QUERY, UPDATE, SEARCH, MAX, MIN = 11, 14, 15, 29, 30, 31
QUEUE = TopicQueue(topic="orders", broker_name="b", queue_id=1)
NEXT = {"suggestWhichBrokerId": "0", "nextBeginOffset": "9", "minOffset": "2", "maxOffset": "9"}

T = TypeVar("T")
Use = Callable[[QueuePuller], Awaitable[T]]


def ask(
    code: int, use: Use[T], answer: Callable[[Command], Command | None], *, timeout_s: float = 30.0
) -> tuple[T, list[Command]]:
    """What `use` makes of an answer, and the requests of this code that it sent."""
    broker = Scripted({})
    broker.answers = {105: broker.route, code: answer}

    async def run() -> T:
        async with broker.running() as address:
            cluster = Cluster(address, timeout_s=timeout_s)
            try:
                return await use(QueuePuller(cluster, "billing", QUEUE, "new || old"))
            finally:
                await cluster.close()

    found = asyncio.run(run())
    return found, [request for request in broker.requests if request.code == code]


def replying(
    code: int = 0, *, ext: dict[str, str] | None = None, body: bytes = b"", remark: str = "because"
) -> Callable[[Command], Command]:
    return lambda request: request.reply(code=code, ext=ext or {}, body=body, remark=remark)


def sealed(*bodies: bytes) -> bytes:
    return b"".join(
        records.seal(make_record(body=body, queue_offset=7 + number))
        for number, body in enumerate(bodies)
    )


# --- pull -----------------------------------------------------------------------------------------


def test_messages_come_with_the_offset_to_go_on_from() -> None:
    result, (request,) = ask(
        PULL,
        lambda puller: puller.pull(7, wait_s=0, count_max=5),
        replying(ext=NEXT, body=sealed(b"17", b"18")),
    )

    assert [message.body for message in result.messages] == [b"17", b"18"]
    assert [message.queue_offset for message in result.messages] == [7, 8]
    assert result.next_offset == 9
    expected = {
        "consumerGroup": "billing",
        "topic": "orders",
        "queueId": "1",
        "queueOffset": "7",
        "maxMsgNums": "5",
        "subscription": "new || old",
    }
    assert {name: request.ext[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("wait_s", "suspend_ms", "is_suspended"), [(0.0, "0", False), (1.5, "1500", True)]
)
def test_only_those_who_wait_are_kept_waiting(
    wait_s: float, suspend_ms: str, is_suspended: bool
) -> None:
    _, (request,) = ask(PULL, lambda puller: puller.pull(0, wait_s=wait_s), replying(19, ext=NEXT))

    assert request.ext["suspendTimeoutMillis"] == suspend_ms
    flags = int(request.ext["sysFlag"])
    assert bool(flags & 0x2) == is_suspended  # RocketMQ: commit 1, suspend 2, subscription 4
    assert (flags & 0x1, flags & 0x4) == (0, 4)


@pytest.mark.parametrize("code", [19, 20, 21], ids=["nothing-new", "filtered-out", "moved"])
def test_an_answer_without_messages_says_where_to_go_on(code: int) -> None:
    result, _ = ask(PULL, lambda puller: puller.pull(3, wait_s=0), replying(code, ext=NEXT))

    assert result == PullResult(messages=[], next_offset=9)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(2, LimitExceeded), (13, InvalidRequest), (16, BrokerError), (17, NotFound), (26, NotFound)],
)
def test_a_refused_pull_raises_the_broker_s_words(code: int, kind: type[BrokerError]) -> None:
    with pytest.raises(BrokerError, match=rf"^because \(code {code}\)$") as caught:
        ask(PULL, lambda puller: puller.pull(0, wait_s=0), replying(code))

    assert type(caught.value) is kind


def test_a_broker_may_take_the_time_that_it_was_given_to_wait() -> None:
    """The answer is waited for longer than for other requests: the wait comes on top."""
    with pytest.raises(Unavailable, match=r"answer to request 11 within 2\.5 s"):
        ask(PULL, lambda puller: puller.pull(0, wait_s=0.5), lambda _: None, timeout_s=2)


# --- offsets --------------------------------------------------------------------------------------


def test_a_group_that_is_not_known_has_no_offset() -> None:
    offset, (request,) = ask(QUERY, QueuePuller.committed, replying(22))

    assert offset is None
    # Unless they are told, Apache's brokers answer 0 for a queue whose start is still there.
    assert request.ext["setZeroIfNotFound"] == "false"
    assert request.ext["consumerGroup"] == "billing"


def test_the_first_offset_is_an_offset() -> None:
    offset, _ = ask(QUERY, QueuePuller.committed, replying(ext={"offset": "0"}))

    assert offset == 0


OFFSETS: list[tuple[int, Use[int | None]]] = [
    (QUERY, QueuePuller.committed),
    (MAX, QueuePuller.end),
    (MIN, QueuePuller.start),
    (SEARCH, lambda puller: puller.at(1_700_000_000_000)),
]


@pytest.mark.parametrize(("code", "use"), OFFSETS)
def test_offsets_are_asked_for_by_queue(code: int, use: Use[int | None]) -> None:
    offset, (request,) = ask(code, use, replying(ext={"offset": "41"}))

    assert offset == 41
    assert (request.ext["topic"], request.ext["queueId"]) == ("orders", "1")
    assert request.ext.get("timestamp") == ("1700000000000" if code == SEARCH else None)


@pytest.mark.parametrize(("code", "use"), OFFSETS)
def test_an_offset_that_is_refused_is_not_taken_for_none(code: int, use: Use[int | None]) -> None:
    with pytest.raises(BrokerError, match=r"because \(code 1\)"):
        ask(code, use, replying(1))


# --- commit ---------------------------------------------------------------------------------------


async def commit_and_look(puller: QueuePuller) -> None:
    """The second request is answered, so the broker has seen the first one by then."""
    await puller.commit(12)
    await puller.commit(13, is_answered=True)


def test_a_commit_waits_for_an_answer_only_if_it_is_told_to() -> None:
    _, (first, second) = ask(UPDATE, commit_and_look, replying())

    assert (first.is_oneway, first.ext["commitOffset"]) == (True, "12")
    assert (second.is_oneway, second.ext["commitOffset"]) == (False, "13")


def test_a_refused_commit_is_told_to_those_who_wait() -> None:
    with pytest.raises(InvalidRequest, match=r"because \(code 13\)"):
        ask(UPDATE, lambda puller: puller.commit(12, is_answered=True), replying(13))


def test_a_broker_that_goes_away_is_told_by_every_request() -> None:
    """Also by one that wants no answer: what it says would be lost without a word."""
    is_pulled = asyncio.Event()
    broker = Scripted({})
    broker.answers = {105: broker.route, PULL: lambda _: is_pulled.set()}

    async def run() -> None:
        async with broker.running() as address:
            cluster = Cluster(address, timeout_s=PATIENCE_S)
            puller = QueuePuller(cluster, "billing", QUEUE, "*")
            waiting = asyncio.create_task(puller.pull(0, wait_s=1))
            await is_pulled.wait()
        with pytest.raises(Unavailable, match="the connection was closed"):
            await waiting
        with pytest.raises(Unavailable, match=address):
            await puller.commit(12)
        await cluster.close()

    asyncio.run(run())
