"""Turns: the same bytes give the same answers and the same messages, compiled or one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tests.conftest import EXAMPLES
from tests.unit.server.remoting.made_ids import PREFIX, said, without_made_ids
from tests.unit.server.remoting.world import Client, RemotingWorld, remoting_world
from tests.unit.store.packing import unpacked_rows
from tests.unit.wire.turn_oracle import sends

from dueline import compiled
from dueline.errors import LimitExceeded, StoreFailed, Unavailable
from dueline.message import encode_properties
from dueline.message_rows import MessageRows
from dueline.server.process import KERNELS
from dueline.server.remoting import channel
from dueline.server.remoting.limits import Limits
from dueline.server.remoting.query import Queries
from dueline.server.remoting.send import Sends, row_actions
from dueline.server.remoting.turns import EMPTY_LOOKS_MAX, LOOKS_MAX, Turns
from dueline.server.remoting.turns import KERNELS as TURNS
from dueline.wire import Command
from dueline.wire.batch import BatchMessage, encode_batch
from dueline.wire.turn import TurnLimits, TurnReader

pytest.importorskip("numba")

LIMITS = TurnLimits(
    frame_size_bytes_max=16 << 20,
    body_size_max=8_000,
    batch_count_max=10_000,
    level_max=3,
    delay_max_ms=1 << 40,
)


class Rows:
    """Hands rows to a store, and counts them."""

    def __init__(self, world: RemotingWorld) -> None:
        self.world = world
        self.count = 0
        self.call_count = 0
        self.error: Exception | None = None
        self.part_error: Any = None

    def put(self, messages: MessageRows, done: Any) -> None:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.count += len(messages)
        self.call_count += 1
        (result,) = self.world.store.put_rows([messages])
        if self.part_error is not None:
            result = result._replace(delayed_error=self.part_error)
        done(result)


@contextmanager
def world_of(folder: Path, *, is_compiled: bool, limits: Limits | None = None) -> Iterator[Any]:
    with remoting_world(folder, limits=limits) as world, pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel, "TURN_S_MAX", 1e9)  # a busy machine changes whose turn it is
        rows = Rows(world)
        world.broker._submit_rows = rows.put
        sends = Sends(world.context)
        world.serve(sends.table())
        world.serve(Queries(world.context, world.hub).table())
        if is_compiled:
            assert compiled.load(KERNELS)
            reader = TurnReader(LIMITS, row_actions())
            world.hub.turns = Turns(world.hub, world.context, sends, reader, size_bytes_min=0)
        world.store._core.ids.prefix = PREFIX  # type: ignore[misc]
        for topic in ("t", "topic-2"):
            world.broker.topics.ensure(topic, queue_count=4)
        world.broker.save()
        yield world, rows


def fed(world: RemotingWorld, clients: Sequence[Client], turns: list[list[bytes]]) -> list[Any]:
    """Give each client its bytes, turn by turn; all answers by client."""
    answers: list[dict[int, list[Command]]] = [{} for _ in clients]
    for turn in turns:
        for client, data in zip(clients, turn, strict=False):
            if data and not client.transport.is_gone:
                client.channel.data_received(data)
        for found, client in zip(answers, clients, strict=True):
            for command in client.read():
                found.setdefault(command.opaque, []).append(command)
    return answers


def contents(world: RemotingWorld) -> list[Any]:
    """What consumers find, queue by queue, and what waits."""
    store = world.store
    found: list[Any] = []
    for topic, queue_id in sorted(store.queues()):
        start, end = store.offset_range(topic, queue_id)
        for offset in range(start, end):
            view = store.read(topic, queue_id, offset, count_max=1).records[0]
            record = bytes(view)
            # Neither where it stands nor which group it was written with.
            kept = record[4:28] + record[36:76] + record[84:]
            found.append((topic, queue_id, len(record), without_made_ids(kept)))
    pending = store._core.timeline.open.units()
    for position, size in zip(pending.position.tolist(), pending.size.tolist(), strict=True):
        (record,) = unpacked_rows(bytes(store._core.delay.read(position, size)), [position])
        kept = record[4:28] + record[36:76] + record[84:]
        found.append((len(record), without_made_ids(kept)))
    return found


def told(answers: list[dict[int, list[Command]]]) -> list[Any]:
    """Answers without the places in the log, where groups are cut otherwise."""
    return [
        {
            opaque: [(each.code, each.remark, fields_of(each)) for each in commands]
            for opaque, commands in found.items()
        }
        for found in answers
    ]


def fields_of(answer: Command) -> dict[str, bytes]:
    return {name: said(name, text) for name, text in answer.ext.items() if name != "msgId"}


_OTHER = Command(code=9_999, opaque=5).encode()
_PIECES = st.lists(sends() | st.just(_OTHER), max_size=5).map(b"".join)


@settings(max_examples=EXAMPLES // 4)
@given(st.lists(st.lists(_PIECES, min_size=3, max_size=3), max_size=3), st.integers(0, 400))
def test_answers_and_messages_are_those_of_requests_one_by_one(
    turns: list[list[bytes]], cut: int
) -> None:
    if turns:  # a frame that comes in two turns
        first = turns[0][0]
        turns = [[first[:cut], *turns[0][1:]], [first[cut:], b"", b""], *turns[1:]]
    found = []
    with TemporaryDirectory() as folder:
        for is_compiled in (False, True):
            with world_of(Path(folder) / str(is_compiled), is_compiled=is_compiled) as (world, _):
                clients = [world.client(port=40_000 + number) for number in range(3)]
                answers = fed(world, clients, turns)
                gone = [client.transport.is_gone for client in clients]
                hub = world.hub
                assert (hub.request_count, hub.request_size_bytes) == (0, 0)
                found.append((told(answers), contents(world), gone))

    assert found[1] == found[0]


def frame(opaque: int, body: bytes = b"x", *, code: int = 310, **fields: str) -> bytes:
    properties = {"UNIQ_KEY": f"A{opaque}", **fields}
    ext = {"a": "g", "b": properties.pop("b", "t"), "c": "TBW102", "d": "4", "e": "0", "f": "0"}
    ext |= {"g": "17", "h": "0", "i": encode_properties(properties).decode()}
    return Command(code=code, opaque=opaque, ext=ext, body=body).encode()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[RemotingWorld, Rows]]:
    with world_of(tmp_path, is_compiled=True) as made:
        yield made


def bodies(world: RemotingWorld, topic: str = "t") -> list[bytes]:
    _, end = world.store.offset_range(topic, 0)
    return [
        world.store.record_at(int(unit["position"])).body
        for unit in world.store._core.queues.get(topic, 0).read(0, end)  # type: ignore[union-attr]
    ]


def test_a_turn_of_all_connections_is_one_write(both: tuple[RemotingWorld, Rows]) -> None:
    world, rows = both
    clients = [world.client(port=40_000 + number) for number in range(5)]
    answers = fed(world, clients, [[frame(n) + frame(n + 10) for n in range(5)]])

    assert (rows.count, rows.call_count) == (10, 1)
    assert [sorted(found) for found in answers] == [[n, n + 10] for n in range(5)]


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_small_turn_goes_as_rows_only_while_many_share_an_fsync(
    both: tuple[RemotingWorld, Rows], flush: str
) -> None:
    world, rows = both
    world.store._core.options = replace(world.store.options, flush=flush)
    world.hub.turns._size_bytes_min = 4 << 10  # type: ignore[union-attr]
    client = world.client()

    fed(world, [client], [[frame(1)]])
    before = rows.count
    fed(world, [client], [[b"".join(frame(opaque) for opaque in range(2, 102))]])
    large = rows.count
    fed(world, [client], [[frame(102)]])
    behind_it = rows.count
    fed(world, [client], [[frame(opaque)] for opaque in range(103, 203)])
    later = rows.count

    assert (before, large, behind_it) == (0, 100, 101 if flush == "sync" else 100)
    assert (101 < later < 202) if flush == "sync" else later == 100
    assert bodies(world) == [b"x"] * 202


def test_order_holds_between_rows_and_single_messages(both: tuple[RemotingWorld, Rows]) -> None:
    world, rows = both
    client = world.client()
    stream = b""
    for number in range(60):
        # Every third has a name that no kernel reads.
        body = b"%d" % number
        stream += frame(number, body, x="1") if number % 3 else frame(number, body, POP_CK="old")
        if number % 7 == 0:
            stream += _OTHER

    fed(world, [client], [[stream]])

    assert bodies(world) == [b"%d" % number for number in range(60)]
    assert rows.count == 40


def test_a_new_topic_is_made_the_usual_way_and_then_is_quick(
    both: tuple[RemotingWorld, Rows],
) -> None:
    world, rows = both
    client = world.client()

    (first,) = fed(world, [client], [[frame(1, b="new") + frame(2, b="new")]])
    assert rows.count == 0
    (later,) = fed(world, [client], [[frame(3, b="new")]])

    assert rows.count == 1
    assert [each.code for found in (first, later) for (each,) in found.values()] == [0, 0, 0]


def test_a_topic_that_takes_no_more_is_noticed(both: tuple[RemotingWorld, Rows]) -> None:
    world, rows = both
    client = world.client()
    (first,) = fed(world, [client], [[frame(1)]])
    config = world.broker.topics.find("t")
    world.broker.topics.put(replace(config, perm=4))

    (second,) = fed(world, [client], [[frame(2) + frame(3)]])

    assert first[1][0].code == 0
    assert {each.code for (each,) in second.values()} == {16}
    assert rows.count == 1


def test_a_broker_that_stops_takes_no_rows(both: tuple[RemotingWorld, Rows]) -> None:
    world, rows = both
    world.broker.refuse()

    (answers,) = fed(world, [world.client()], [[frame(1)]])

    assert rows.count == 0
    assert answers[1][0].code != 0
    assert "stopping" in (answers[1][0].remark or "")


def test_too_many_requests_are_refused_as_ever(tmp_path: Path) -> None:
    limits = Limits(request_count_max=3)
    found = []
    for is_compiled in (False, True):
        with world_of(tmp_path / str(is_compiled), is_compiled=is_compiled, limits=limits) as made:
            world, rows = made
            (answers,) = fed(world, [world.client()], [[b"".join(map(frame, range(8)))]])
            found.append(sorted(each.code for (each,) in answers.values()))
            assert rows.count == 0
            assert world.hub.request_count == 0

    assert found[0] == found[1] == [0] * 3 + [2] * 5


def test_what_the_writer_refuses_together_it_is_asked_for_singly(
    both: tuple[RemotingWorld, Rows],
) -> None:
    world, rows = both
    rows.error = LimitExceeded("the broker is busy")

    (answers,) = fed(world, [world.client()], [[frame(1) + frame(2)]])

    assert [each.code for (each,) in answers.values()] == [0, 0]
    assert rows.count == 2


@pytest.mark.parametrize("error", [Unavailable("disk full"), StoreFailed("gone", path="p")])
def test_every_request_learns_of_a_failure(
    both: tuple[RemotingWorld, Rows], error: Exception
) -> None:
    world, rows = both
    rows.error = error

    (answers,) = fed(world, [world.client()], [[frame(1) + frame(2)]])

    assert sorted(answers) == [1, 2]
    assert all(each.code != 0 for (each,) in answers.values())
    assert world.hub.request_count == 0


def test_a_log_that_has_taken_nothing_fails_its_requests_only(
    both: tuple[RemotingWorld, Rows],
) -> None:
    world, rows = both
    rows.part_error = Unavailable("disk full")
    mixed = encode_batch(
        [BatchMessage(b"a", b"UNIQ_KEY\x01B1"), BatchMessage(b"b", b"UNIQ_KEY\x01B2\x02DELAY\x011")]
    )
    stream = frame(1) + frame(2, DELAY="1") + frame(3, mixed, code=320)

    (answers,) = fed(world, [world.client()], [[stream]])

    assert answers[1][0].code == 0
    assert "disk full" in (answers[2][0].remark or "")
    assert "disk full" in (answers[3][0].remark or "")
    assert world.hub.request_count == 0


def test_messages_of_a_batch_may_each_have_a_delay(both: tuple[RemotingWorld, Rows]) -> None:
    world, rows = both
    batch = encode_batch(
        [
            BatchMessage(b"now", b"UNIQ_KEY\x01A"),
            BatchMessage(b"level", b"UNIQ_KEY\x01B\x02DELAY\x012"),
            BatchMessage(b"timer", b"UNIQ_KEY\x01C\x02TIMER_DELAY_MS\x01500"),
        ]
    )

    (answers,) = fed(world, [world.client()], [[frame(1, batch, code=320)]])

    assert answers[1][0].code == 0
    assert answers[1][0].ext["msgId"].count(",") == 2
    assert rows.count == 3
    assert world.store.pending_count() == 2
    assert bodies(world) == [b"now"]


def test_a_peer_that_does_not_read_is_not_read_from(both: tuple[RemotingWorld, Rows]) -> None:
    world, rows = both
    client = world.client()
    client.channel.pause_writing()

    client.channel.data_received(frame(1))
    world.settle()
    assert rows.count == 0
    client.channel.resume_writing()
    (answers,) = fed(world, [client], [[frame(2)]])

    assert sorted(answers) == [1, 2]


def test_while_kernels_are_not_there_requests_are_taken_one_by_one(
    both: tuple[RemotingWorld, Rows],
) -> None:
    world, rows = both
    client = world.client()
    with compiled.switched_off():
        (first,) = fed(world, [client], [[frame(1)]])
    client.channel.data_received(frame(2))  # waits for the end of its turn
    with compiled.switched_off():
        second = client.read()

    assert rows.count == 0
    assert first[1][0].code == 0
    assert [each.code for each in second] == [0]


@pytest.mark.parametrize("missing", TURNS)
def test_while_one_module_of_kernels_is_not_there_everything_is_answered(
    both: tuple[RemotingWorld, Rows], monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """They become ready one by one, while clients send."""
    world, _ = both
    client = world.client()
    monkeypatch.delitem(compiled._modules, missing)

    (answers,) = fed(world, [client], [[frame(2)]])

    assert [each.code for each in answers[2]] == [0]


def test_answers_that_cannot_be_made_are_errors(
    both: tuple[RemotingWorld, Rows],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, rows = both

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("dueline.server.remoting.turns.encode_answers", fail)
    (answers,) = fed(world, [world.client()], [[frame(1) + frame(2)]])

    assert rows.count == 2
    assert sorted(answers) == [1, 2]
    assert {answer.remark for found in answers.values() for answer in found} == {
        "the broker failed when it answered; the messages are kept"
    }
    assert "MemoryError" in caplog.text
    assert (world.hub.request_count, world.hub.request_size_bytes) == (0, 0)


def arriving(world: RemotingWorld, clients: Sequence[Client], *, gap: int = 0) -> None:
    """Each of them sends in another turn of the loop, so many turns behind the one before."""

    async def arrive() -> None:
        for number, client in enumerate(clients, 1):
            client.channel.data_received(frame(number))
            for _ in range(1 + gap):
                await asyncio.sleep(0)

    world.loop.run_until_complete(arrive())
    world.settle()


def test_while_several_are_under_way_those_that_follow_are_waited_for(
    both: tuple[RemotingWorld, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, rows = both
    clients = [world.client(port=40_000 + number) for number in range(5)]

    arriving(world, clients)
    assert rows.call_count == 5

    monkeypatch.setattr(world.context.sending, "shares_fsyncs", lambda count: count <= 5)
    arriving(world, clients)
    assert rows.call_count == 6
    assert [len(client.read()) for client in clients] == [2] * 5


def test_as_many_as_of_late_are_waited_for_a_little_longer(
    both: tuple[RemotingWorld, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, rows = both
    clients = [world.client(port=40_000 + number) for number in range(5)]
    monkeypatch.setattr(world.context.sending, "shares_fsyncs", lambda count: True)
    arriving(world, clients)
    assert rows.call_count == 1

    arriving(world, clients, gap=1)
    assert rows.call_count == 2

    arriving(world, clients, gap=EMPTY_LOOKS_MAX + 2)
    assert rows.call_count == 2 + 5, "after some looks in vain nobody is waited for"

    for _ in range(30):
        arriving(world, clients[:1])
    rows.call_count = 0
    arriving(world, clients[:2], gap=1)
    assert rows.call_count == 2, "they were fewer of late"


def test_nobody_waits_for_ever_for_those_that_follow(
    both: tuple[RemotingWorld, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, rows = both
    clients = [world.client(port=40_000 + number) for number in range(2 * LOOKS_MAX)]
    monkeypatch.setattr(world.context.sending, "shares_fsyncs", lambda count: True)

    arriving(world, clients)

    assert rows.call_count == 2


def test_a_turn_ends_early_when_much_has_come(both: tuple[RemotingWorld, Rows]) -> None:
    world, rows = both
    client = world.client()
    body = b"x" * 7_000

    client.channel.data_received(b"".join(frame(number, body) for number in range(700)))

    assert rows.count == 700
    assert len(client.read()) == 700


def test_bytes_that_are_no_frames_end_the_connection(both: tuple[RemotingWorld, Rows]) -> None:
    world, rows = both
    client = world.client()

    (answers,) = fed(world, [client], [[frame(1) + b"\xff" * 20]])

    assert client.transport.is_gone
    assert world.hub.violation_count == 1
    assert answers[1][0].code == 0
    assert rows.count == 1
