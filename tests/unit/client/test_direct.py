"""Requests in the caller's thread, to a server on loopback that the test plays."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from tests.unit.wire.codecs import decode_command
from tests.waiting import PATIENCE_S

from dueline.client.connection import Dialling
from dueline.client.direct import Direct, Pause
from dueline.errors import Unavailable
from dueline.wire import Command

Play = Callable[[socket.socket], None]


def read_request(peer: socket.socket) -> Command:
    """The next command, cut by its own length; EOFError at the end."""
    prefix = _exactly(peer, 4)
    return decode_command(prefix + _exactly(peer, int.from_bytes(prefix, "big")))


def _exactly(peer: socket.socket, size_bytes: int) -> bytes:
    data = b""
    while len(data) < size_bytes:
        more = peer.recv(size_bytes - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def answer(peer: socket.socket, request: Command) -> None:
    peer.sendall(request.reply(code=0, body=request.body.upper()).encode())


def answer_all(peer: socket.socket) -> None:
    with contextlib.suppress(EOFError, ConnectionResetError):
        while True:
            answer(peer, read_request(peer))


@contextlib.contextmanager
def served(*plays: Play) -> Iterator[str]:
    """A server whose n-th connection is played by the n-th function, then it closes it."""

    def serve() -> None:
        for play in plays:
            with listening.accept()[0] as peer:
                peer.settimeout(PATIENCE_S)
                play(peer)

    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        ThreadPoolExecutor(1) as threads,
    ):
        listening.settimeout(PATIENCE_S)
        playing = threads.submit(serve)
        yield "127.0.0.1:{1}".format(*listening.getsockname())
        playing.result(PATIENCE_S)


async def ask(
    direct: Direct,
    address: str,
    body: bytes = b"a",
    *,
    timeout_s: float = PATIENCE_S,
    on_request: Callable[[Command], None] = lambda command: None,
) -> bytes:
    how = Dialling(timeout_s=PATIENCE_S, on_request=on_request)
    connection = await direct.connection(address, how)
    return (await connection.call(10, body=body, timeout_s=timeout_s)).body


@pytest.fixture
def direct() -> Iterator[Direct]:
    made = Direct()
    yield made
    made.close()


def test_requests_one_after_the_other_share_a_connection(direct: Direct) -> None:
    with served(answer_all) as address:
        bodies = [direct.run(ask(direct, address, body)) for body in (b"a", b"b")]
        direct.close()

    assert bodies == [b"A", b"B"]


def test_works_side_by_side_are_asked_for_before_the_first_answer_is_read(direct: Direct) -> None:
    found: dict[bytes, bytes] = {}

    def play(peer: socket.socket) -> None:
        for request in reversed([read_request(peer) for _ in range(3)]):
            answer(peer, request)
        answer_all(peer)

    async def one(address: str, body: bytes) -> None:
        found[body] = await ask(direct, address, body)

    with served(play) as address:
        works = [partial(one, address, body) for body in (b"a", b"b", b"c", b"d")]
        direct.run(direct.side_by_side(works, count_max=3))
        direct.close()

    assert found == {b"a": b"A", b"b": b"B", b"c": b"C", b"d": b"D"}


def test_works_side_by_side_pause_at_the_same_time(direct: Direct) -> None:
    events: list[str] = []

    async def one(name: str) -> None:
        for attempt in range(2):
            events.append(f"{name}{attempt}")
            await Pause(0.001)
        events.append(f"{name} ends")

    works = [partial(one, name) for name in "abc"]

    direct.run(direct.side_by_side(works, count_max=10))

    assert events == ["a0", "b0", "c0", "a1", "b1", "c1", "a ends", "b ends", "c ends"]


def test_where_nobody_answered_one_work_the_others_do_not_try_at_once_again() -> None:
    direct = Direct(redial_s=PATIENCE_S)
    errors: list[str] = []

    async def one(address: str) -> None:
        with pytest.raises(Unavailable) as refused:
            await ask(direct, address)
        errors.append(refused.value.message)

    async def both(address: str) -> None:
        await one(address)
        listening.listen()
        await one(address)

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(PATIENCE_S)
        address = "127.0.0.1:{1}".format(*listening.getsockname())
        direct.run(both(address))
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(direct.run, ask(direct, address))
            with listening.accept()[0] as peer:
                answer(peer, read_request(peer))
                assert asking.result(PATIENCE_S) == b"A", "the next run tries again"
    direct.close()

    assert errors[0] == errors[1]
    assert "refused" in errors[0]


def test_a_thread_that_waits_keeps_no_other_from_asking_and_is_told_of_the_end(
    direct: Direct,
) -> None:
    is_asked, is_over = threading.Event(), threading.Event()

    def silent(peer: socket.socket) -> None:
        read_request(peer)
        is_asked.set()
        assert is_over.wait(PATIENCE_S)

    with ThreadPoolExecutor(2) as threads, served(silent) as slow, served(answer_all) as quick:
        waiting = threads.submit(direct.run, ask(direct, slow))
        assert is_asked.wait(PATIENCE_S)
        assert direct.run(ask(direct, quick)) == b"A"
        assert not waiting.done()
        direct.close()
        with pytest.raises(Unavailable, match="the connection was closed"):
            waiting.result(PATIENCE_S)
        is_over.set()


def test_a_connection_that_was_closed_while_it_was_idle_is_not_used_again(direct: Direct) -> None:
    is_closed = threading.Event()

    def once(peer: socket.socket) -> None:
        answer(peer, read_request(peer))
        peer.close()
        is_closed.set()

    with served(once, answer_all) as address:
        assert direct.run(ask(direct, address)) == b"A"
        assert is_closed.wait(PATIENCE_S)
        assert direct.run(ask(direct, address, b"b")) == b"B"
        direct.close()


def test_what_is_not_answered_in_time_is_given_up_and_its_late_answer_finds_nobody(
    direct: Direct,
) -> None:
    def late(peer: socket.socket) -> None:
        first = read_request(peer)
        second = read_request(peer)
        answer(peer, first)
        answer(peer, second)
        answer_all(peer)

    with served(late) as address:
        with pytest.raises(Unavailable, match=r"answer to request 10 within 0\.01 s; is it"):
            direct.run(ask(direct, address, b"late", timeout_s=0.01))
        assert direct.run(ask(direct, address, b"b")) == b"B"
        direct.close()


def test_an_interrupted_request_takes_its_connection_with_it(direct: Direct) -> None:
    """Ctrl-C comes to the main thread, which is this one; the answer comes to nobody."""
    main = threading.main_thread().ident
    assert main is not None

    def interrupt(peer: socket.socket) -> None:
        request = read_request(peer)
        signal.pthread_kill(main, signal.SIGINT)
        with contextlib.suppress(OSError, EOFError):
            read_request(peer)  # until it is closed
        with contextlib.suppress(OSError):
            answer(peer, request)

    with served(interrupt, answer_all) as address:
        with pytest.raises(KeyboardInterrupt):
            direct.run(ask(direct, address, b"a"))
        assert direct.run(ask(direct, address, b"b")) == b"B"
        direct.close()


def test_a_connection_that_breaks_says_so(direct: Direct) -> None:
    def play(peer: socket.socket) -> None:
        read_request(peer)

    with (
        served(play) as address,
        pytest.raises(Unavailable, match="the connection was closed; is it the port"),
    ):
        direct.run(ask(direct, address))


def test_something_else_than_the_protocol_is_named(direct: Direct) -> None:
    def play(peer: socket.socket) -> None:
        read_request(peer)
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with (
        served(play) as address,
        pytest.raises(Unavailable, match="is it the port of a name server or a broker"),
    ):
        direct.run(ask(direct, address))


def test_nobody_there_is_told_with_the_address(direct: Direct) -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1: expected a broker or name server"):
        direct.run(ask(direct, "127.0.0.1:1"))


def test_questions_of_the_server_are_passed_on_and_answered(direct: Direct) -> None:
    asked: list[int] = []
    answers: list[Command] = []

    def play(peer: socket.socket) -> None:
        request = read_request(peer)
        peer.sendall(Command(code=40, opaque=1, flag=2).encode())
        peer.sendall(Command(code=307, opaque=2).encode())
        answers.append(read_request(peer))
        answer(peer, request)
        answer_all(peer)

    with served(play) as address:
        note = partial(ask, direct, address, on_request=lambda command: asked.append(command.code))
        assert direct.run(note()) == b"A"
        direct.close()

    assert asked == [40, 307]
    assert [(each.opaque, each.is_response, each.code) for each in answers] == [(2, True, 3)]


def test_a_run_inside_of_a_run_has_a_connection_of_its_own(direct: Direct) -> None:
    """As a callback needs it: the outer run is in the middle of something."""

    def play(peer: socket.socket) -> None:
        request = read_request(peer)
        peer.sendall(Command(code=40, opaque=1, flag=2).encode())
        answer(peer, request)
        answer_all(peer)

    inner: list[bytes] = []
    with served(play) as address, served(answer_all) as other:
        outer = ask(
            direct,
            address,
            on_request=lambda command: inner.append(direct.run(ask(direct, other, b"inner"))),
        )
        assert direct.run(outer) == b"A"
        direct.close()

    assert inner == [b"INNER"]


def test_what_is_closed_stays_closed(direct: Direct) -> None:
    direct.close()

    with pytest.raises(Unavailable, match="the client was closed"):
        direct.run(ask(direct, "127.0.0.1:1"))


def test_a_request_that_finds_no_room_at_once_arrives_whole(direct: Direct) -> None:
    body = b"abcdefgh" * (1 << 20)

    with served(answer_all) as address:
        assert direct.run(ask(direct, address, body)) == body.upper()
        direct.close()


def test_a_request_that_nobody_reads_is_given_up(direct: Direct) -> None:
    is_over = threading.Event()

    def deaf(peer: socket.socket) -> None:
        assert is_over.wait(PATIENCE_S)

    with served(deaf) as address:
        with pytest.raises(Unavailable, match=r"within 0\.05 s"):
            direct.run(ask(direct, address, b"x" * (15 << 20), timeout_s=0.05))
        is_over.set()
