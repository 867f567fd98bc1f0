"""A consumer against a broker that the test plays: what it says, when, and in which order."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from tests.threads import Started
from tests.unit.client.scripted import Scripted
from tests.unit.store.recording import make_record
from tests.waiting import PATIENCE_S

from dueline.client import consumer as consumers
from dueline.client.consumer import AsyncConsumer, BatchHandler, Handler, ThreadedConsumer, part_of
from dueline.client.values import Received
from dueline.errors import BrokerError
from dueline.store import record as records
from dueline.wire import Command

PULL, QUERY, UPDATE, SETTINGS, MAX, MIN = 11, 14, 15, 26, 30, 31
HEART_BEAT, UNREGISTER, SEND_BACK, CLIENTS, ROUTE = 34, 35, 36, 38, 105
RETRY = "%RETRY%billing"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "PAUSE_S", 0.01)


@dataclass
class World:
    """A broker whose queue 0 of `orders` has these messages; nothing else has any."""

    bodies: tuple[bytes, ...] = ()
    others: list[str] = field(default_factory=list)
    codes: dict[int, list[int]] = field(default_factory=dict)
    has_retry_topic: bool = True
    is_quick: bool = False  # says that there is nothing, instead of waiting for something
    committed: int | None = 0
    broker: Scripted = field(default_factory=lambda: Scripted({}))
    me: str = ""

    def __post_init__(self) -> None:
        self.broker.answers = {
            ROUTE: self._route,
            HEART_BEAT: self._beat,
            CLIENTS: self._clients,
            QUERY: self._query,
            MIN: lambda request: request.reply(code=0, ext={"offset": "0"}),
            MAX: lambda request: request.reply(code=0, ext={"offset": "40"}),
            PULL: self._pull,
            UPDATE: self._reply,
            SEND_BACK: self._reply,
            UNREGISTER: self._reply,
            SETTINGS: lambda request: request.reply(code=0, body=b"messageDelayLevel=1s 5s 10s"),
        }

    def of(self, code: int, **fields: str) -> list[Command]:
        return [
            request
            for request in self.broker.requests
            if request.code == code and fields.items() <= dict(request.ext).items()
        ]

    def _reply(self, request: Command, **parts: Any) -> Command:
        """The next code that a test has for this request; 0 when it has no more."""
        codes = self.codes.get(request.code)
        code = codes.pop(0) if codes else 0
        return request.reply(code=code, remark="because" if code else None, **parts)

    def _route(self, request: Command) -> Command:
        if request.ext["topic"] == RETRY and not self.has_retry_topic:
            return request.reply(code=17, remark="no route")
        return self.broker.route(request)

    def _beat(self, request: Command) -> Command:
        self.me = json.loads(request.body)["clientID"]
        return self._reply(request)

    def _clients(self, request: Command) -> Command:
        return self._reply(
            request, body=json.dumps({"consumerIdList": [self.me, *self.others]}).encode()
        )

    def _query(self, request: Command) -> Command:
        if self.committed is None:
            return request.reply(code=22)
        return request.reply(code=0, ext={"offset": str(self.committed)})

    def _pull(self, request: Command) -> Command | None:
        if self.is_quick:
            ext = {"suggestWhichBrokerId": "0", "nextBeginOffset": "0", "minOffset": "0"}
            return request.reply(code=19, ext={**ext, "maxOffset": "0"})
        if (request.ext["topic"], request.ext["queueId"]) != ("orders", "0"):
            return None
        offset = int(request.ext["queueOffset"])
        if offset >= len(self.bodies):
            return None
        body = b"".join(
            records.seal(make_record(body=each, queue_offset=number, position=100 * number))
            for number, each in enumerate(self.bodies)
            if number >= offset
        )
        end = str(len(self.bodies))
        ext = {"suggestWhichBrokerId": "0", "nextBeginOffset": end, "minOffset": "0"}
        return request.reply(code=0, ext={**ext, "maxOffset": end}, body=body)


async def wait_for(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.005)


def consume(
    world: World,
    handler: Handler | BatchHandler,
    until: Callable[[], object],
    *,
    kind: type[AsyncConsumer] = AsyncConsumer,
    **options: Any,
) -> None:
    """Consume until something is so, then leave."""

    async def run() -> None:
        async with (
            world.broker.running() as address,
            kind(address, "orders", "billing", handler, **options),
        ):
            await wait_for(until)

    asyncio.run(run())


def commits(world: World) -> list[int]:
    return [int(each.ext["commitOffset"]) for each in world.of(UPDATE, topic="orders")]


# --- handling -------------------------------------------------------------------------------------


def test_a_queue_moves_on_when_all_its_messages_are_handled() -> None:
    world = World((b"1", b"2", b"3"))
    handled: list[bytes] = []
    is_let_go = asyncio.Event()

    async def handler(message: Received) -> None:
        if message.body == b"1":  # the last to end
            await is_let_go.wait()
        handled.append(message.body)
        if len(handled) == 2:
            assert commits(world) == []
            is_let_go.set()

    consume(world, handler, lambda: commits(world))

    assert sorted(handled) == [b"1", b"2", b"3"]
    assert commits(world) == [3]


@pytest.mark.parametrize(("concurrency", "side_by_side"), [(1, 1), (2, 2)])
def test_so_many_handlers_run_at_a_time(concurrency: int, side_by_side: int) -> None:
    world = World(tuple(b"%d" % number for number in range(6)))
    running: list[bytes] = []
    most = 0

    async def handler(message: Received) -> None:
        nonlocal most
        running.append(message.body)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.remove(message.body)

    consume(world, handler, lambda: commits(world), concurrency=concurrency)

    assert most == side_by_side


def test_a_batch_handler_gets_parts_of_what_has_come_in_order() -> None:
    world = World((b"1", b"2", b"3", b"4", b"5"))
    parts: list[list[bytes]] = []

    def handler(messages: Sequence[Received]) -> None:
        parts.append([message.body for message in messages])

    consume(world, BatchHandler(handler, 2), lambda: commits(world))

    assert sorted(parts) == [[b"1", b"2"], [b"3", b"4"], [b"5"]]


def test_a_refused_message_is_safe_before_the_queue_moves_on() -> None:
    """The broker refuses it twice, and is asked until it has it."""
    world = World((b"bad", b"good"), codes={SEND_BACK: [1, 14]})

    def handler(message: Received) -> None:
        if message.body == b"bad":
            raise ValueError("refused")

    consume(world, handler, lambda: commits(world), attempts_max=3)

    sent_back = world.of(SEND_BACK)
    assert [request.ext["offset"] for request in sent_back] == ["0"] * 3
    assert {request.ext["maxReconsumeTimes"] for request in sent_back} == {"3"}
    codes = [code for code in world.broker.codes() if code in (SEND_BACK, UPDATE)]
    assert codes == [SEND_BACK] * 3 + [UPDATE]


@pytest.mark.parametrize(
    ("backoff", "level"),
    [((), "0"), (("1s",), "1"), (("2s",), "2"), (("5s", "1s"), "2"), (("1h",), "3")],
    ids=["the broker's", "equal", "rounded up", "first of two", "beyond the last"],
)
def test_the_backoff_becomes_a_delay_level(backoff: tuple[str, ...], level: str) -> None:
    world = World((b"bad",))

    def handler(message: Received) -> None:
        raise ValueError("refused")

    consume(world, handler, lambda: commits(world), backoff=backoff)

    assert [request.ext["delayLevel"] for request in world.of(SEND_BACK)] == [level]


def test_plain_functions_run_in_threads_and_are_waited_for_at_the_end() -> None:
    started = Started()
    started.begin()
    world = World((b"1",))
    has_begun, is_leaving = threading.Event(), threading.Event()
    names: list[str] = []

    class Leaving(ThreadedConsumer):
        async def __aexit__(self, *error: Any) -> None:
            is_leaving.set()
            await super().__aexit__(*error)

    def handler(message: Received) -> None:
        has_begun.set()
        assert is_leaving.wait(PATIENCE_S)
        names.append(threading.current_thread().name)

    consume(world, handler, has_begun.is_set, kind=Leaving)

    assert [name.rpartition("_")[0] for name in names] == ["dueline-handler"]
    assert commits(world) == [1]
    assert started.named("dueline-handler") == []


# --- the group ------------------------------------------------------------------------------------


def test_what_has_begun_is_committed_before_the_consumer_leaves_the_group() -> None:
    world = World((b"1",))
    has_begun, is_leaving = asyncio.Event(), asyncio.Event()

    class Leaving(AsyncConsumer):
        async def __aexit__(self, *error: Any) -> None:
            is_leaving.set()
            await super().__aexit__(*error)

    async def handler(message: Received) -> None:
        has_begun.set()
        await is_leaving.wait()

    consume(world, handler, has_begun.is_set, kind=Leaving)

    last = [code for code in world.broker.codes() if code in (UPDATE, UNREGISTER)]
    assert last == [UPDATE, UNREGISTER]
    (left,) = world.of(UNREGISTER)
    assert (left.ext["clientID"], left.ext["consumerGroup"]) == (world.me, "billing")


def test_a_consumer_gives_away_the_queues_that_are_another_s() -> None:
    world = World(has_retry_topic=False, is_quick=True)  # not whole: it is divided again at once

    def has_both() -> bool:
        return bool(world.of(PULL, queueId="0") and world.of(PULL, queueId="1"))

    def is_divided() -> bool:
        return len(world.of(CLIENTS)) > 1

    def goes_on() -> bool:
        return is_divided() and len(world.of(PULL, queueId="0")) > 3

    phases = [has_both, is_divided, goes_on]

    def until() -> bool:
        if phases[0]():
            phases.pop(0)
            world.others[:] = ["zzz"]  # behind this client in order: it gets queue 1
            if phases:
                world.broker.requests.clear()
        return not phases

    consume(world, print, until)

    assert world.of(PULL, queueId="1") == []


def test_a_refused_heart_beat_is_told_at_once_in_the_broker_s_words() -> None:
    world = World(codes={HEART_BEAT: [16]})

    with pytest.raises(BrokerError, match=r"because \(code 16\)"):
        consume(world, print, lambda: pytest.fail("it was entered"))

    assert world.of(PULL) == []


def test_a_broker_that_refuses_for_a_while_is_asked_again() -> None:
    world = World((b"1",), codes={HEART_BEAT: [0, 1, 14], CLIENTS: [1]})
    handled: list[Received] = []

    consume(world, handled.append, lambda: commits(world))

    assert [message.body for message in handled] == [b"1"]


def test_a_consumer_may_be_entered_again() -> None:
    world = World((b"1",))
    handled: list[Received] = []

    def is_committed(count: int) -> bool:
        return len(commits(world)) == count

    async def run() -> None:
        async with world.broker.running() as address:
            consumer = AsyncConsumer(address, "orders", "billing", handled.append)
            for count in (1, 2):
                async with consumer:
                    await wait_for(partial(is_committed, count))

    asyncio.run(run())

    assert [message.body for message in handled] == [b"1", b"1"], "the broker knows no offset"


# --- where it begins ------------------------------------------------------------------------------


def test_a_group_that_begins_at_the_end_says_so_before_it_reads() -> None:
    """Otherwise what comes before its first commit would be skipped by the next owner."""
    world = World(committed=None)

    consume(world, print, lambda: world.of(PULL, topic="orders"), start="end")

    commit, *_ = world.of(UPDATE, topic="orders")
    pull, *_ = world.of(PULL, topic="orders", queueId=commit.ext["queueId"])
    assert (commit.ext["commitOffset"], commit.is_oneway) == ("40", False)
    assert pull.ext["queueOffset"] == "40"
    assert world.broker.requests.index(commit) < world.broker.requests.index(pull)


def test_what_was_refused_is_read_from_its_start_wherever_the_group_begins() -> None:
    world = World(committed=None)

    consume(world, print, lambda: world.of(PULL, topic=RETRY), start="end")

    assert {pull.ext["queueOffset"] for pull in world.of(PULL, topic=RETRY)} == {"0"}
    assert world.of(UPDATE, topic=RETRY) == []


# --- dividing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("item_count", range(8))
@pytest.mark.parametrize("client_count", range(1, 6))
def test_the_parts_of_all_clients_are_the_whole(item_count: int, client_count: int) -> None:
    items, clients = list(range(item_count)), [f"c{number}" for number in range(client_count)]

    parts = [part_of(items, clients, client) for client in clients]

    assert [item for part in parts for item in part] == items
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert part_of(items, clients, "a stranger") == []
