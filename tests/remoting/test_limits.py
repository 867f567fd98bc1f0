"""Hostile and careless peers: closed or told "busy", and nobody else is worse off."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.remoting.peer import Peer, bodies_of
from tests.remoting.serving import RunningBroker
from tests.waiting import wait_until

from dueline.server.remoting.limits import Limits
from dueline.wire import Command, RequestCode

TIGHT = Limits(
    connection_count_max=20,
    request_count_max=3,
    total_request_count_max=5,
    held_size_bytes_max=1 << 20,
    unsent_size_bytes_max=64 << 10,
    idle_s_max=2.0,
    half_frame_s_max=1.0,
    stuck_s_max=1.0,
)


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path, limits=TIGHT) as running:
        yield running


@contextmanager
def dialled(address: str) -> Iterator[socket.socket]:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as made:
        yield made


def received(one: socket.socket) -> bytes:
    """What the server sends next; nothing when it has closed the connection."""
    try:
        return one.recv(4096)
    except ConnectionError:
        return b""


def is_closed(one: socket.socket) -> bool:
    """Whether the server has closed the connection; waits for it or for a byte."""
    return received(one) == b""


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + bytes(600),
        bytes.fromhex("7fffffff00000000"),
        bytes.fromhex("0000000000000000"),
        bytes.fromhex("0000000900000003") + b"{]}xx",
        bytes.fromhex("0000000802000000") + bytes(4),
        bytes.fromhex("0000000800ffffff") + bytes(4),
    ],
    ids=["http", "tls", "huge", "zero", "bad json", "serialization", "header length"],
)
def test_garbage_is_closed(broker: RunningBroker, data: bytes) -> None:
    for address in (broker.address, broker.name_server):
        with dialled(address) as one:
            one.sendall(data)
            told = b"".join(iter(lambda: received(one), b""))  # ends when it is closed
            has_words = data.startswith((b"GET", b"\x16"))
            assert told == b"" or has_words, "only HTTP and TLS have words for it"


def test_half_a_frame_and_silence_is_closed(tight: RunningBroker) -> None:
    with dialled(tight.address) as one:
        one.sendall(Command(code=RequestCode.HEART_BEAT, opaque=1).encode()[:-3])

        assert is_closed(one)


def test_idle_connection_is_closed_and_a_busy_one_is_not(tight: RunningBroker) -> None:
    with dialled(tight.address) as idle, Peer(tight.address) as busy:
        busy.send_message("orders")
        idle.setblocking(False)

        def idle_is_closed() -> bool:
            assert busy.pull("orders").code == 0
            try:
                return idle.recv(1) == b""
            except BlockingIOError:
                return False

        wait_until(idle_is_closed, what="the idle connection to be closed")


def test_connections_over_the_limit_are_closed_at_once(tight: RunningBroker) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(dialled(tight.address)) for _ in range(20)]
        wait_until(
            lambda: sum(len(hub.entrance.newcomers) for hub in tight.service.hubs) == 20,
            what="twenty connections",
        )

        with dialled(tight.address) as over:
            assert is_closed(over)
        held[0].close()

        def can_enter() -> bool:
            with Peer(tight.address) as peer:
                try:
                    return peer.call(999).code == 3
                except ConnectionError:
                    return False

        wait_until(can_enter, what="a place to become free")


def test_too_many_unanswered_requests_get_busy(tight: RunningBroker) -> None:
    with Peer(tight.address) as peer, Peer(tight.address) as other:
        peer.send_message("orders")
        ext = peer.pull_ext("orders", 1, suspend_ms=30_000)
        waiting = [peer.send(RequestCode.PULL_MESSAGE, ext) for _ in range(3)]

        over = peer.call(RequestCode.PULL_MESSAGE, ext)
        assert over.code == 2
        # The others have room of their own.
        assert other.send_message("orders", b"more").code == 0
        assert [bodies_of(peer.wait_answer(opaque)) for opaque in waiting] == [[b"more"]] * 3


def test_unfinished_frames_of_all_together_are_bounded(tight: RunningBroker) -> None:
    large = bytes.fromhex("00400000") + bytes.fromhex("00000010")
    with ExitStack() as stack:
        many = [stack.enter_context(dialled(tight.address)) for _ in range(8)]
        for one in many:
            one.settimeout(0.2)

        def send_all() -> int:
            lost = 0
            for one in many:
                try:
                    one.sendall(large + bytes(400_000))
                except OSError:
                    lost += 1
            return lost

        wait_until(send_all, what="somebody to be closed")
        with Peer(tight.address) as peer:
            assert peer.send_message("orders").code == 0


def test_peer_that_does_not_read_is_closed_and_others_go_on(tight: RunningBroker) -> None:
    with Peer(tight.address) as sender:
        for _ in range(4):
            sender.send_message("orders", bytes(200_000))
    with dialled(tight.address) as stuck, Peer(tight.address) as other:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ext = other.pull_ext("orders")
        request = Command(code=RequestCode.PULL_MESSAGE, opaque=1, ext=ext).encode()
        stuck.setblocking(False)

        def stuck_is_gone() -> bool:
            assert other.pull("orders").code == 0
            try:
                stuck.send(request)
            except BlockingIOError:
                pass
            except OSError:
                return True
            return False

        wait_until(stuck_is_gone, what="the connection that does not read to be closed")


def test_full_writer_is_busy_and_not_an_error(tmp_path: Path) -> None:
    with RunningBroker(tmp_path, queue_count_max=1) as broker, Peer(broker.address) as peer:
        ext = {"a": "p", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0"}
        peer.send_message("t")
        opaques = [peer.send(RequestCode.SEND_MESSAGE_V2, ext, b"x") for _ in range(300)]

        codes = [peer.wait_answer(opaque).code for opaque in opaques]

        assert set(codes) <= {0, 2}
        assert 0 in codes
        assert broker.store.offset_range("t", 0)[1] == 1 + codes.count(0)


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_and_random_requests_leave_the_broker_well(
    broker: RunningBroker, seed: int
) -> None:
    generator = random.Random(seed)
    with ExitStack() as stack:
        for _ in range(20):
            one = stack.enter_context(dialled(broker.address))
            one.sendall(generator.randbytes(generator.randrange(1, 200)))
        with Peer(broker.address) as peer:
            for code in sorted(broker.service.hubs[0].table):
                words = ("topic", "group", "consumerGroup", "queueId", "offset", "b", "e")
                ext = {word: generator.choice(("", "0", "-1", "x", "9" * 30)) for word in words}
                body = generator.choice((b"", b"{}", b"[1]", generator.randbytes(40)))
                answer = peer.call(code, ext, body)
                assert answer.is_response

            assert peer.send_message("orders", b"still here").code == 0
            assert bodies_of(peer.pull("orders")) == [b"still here"]
    assert broker.failures == []


def test_waiting_pulls_are_shared_out_when_they_are_many(tmp_path: Path) -> None:
    limits = Limits(waiting_count_max=6)
    with (
        RunningBroker(tmp_path, limits=limits) as broker,
        Peer(broker.address) as greedy,
        Peer(broker.address) as modest,
    ):
        modest.send_message("orders")
        ext = greedy.pull_ext("orders", 1, suspend_ms=30_000)
        waiting = [greedy.send(RequestCode.PULL_MESSAGE, ext) for _ in range(6)]
        assert greedy.call(RequestCode.PULL_MESSAGE, ext).code == 2, "it has more than anybody"

        pulls = [modest.send(RequestCode.PULL_MESSAGE, ext) for _ in range(2)]

        # The oldest of the other connection are answered as if their time were over ...
        assert [greedy.wait_answer(opaque).code for opaque in waiting[:2]] == [19, 19]
        # ... and everybody else gets what they wait for.
        modest.send_message("orders", b"more")
        assert [bodies_of(modest.wait_answer(opaque)) for opaque in pulls] == [[b"more"]] * 2
        assert [bodies_of(greedy.wait_answer(opaque)) for opaque in waiting[2:]] == [[b"more"]] * 4
        # The places are free again.
        ext = greedy.pull_ext("orders", 2, suspend_ms=1)
        assert [greedy.call(RequestCode.PULL_MESSAGE, ext).code for _ in range(10)] == [19] * 10


def test_waiting_pops_are_shared_out_with_the_pulls(tmp_path: Path) -> None:
    with (
        RunningBroker(tmp_path, limits=Limits(waiting_count_max=3)) as broker,
        Peer(broker.address) as greedy,
        Peer(broker.address) as modest,
    ):
        modest.send_message("orders")
        pop = {
            "consumerGroup": "g",
            "topic": "empty",
            "queueId": "-1",
            "maxMsgNums": "1",
            "invisibleTime": "60000",
            "pollTime": "30000",
            "bornTime": "0",
            "initMode": "0",
        }
        modest.send_message("empty")
        assert modest.call(RequestCode.POP_MESSAGE, pop).code == 0
        waiting: list[int] = []
        while len(waiting) < 3:  # one after the other: they look in threads before they wait
            waiting.append(greedy.send(RequestCode.POP_MESSAGE, pop))
            wait_until(
                lambda: broker.broker.meter.figures().waiting_reader_count == len(waiting),
                what="a pop that waits",
            )
        assert greedy.call(RequestCode.POP_MESSAGE, pop).code == 2

        ext = modest.pull_ext("orders", 1, suspend_ms=30_000)
        pull = modest.send(RequestCode.PULL_MESSAGE, ext)

        assert greedy.wait_answer(waiting[0]).code == 210  # the time is over
        greedy.send_message("orders", b"more")
        assert bodies_of(modest.wait_answer(pull)) == [b"more"]
