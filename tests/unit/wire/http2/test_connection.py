"""The server's end of HTTP/2: what follows the rules is served, what does not ends as they say."""

from __future__ import annotations

import pytest
from tests.unit.wire.http2.peers import (
    ACK,
    CALL,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH,
    RESET,
    SETTINGS,
    WINDOW,
    WITH_PRIORITY,
    Rules,
    block,
    call,
    frame,
    frames_of,
    greeted,
    setting,
    word,
)

from dueline.wire.http2 import Data, ErrorCode, Limits, Request, Reset, ServerConnection, literal

PROTOCOL, FLOW, CLOSED, SIZE, REFUSED, COMPRESSION, CALM = 1, 3, 5, 6, 7, 9, 11
OPEN = call(flags=END_HEADERS)
"""A request whose body is to come."""


def body(stream: int, data: bytes, flags: int = END_STREAM) -> bytes:
    return frame(DATA, flags, stream, data)


# Breaches of the rules, from RFC 9113 and 7541, with the section and what must follow: the end of
# the connection, or of the stream.
OF_THE_CONNECTION: dict[str, tuple[bytes, int]] = {
    "4.2 a frame that is too large": (frame(DATA, 0, 1, bytes(16_385)), SIZE),
    "4.3 a block that cannot be read": (
        frame(HEADERS, END_HEADERS, 1, b"\x3f\xff\xff"),
        COMPRESSION,
    ),
    "4.3 a number that is in no table": (frame(HEADERS, END_HEADERS, 1, b"\xff\x00"), COMPRESSION),
    "5.1 data on a stream that is idle": (body(1, b"x"), PROTOCOL),
    "5.1 a reset of a stream that is idle": (frame(RESET, 0, 1, word(8)), PROTOCOL),
    "5.1 a window of a stream that is idle": (frame(WINDOW, 0, 1, word(8)), PROTOCOL),
    "5.1.1 a stream with an even number": (call(2), PROTOCOL),
    "6.1 data of no stream": (body(0, b"x"), PROTOCOL),
    "6.1 more padding than frame": (OPEN + body(1, b"\x05abc", PADDED), PROTOCOL),
    "6.2 headers of no stream": (call(0), PROTOCOL),
    "6.2 a block with something in between": (
        frame(HEADERS, 0, 1, block()) + frame(PING, 0, 0, bytes(8)),
        PROTOCOL,
    ),
    "6.2 headers with more padding than frame": (
        frame(HEADERS, END_HEADERS | PADDED, 1, b"\x50abc"),
        PROTOCOL,
    ),
    "6.3 a priority of no stream": (frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL),
    "6.4 a reset of no stream": (frame(RESET, 0, 0, word(8)), PROTOCOL),
    "6.4 a reset of three bytes": (OPEN + frame(RESET, 0, 1, b"abc"), SIZE),
    "6.5 settings of a stream": (frame(SETTINGS, 0, 1), PROTOCOL),
    "6.5 settings of five bytes": (frame(SETTINGS, 0, 0, b"12345"), SIZE),
    "6.5 an acknowledgement with settings": (
        frame(SETTINGS, ACK, 0, setting(4, 1)),
        SIZE,
    ),
    "6.5.2 push of 2": (frame(SETTINGS, 0, 0, setting(2, 2)), PROTOCOL),
    "6.5.2 a window beyond its bound": (frame(SETTINGS, 0, 0, setting(4, 1 << 31)), FLOW),
    "6.5.2 a frame size below its bound": (frame(SETTINGS, 0, 0, setting(5, 16_383)), PROTOCOL),
    "6.5.2 a frame size beyond its bound": (frame(SETTINGS, 0, 0, setting(5, 1 << 24)), PROTOCOL),
    "6.6 a push by a client": (frame(PUSH, END_HEADERS, 1, word(2) + block()), PROTOCOL),
    "6.7 a ping of a stream": (frame(PING, 0, 1, bytes(8)), PROTOCOL),
    "6.7 a ping of six bytes": (frame(PING, 0, 0, bytes(6)), SIZE),
    "6.8 a goodbye of a stream": (frame(GOAWAY, 0, 1, bytes(8)), PROTOCOL),
    "6.8 a short goodbye": (frame(GOAWAY, 0, 0, bytes(7)), SIZE),
    "6.9 a window of nothing": (frame(WINDOW, 0, 0, word(0)), PROTOCOL),
    "6.9 a window of three bytes": (frame(WINDOW, 0, 0, b"abc"), SIZE),
    "6.9.1 a window beyond its bound": (frame(WINDOW, 0, 0, word((1 << 31) - 1)), FLOW),
    "6.9.2 a new window that takes a stream beyond its bound": (
        OPEN
        + frame(WINDOW, 0, 1, word((1 << 31) - 70_000))
        + frame(SETTINGS, 0, 0, setting(4, 99_999)),
        FLOW,
    ),
    "6.10 a continuation of nothing": (frame(CONTINUATION, END_HEADERS, 1, b""), PROTOCOL),
    "6.10 a continuation of another stream": (
        frame(HEADERS, 0, 1, block()) + frame(CONTINUATION, END_HEADERS, 3, b""),
        PROTOCOL,
    ),
    "7541 4.2 a table beyond its bound": (
        frame(HEADERS, END_HEADERS, 1, b"\x3f\xe2\x1f" + block()),
        COMPRESSION,
    ),
    "7541 4.2 a new size behind a field": (
        frame(HEADERS, END_HEADERS, 1, block() + b"\x20"),
        COMPRESSION,
    ),
    "7541 5.2 padding that is no padding": (
        frame(HEADERS, END_HEADERS, 1, b"\x00\x81\x1a\x01a"),
        COMPRESSION,
    ),
    "7541 5.2 the end's symbol": (
        frame(HEADERS, END_HEADERS, 1, b"\x00\x84\xff\xff\xff\xff\x01a"),
        COMPRESSION,
    ),
}


def fields(*extra: tuple[str, str], without: str = "") -> bytes:
    kept = [each for each in CALL if each[0] != without]
    return frame(HEADERS, END_HEADERS | END_STREAM, 1, block([*kept, *extra]))


OF_THE_STREAM: dict[str, tuple[bytes, int]] = {
    "5.1 data behind the end": (call() + body(1, b"x"), CLOSED),
    "5.1 headers behind the end": (call() + call(), CLOSED),
    "5.1 data behind a reset": (OPEN + frame(RESET, 0, 1, word(8)) + body(1, b"x"), CLOSED),
    "5.1 headers of an earlier stream": (call(5) + call(1), CLOSED),
    "6.3 a short priority": (OPEN + frame(PRIORITY, 0, 1, bytes(4)), SIZE),
    "6.9 a window of nothing": (OPEN + frame(WINDOW, 0, 1, word(0)), PROTOCOL),
    "6.9.1 a window beyond its bound": (OPEN + frame(WINDOW, 0, 1, word((1 << 31) - 1)), FLOW),
    "8.1 trailers that end nothing": (OPEN + call(flags=END_HEADERS), PROTOCOL),
    "8.1 trailers with a method": (OPEN + call(), PROTOCOL),
    "8.1.1 a body shorter than it says": (
        frame(HEADERS, END_HEADERS, 1, block([*CALL, ("content-length", "3")])) + body(1, b"xx"),
        PROTOCOL,
    ),
    "8.1.1 a body longer than it says": (
        frame(HEADERS, END_HEADERS, 1, block([*CALL, ("content-length", "1")])) + body(1, b"xx"),
        PROTOCOL,
    ),
    "8.1.1 a length that is none": (fields(("content-length", "x")), PROTOCOL),
    "8.2.1 a name in upper case": (fields(("X-Upper", "1")), PROTOCOL),
    "8.2.1 a value with a line's end": (fields(("x", "a\nb")), PROTOCOL),
    "8.2.2 a header of HTTP/1.1": (fields(("connection", "close")), PROTOCOL),
    "8.2.2 te of anything but trailers": (fields(("te", "gzip"), without="te"), PROTOCOL),
    "8.3 a field that is not known": (
        frame(HEADERS, END_HEADERS | END_STREAM, 1, block([(":what", "1"), *CALL])),
        PROTOCOL,
    ),
    "8.3 of an answer": (
        frame(HEADERS, END_HEADERS | END_STREAM, 1, block([(":status", "200"), *CALL])),
        PROTOCOL,
    ),
    "8.3 behind the others": (fields((":authority", "x"), without=":authority"), PROTOCOL),
    "8.3 twice": (
        frame(HEADERS, END_HEADERS | END_STREAM, 1, block([(":path", "/"), *CALL])),
        PROTOCOL,
    ),
    "8.3.1 no method": (fields(without=":method"), PROTOCOL),
    "8.3.1 no scheme": (fields(without=":scheme"), PROTOCOL),
    "8.3.1 no path": (fields(without=":path"), PROTOCOL),
    "8.3.1 an empty path": (
        frame(HEADERS, END_HEADERS, 1, block([CALL[0], CALL[1], (":path", "")])),
        PROTOCOL,
    ),
}


@pytest.mark.parametrize("name", OF_THE_CONNECTION)
def test_a_breach_ends_the_connection(name: str) -> None:
    data, code = OF_THE_CONNECTION[name]
    connection = greeted()

    connection.receive(data)

    assert connection.fault is not None
    *_, (kind, _, stream, payload) = frames_of(connection.output())
    assert (kind, stream, int.from_bytes(payload[4:8], "big")) == (GOAWAY, 0, code), payload
    assert payload[8:], "it says why"
    assert connection.receive(call(7)) == [], "nothing more is taken"


@pytest.mark.parametrize("name", OF_THE_STREAM)
def test_a_breach_ends_its_stream_and_no_other(name: str) -> None:
    data, code = OF_THE_STREAM[name]
    connection = greeted()

    connection.receive(data)

    assert connection.fault is None, connection.fault
    sent = list(frames_of(connection.output()))
    assert (RESET, 0, 1, word(code)) in sent, sent
    (event,) = connection.receive(call(7))
    assert isinstance(event, Request)


def test_a_connection_begins_with_the_preface_and_settings() -> None:
    for first in (
        b"GET / HTTP/1.1\r\n",
        PREFACE[:-1] + b"x",
        PREFACE + frame(PING, 0, 0, bytes(8)),
    ):
        connection = ServerConnection(Limits())
        connection.receive(first)
        assert connection.fault is not None
        assert connection.fault.code is ErrorCode.PROTOCOL_ERROR

    connection = ServerConnection(Limits())
    for byte in PREFACE + frame(SETTINGS, 0, 0):
        assert not connection.has_settings
        connection.receive(bytes([byte]))
    assert connection.has_settings
    kinds = [(kind, flags) for kind, flags, _, _ in frames_of(connection.output())]
    assert kinds == [(SETTINGS, 0), (WINDOW, 0), (SETTINGS, ACK)]


def test_what_is_allowed_and_rare_is_taken() -> None:
    connection = greeted()
    priority = word(3) + b"\x10"
    data = (
        frame(0x77, 0xFF, 9, b"of a kind that nobody knows")
        + frame(SETTINGS, 0, 0, setting(0x99, 1))
        + frame(PRIORITY, 0, 1, priority)
        + frame(HEADERS, PADDED | WITH_PRIORITY, 1, b"\x04" + priority + block()[:20] + bytes(4))
        + frame(CONTINUATION, 0, 1, block()[20:])
        + frame(CONTINUATION, END_HEADERS, 1, b"")
        + body(1, b"\x03ab" + bytes(3), PADDED)
        + body(1, b"cd", 0)
        + frame(HEADERS, END_HEADERS | END_STREAM, 1, literal("x-trailer", "y"))
    )

    request, *parts = connection.receive(data)

    assert isinstance(request, Request)
    assert request.headers == tuple(CALL)
    assert parts == [Data(1, b"ab", False), Data(1, b"cd", False), Data(1, b"", True)]
    assert connection.fault is None


def test_pings_are_answered_with_what_they_say() -> None:
    connection = greeted()

    connection.receive(frame(PING, 0, 0, b"8 bytes!") + frame(PING, ACK, 0, b"an echo."))

    assert list(frames_of(connection.output())) == [(PING, ACK, 0, b"8 bytes!")]


def test_streams_beyond_the_bound_are_refused_and_may_come_again() -> None:
    connection = greeted(Limits(stream_count_max=2))

    events = connection.receive(call(1) + call(3) + call(5, flags=END_HEADERS) + body(5, b"x"))

    assert [event.stream_id for event in events] == [1, 3]
    assert (RESET, 0, 5, word(REFUSED)) in frames_of(connection.output())
    connection.end(1, literal("grpc-status", "0"))
    (event,) = connection.receive(call(7))
    assert event.stream_id == 7


def test_headers_beyond_the_bound_are_told_and_the_table_stays_in_step() -> None:
    connection = greeted(Limits(header_list_size_max=1_000))
    added = b"\x40\x01a" + b"\x7f\x9b\x01" + b"v" * 282  # a literal that is added to the table
    huge = block() + added + b"\xbe" * 9

    request, follower = connection.receive(
        frame(HEADERS, END_HEADERS | END_STREAM, 1, huge)
        + frame(HEADERS, END_HEADERS | END_STREAM, 3, block() + b"\xbe")
    )

    assert isinstance(request, Request)
    assert request.headers is None
    assert isinstance(follower, Request)
    assert follower.headers == (*CALL, ("a", "v" * 282))


# Windows


def test_an_answer_waits_for_both_windows_and_arrives_whole() -> None:
    connection = greeted()
    connection.receive(frame(SETTINGS, 0, 0, setting(4, 10)) + call(1) + call(3))
    connection.output()
    for stream in (1, 3):
        connection.send_headers(stream, b"\x88")
        connection.send_data(stream, bytes(range(100)))
        connection.end(stream, literal("grpc-status", "0"))

    def data_sent() -> dict[int, bytes]:
        sent: dict[int, bytes] = {}
        for kind, _, stream, payload in frames_of(connection.output()):
            if kind == DATA:
                sent[stream] = sent.get(stream, b"") + payload
        return sent

    assert data_sent() == {1: bytes(range(10)), 3: bytes(range(10))}
    assert connection.queued_bytes == 180
    connection.receive(frame(WINDOW, 0, 3, word(1)))
    assert data_sent() == {3: b"\x0a"}
    connection.receive(frame(SETTINGS, 0, 0, setting(4, 5)))  # windows may fall below 0
    connection.receive(frame(WINDOW, 0, 3, word(5)))
    assert data_sent() == {}
    connection.receive(frame(WINDOW, 0, 1, word(94)) + frame(WINDOW, 0, 3, word(1_000)))
    assert data_sent() == {1: bytes(range(10, 99)), 3: bytes(range(11, 100))}
    assert connection.is_open(1)
    assert not connection.is_open(3)
    connection.receive(frame(RESET, 0, 1, word(8)))
    assert connection.queued_bytes == 0


def test_the_connections_window_is_shared_by_its_streams() -> None:
    connection = greeted()
    connection.receive(frame(SETTINGS, 0, 0, setting(4, 1 << 20)) + call(1) + call(3))
    for stream in (1, 3):
        connection.send_headers(stream, b"\x88")
        connection.send_data(stream, bytes(50_000))
        connection.end(stream, literal("grpc-status", "0"))
    assert connection.queued_bytes == 100_000 - 65_535

    connection.receive(frame(WINDOW, 0, 0, word(10_000)))
    assert connection.queued_bytes == 100_000 - 75_535
    connection.receive(frame(WINDOW, 0, 0, word(100_000)))
    assert connection.queued_bytes == 0
    assert len(connection._streams) == 0


def test_data_is_held_back_while_the_socket_takes_none() -> None:
    connection = greeted()
    connection.receive(call(1))
    connection.hold(True)
    connection.send_headers(1, b"\x88")
    connection.send_data(1, b"abc")
    connection.end(1, literal("grpc-status", "0"))
    assert [kind for kind, *_ in frames_of(connection.output())] == [HEADERS]

    connection.hold(False)

    assert [kind for kind, *_ in frames_of(connection.output())] == [DATA, HEADERS]
    assert len(connection._streams) == 0


def test_a_client_that_sends_more_than_its_window_is_stopped() -> None:
    connection = greeted()
    connection.receive(OPEN)
    for _ in range(64):
        connection.receive(body(1, bytes(16_384), 0))
    assert connection.fault is None
    connection.output()

    (event,) = connection.receive(body(1, b"x", 0))

    assert event == Reset(1, FLOW)
    assert (RESET, 0, 1, word(FLOW)) in frames_of(connection.output())


def test_credit_opens_the_window_again() -> None:
    connection = greeted()
    connection.receive(OPEN)
    for _ in range(200):
        (event,) = connection.receive(body(1, bytes(16_384), 0))
        assert isinstance(event, Data)
        connection.credit(1, len(event.data))

    assert connection.fault is None
    updates = [stream for kind, _, stream, _ in frames_of(connection.output()) if kind == WINDOW]
    assert updates.count(1) == 200


# Ends


def test_frames_of_a_stream_that_we_ended_first_are_not_held_against_the_client() -> None:
    connection = greeted()
    connection.receive(OPEN)
    connection.refuse(1, literal(":status", "415"))
    sent = list(frames_of(connection.output()))
    assert [(kind, flags) for kind, flags, _, _ in sent] == [
        (HEADERS, END_HEADERS | END_STREAM),
        (RESET, 0),
    ]

    connection.receive(body(1, b"on its way", 0) + frame(WINDOW, 0, 1, word(1)) + body(1, b""))

    assert connection.fault is None
    assert connection.output() == b""


def test_a_connection_that_closes_takes_no_new_streams_and_ends_the_others() -> None:
    connection = greeted()
    connection.receive(call(1))
    connection.close()
    (goodbye,) = frames_of(connection.output())
    assert goodbye[0] == GOAWAY
    assert goodbye[3][:8] == word(1) + word(0)

    assert connection.receive(call(3) + call(5, flags=END_HEADERS) + body(5, b"x")) == []
    connection.send_headers(1, b"\x88")
    connection.end(1, literal("grpc-status", "0"))

    assert connection.fault is None
    assert {stream for _, _, stream, _ in frames_of(connection.output())} == {1}


FLOODS = {
    "pings": frame(PING, 0, 0, bytes(8)),
    "echoes of pings": frame(PING, ACK, 0, bytes(8)),
    "settings": frame(SETTINGS, 0, 0, setting(4, 1)),
    "acknowledged settings": frame(SETTINGS, ACK, 0),
    "priorities": frame(PRIORITY, 0, 1, word(3) + b"\0"),
    "frames that nobody knows": frame(0x99, 0, 0),
    "data without any": frame(DATA, 0, 1),
    "goodbyes": frame(GOAWAY, 0, 0, bytes(8)),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_what_costs_nothing_is_ended(name: str) -> None:
    connection = greeted()
    connection.receive(OPEN)
    sent = 0

    while connection.fault is None:
        connection.receive(FLOODS[name] * 100)
        sent += 100
        assert sent <= 10_100

    assert connection.fault.code is ErrorCode.ENHANCE_YOUR_CALM


def test_rapid_resets_are_ended_unless_they_have_time() -> None:
    connection, patient = greeted(), greeted()
    turn = [call(stream) + frame(RESET, 0, stream, word(8)) for stream in range(1, 20_000, 2)]
    for number, each in enumerate(turn):
        connection.receive(each)
        patient.receive(each)
        if number % 1_000 == 0:
            patient.patience.renew()

    assert connection.fault is not None
    assert connection.fault.code is ErrorCode.ENHANCE_YOUR_CALM
    assert patient.fault is None
    assert len(patient._streams) == 0


def test_a_flood_of_continuations_is_ended() -> None:
    for part in (b"", block()[:1], bytes(16_384)):
        connection = greeted()
        connection.receive(frame(HEADERS, 0, 1, block()))
        for _ in range(20):
            connection.receive(frame(CONTINUATION, 0, 1, part))
        assert connection.fault is not None
        assert connection.fault.code is ErrorCode.ENHANCE_YOUR_CALM


# A client that follows the rules


def test_large_bodies_pass_both_ways() -> None:
    both = Rules(lambda data: data[::-1])
    both.turn()
    sent = bytes(range(256)) * 20_000
    both.client.send_headers(1, CALL)
    at = 0
    while at < len(sent):
        size = min(both.client.local_flow_control_window(1), 16_384, len(sent) - at)
        if size:
            both.client.send_data(1, sent[at : at + size])
            at += size
        both.turn()
    both.client.end_stream(1)
    while both.turn():
        pass

    assert both.answers[1] == sent[::-1]
    assert both.trailers[1] == {b"grpc-status": b"0"}
