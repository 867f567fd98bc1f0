"""Streams of bytes become frames, and what is no frame is named."""

import pytest
from tests.unit.wire.capture import ALL_FRAMES, Captured

from dueline.errors import RemoteProtocolError
from dueline.wire import FRAME_SIZE_BYTES_MAX, Frame, FrameDecoder, Serialization

HELLO = bytes.fromhex("0000000b 00000002") + b"{}" + b"hello"


@pytest.mark.parametrize("captured", ALL_FRAMES, ids=lambda c: f"{c.serialization}-{c.line}")
def test_captured_frame_is_cut_where_its_lengths_say(captured: Captured) -> None:
    frames = list(FrameDecoder().feed(captured.frame))

    expected = Frame(Serialization(captured.serialization), captured.header, captured.body)
    assert frames == [expected]


def test_captured_frames_in_one_piece_are_all_found() -> None:
    stream = b"".join(captured.frame for captured in ALL_FRAMES)

    frames = list(FrameDecoder().feed(stream))

    assert [frame.header for frame in frames] == [captured.header for captured in ALL_FRAMES]


def test_frames_byte_by_byte_are_the_same_frames() -> None:
    stream = b"".join(captured.frame for captured in ALL_FRAMES[:20])
    decoder = FrameDecoder()

    frames = [frame for byte in stream for frame in decoder.feed(bytes([byte]))]

    assert [frame.header for frame in frames] == [captured.header for captured in ALL_FRAMES[:20]]
    assert decoder.held_bytes == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_gives_frames_of_bytes(kind: type) -> None:
    (frame,) = FrameDecoder().feed(kind(HELLO))

    assert type(frame.header) is bytes
    assert type(frame.body) is bytes


def test_half_a_frame_is_kept() -> None:
    decoder = FrameDecoder()

    assert list(decoder.feed(HELLO[:9])) == []
    assert decoder.held_bytes == 9
    assert list(decoder.feed(HELLO[9:] + HELLO[:3])) == [Frame(Serialization.JSON, b"{}", b"hello")]
    assert decoder.held_bytes == 3


def test_frame_without_header_and_body_is_a_frame() -> None:
    assert list(FrameDecoder().feed(bytes.fromhex("00000004 00000000"))) == [
        Frame(Serialization.JSON, b"", b"")
    ]


def test_largest_frame_is_accepted_and_one_byte_more_is_not() -> None:
    length = FRAME_SIZE_BYTES_MAX - 4
    largest = length.to_bytes(4, "big") + bytes(4) + bytes(length - 4)

    (frame,) = FrameDecoder().feed(largest)
    with pytest.raises(RemoteProtocolError, match="expected at most 16777212, found 16777213"):
        list(FrameDecoder().feed((length + 1).to_bytes(4, "big") + bytes(4)))

    assert len(frame.body) == FRAME_SIZE_BYTES_MAX - 8


@pytest.mark.parametrize(
    ("start", "field", "found"),
    [
        ("00000000 00000000", "length", 0),
        ("00000003 00000000", "length", 3),
        ("ffffffff 00000000", "length", 0xFFFFFFFF),
        ("00000008 02000000", "serialization", 2),
        ("00000008 ff000000", "serialization", 255),
        ("00000008 00000005", "header_length", 5),
        ("00000008 01ffffff", "header_length", 0xFFFFFF),
    ],
)
def test_violation_is_named_with_eight_bytes(start: str, field: str, found: int) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        list(FrameDecoder().feed(bytes.fromhex(start)))

    assert caught.value.field == field
    assert caught.value.found == found


@pytest.mark.parametrize(
    ("start", "words"),
    [(b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"), (b"GET / HTTP/1.1\r\n", "HTTP request")],
)
def test_other_protocol_on_this_port_is_recognised(start: bytes, words: str) -> None:
    with pytest.raises(RemoteProtocolError, match=words):
        list(FrameDecoder().feed(start))


def test_frames_before_a_violation_are_given() -> None:
    frames = FrameDecoder().feed(HELLO + HELLO + b"\xff" * 8)

    assert [next(frames).body, next(frames).body] == [b"hello", b"hello"]
    with pytest.raises(RemoteProtocolError):
        next(frames)


def test_violation_is_final() -> None:
    decoder = FrameDecoder()

    for piece in (b"\xff" * 8, HELLO):
        with pytest.raises(RemoteProtocolError, match="frame length"):
            list(decoder.feed(piece))


def test_caller_who_stops_early_finds_the_rest_later() -> None:
    decoder = FrameDecoder()

    first = next(decoder.feed(HELLO * 3))
    rest = list(decoder.feed(b""))

    assert [first, *rest] == [Frame(Serialization.JSON, b"{}", b"hello")] * 3


def test_large_frame_in_small_pieces_is_kept_once() -> None:
    body = bytes(1 << 20)
    stream = (4 + len(body)).to_bytes(4, "big") + bytes(4) + body
    decoder = FrameDecoder()
    held = []
    frames: list[Frame] = []

    for start in range(0, len(stream), 4096):
        frames += decoder.feed(stream[start : start + 4096])
        held.append(decoder.held_bytes)

    assert max(held) <= len(stream)
    assert frames == [Frame(Serialization.JSON, b"", body)]
