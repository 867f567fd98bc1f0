"""Both ends of a connection: what is asked is answered, however the bytes come."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.codecs import json_header, split_frame

from dueline.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from dueline.wire import Answered, Command, Connection, Language
from dueline.wire.connection import OPAQUE_MAX, answer_frame

LATER_S = 1_000.0


def request(opaque: int, *, flag: int = 0, body: bytes = b"") -> bytes:
    return Command(code=11, opaque=opaque, flag=flag, body=body).encode()


def answer(opaque: int, *, code: int = 0) -> bytes:
    return Command(code=code, opaque=opaque, flag=1).encode()


def opaque_of(frame: bytes) -> int:
    """By the standard library's JSON, not by our codec."""
    opaque = json_header(frame)["opaque"]
    assert isinstance(opaque, int)
    return opaque


def said(event: Command | Answered[str]) -> object:
    """An event as a short value."""
    if isinstance(event, Command):
        return ("asks", event.opaque, event.body)
    return ("answers", event.token, event.command.code)


@given(st.lists(st.integers(min_value=0, max_value=2_000), max_size=12))
def test_events_are_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    connection = Connection[str]()
    first = connection.call("first", 105, deadline_s=LATER_S)
    second = connection.call("second", 105, deadline_s=LATER_S)
    stream = b"".join(
        [
            request(7, body=b"hello"),
            answer(opaque_of(second), code=17),
            request(7, flag=2),
            answer(opaque_of(first)),
            answer(opaque_of(first)),
        ]
    )

    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(bounds)]
    events = [said(event) for piece in pieces for event in connection.receive(piece)]

    assert events == [
        ("asks", 7, b"hello"),
        ("answers", "second", 17),
        ("asks", 7, b""),
        ("answers", "first", 0),
        ("answers", None, 0),
    ]
    assert connection.held_bytes == 0


def test_a_request_byte_by_byte_is_given_with_its_last_byte() -> None:
    connection = Connection[str]()
    frame = request(1)

    before = [event for byte in frame[:-1] for event in connection.receive(bytes([byte]))]

    assert before == []
    assert connection.held_bytes == len(frame) - 1
    assert [said(event) for event in connection.receive(frame[-1:])] == [("asks", 1, b"")]


def test_both_ends_understand_each_other() -> None:
    client, broker = Connection[str](language=Language.PYTHON), Connection[str]()

    (asked,) = broker.receive(client.call("mine", 105, {"topic": "T"}, b"?", deadline_s=LATER_S))
    assert isinstance(asked, Command)
    (answered,) = client.receive(b"".join(answer_frame(asked.reply(code=17, remark="none"))))

    assert (asked.code, asked.ext, asked.body) == (105, {"topic": "T"}, b"?")
    assert asked.language is Language.PYTHON
    assert isinstance(answered, Answered)
    assert (answered.token, answered.command.code, answered.command.remark) == ("mine", 17, "none")


def test_an_answer_is_for_one_request_only() -> None:
    connection = Connection[str]()
    frames = [connection.call(name, 105, deadline_s=LATER_S) for name in "abc"]
    opaques = [opaque_of(frame) for frame in frames]

    events = [*connection.receive(answer(opaques[1])), *connection.receive(answer(opaques[1]))]

    assert [said(event) for event in events] == [("answers", "b", 0), ("answers", None, 0)]
    assert connection.close() == ["a", "c"]
    assert len(set(opaques)) == 3


def test_an_answer_to_nothing_is_told_and_changes_nothing() -> None:
    connection = Connection[str]()
    frame = connection.call("a", 105, deadline_s=LATER_S)

    (event,) = connection.receive(answer(opaque_of(frame) + 1))

    assert said(event) == ("answers", None, 0)
    assert connection.close() == ["a"]


def test_a_notification_waits_for_nothing() -> None:
    connection = Connection[str](call_count_max=1)

    frames = [connection.notify(40, {"consumerGroup": "g"}, b"x") for _ in range(3)]

    assert [json_header(frame)["flag"] for frame in frames] == [2, 2, 2]
    assert [split_frame(frame)[2] for frame in frames] == [b"x"] * 3
    assert connection.next_deadline_s is None
    assert connection.close() == []


def test_requests_without_an_answer_are_bounded() -> None:
    connection = Connection[str](call_count_max=2)
    frames = [connection.call(name, 105, deadline_s=LATER_S) for name in "ab"]

    with pytest.raises(LimitExceeded, match="at most 2 requests"):
        connection.call("c", 105, deadline_s=LATER_S)
    list(connection.receive(answer(opaque_of(frames[0]))))
    connection.call("d", 105, deadline_s=LATER_S)

    assert connection.close() == ["b", "d"]


def test_what_does_not_fit_into_a_frame_is_not_waited_for() -> None:
    connection = Connection[str]()

    with pytest.raises(LocalProtocolError):
        connection.call("a", 105, body=bytes(16 << 20), deadline_s=LATER_S)

    assert connection.close() == []


def test_numbers_of_waiting_requests_are_not_given_again() -> None:
    connection = Connection[str]()
    waiting = opaque_of(connection.call("old", 105, deadline_s=LATER_S))

    connection._opaque = OPAQUE_MAX - 1  # two billion requests later
    opaques = [opaque_of(connection.notify(40)) for _ in range(3)]

    assert opaques == [OPAQUE_MAX, waiting + 1, waiting + 2]


def test_requests_expire_at_the_time_that_the_caller_gives() -> None:
    connection = Connection[str]()
    frame = connection.call("late", 105, deadline_s=3.0)
    connection.call("patient", 105, deadline_s=20.0)

    assert connection.next_deadline_s == 3.0
    assert connection.expire(2.9) == []
    assert connection.expire(3.0) == ["late"]
    assert connection.expire(3.0) == []
    assert connection.next_deadline_s == 20.0
    (event,) = connection.receive(answer(opaque_of(frame)))
    assert said(event) == ("answers", None, 0)


def test_unanswered_requests_of_the_peer_are_bounded_in_number() -> None:
    connection = Connection[str](request_count_max=2)
    sizes = []
    for event in connection.receive(request(1) + request(2) + request(3, flag=2)):
        assert isinstance(event, Command)
        sizes.append(connection.size_bytes)

    assert (connection.request_count, connection.is_busy) == (3, True)
    connection.finish(sizes[0])
    assert (connection.request_count, connection.is_busy) == (2, False)
    for size_bytes in sizes[1:]:
        connection.finish(size_bytes)
    assert (connection.request_count, connection.request_size_bytes) == (0, 0)


def test_unanswered_requests_of_the_peer_are_bounded_in_bytes() -> None:
    connection = Connection[str](request_size_bytes_max=10_000)

    list(connection.receive(request(1, body=bytes(9_000))))
    assert not connection.is_busy
    list(connection.receive(request(2, body=bytes(9_000))))
    assert connection.is_busy


def test_many_small_arguments_count_with_what_they_take() -> None:
    frame = Command(code=1, opaque=1, ext={str(n): "" for n in range(1_000)}).encode()
    connection = Connection[str]()

    list(connection.receive(frame))

    assert connection.size_bytes > 10 * len(frame)


def test_requests_that_were_not_looked_at_come_later() -> None:
    connection = Connection[str]()
    events = connection.receive(request(1) + request(2))
    first = next(events)
    events.close()
    connection.keep(request(3))

    rest = list(connection.receive(b""))

    assert [said(event) for event in (first, *rest)] == [("asks", n, b"") for n in (1, 2, 3)]


@pytest.mark.parametrize(
    "garbage",
    [
        bytes.fromhex("00000008 00000002") + b"[]" + b"hi",
        bytes.fromhex("00000008 07000002") + b"{}" + b"hi",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["header", "serialization", "http"],
)
def test_what_came_before_a_violation_is_given_and_nothing_after(garbage: bytes) -> None:
    connection = Connection[str]()
    events = connection.receive(request(1) + garbage + request(2))

    assert said(next(events)) == ("asks", 1, b"")
    with pytest.raises(RemoteProtocolError) as first:
        next(events)
    with pytest.raises(RemoteProtocolError) as again:
        list(connection.receive(request(3)))
    assert again.value is first.value


def test_a_frame_over_the_limit_is_a_violation() -> None:
    connection = Connection[str](frame_size_bytes_max=1_000)

    with pytest.raises(RemoteProtocolError, match="at most 996"):
        list(connection.receive(request(1, body=bytes(1_000))))


def test_an_answer_in_pieces_is_one_frame() -> None:
    asked = Command(code=11, opaque=9)

    pieces = answer_frame(asked.reply(code=0, remark="found"), [b"one", memoryview(b"two")])

    frame = b"".join(pieces)
    assert frame == asked.reply(code=0, remark="found", body=b"onetwo").encode()
    assert split_frame(frame)[2] == b"onetwo"


def test_there_is_a_place_for_as_many_requests_as_may_wait() -> None:
    broker = Connection[str](request_count_max=2, request_size_bytes_max=100)

    assert broker.has_place(100)
    assert not broker.has_place(101)
    assert broker.begin(1, 60)
    assert broker.has_place(40)
    assert not broker.has_place(41)
    assert broker.begin(1, 1)
    assert not broker.has_place(0)
