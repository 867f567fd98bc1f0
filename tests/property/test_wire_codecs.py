"""Codecs under random input: what is written is read again, and bytes of any kind never surprise.

Frames and commands may raise `ProtocolError` and nothing else; headers, bodies and batches are the
request's own business and may raise `InvalidRequest` and nothing else.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.wire.capture import ALL_FRAMES, Captured

from dueline.errors import InvalidRequest, RemoteProtocolError
from dueline.wire import (
    Command,
    Frame,
    FrameDecoder,
    Language,
    Serialization,
    admin_bodies,
    admin_headers,
    bodies,
    headers,
)
from dueline.wire.batch import BatchMessage, decode_batch, encode_batch
from dueline.wire.body import Body
from dueline.wire.fastjson import dumps, loads
from dueline.wire.header import Header

INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
# Characters that UTF-8 can carry: surrogates excluded.
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
BODIES = [getattr(module, name) for module in (bodies, admin_bodies) for name in module.__all__]
HEADERS = [getattr(module, name) for module in (headers, admin_headers) for name in module.__all__]

HEADER_NAMES = ("code", "opaque", "flag", "language", "version", "remark", "extFields")

COMMANDS = st.builds(
    Command,
    code=INT16,
    opaque=INT32,
    flag=INT32,
    ext=st.dictionaries(TEXT, TEXT, max_size=8),
    body=st.binary(max_size=200),
    # Binary headers cannot tell an empty remark from none.
    remark=st.none() | TEXT.filter(bool),
    language=st.sampled_from(Language),
    version=INT16,
    serialization=st.sampled_from(Serialization),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)


@given(COMMANDS)
def test_command_is_read_as_it_was_written(command: Command) -> None:
    (frame,) = FrameDecoder().feed(command.encode())

    assert Command.decode(frame) == command


@given(st.lists(COMMANDS, max_size=6), st.data())
def test_any_cut_of_the_stream_gives_the_same_frames(
    commands: list[Command], data: st.DataObject
) -> None:
    stream = b"".join(command.encode() for command in commands)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    decoder = FrameDecoder()

    decoded = [
        Command.decode(frame)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for frame in decoder.feed(stream[start:end])
    ]

    assert decoded == commands
    assert decoder.held_bytes == 0


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_any_cut_of_garbage_gives_the_same_frames_and_the_same_error(
    stream: bytes, cuts: list[int]
) -> None:
    cuts = sorted(min(cut, len(stream)) for cut in cuts)
    pieces = [
        stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    ]

    assert _outcome(pieces) == _outcome([stream])


@given(st.sampled_from(ALL_FRAMES), st.data())
def test_mutated_captured_frame_is_a_command_or_a_protocol_error(
    captured: Captured, data: st.DataObject
) -> None:
    frame = bytearray(captured.frame)
    for place in data.draw(st.lists(st.integers(0, len(frame) - 1), min_size=1, max_size=4)):
        frame[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    decoder = FrameDecoder()

    try:
        commands = [Command.decode(found) for found in decoder.feed(bytes(frame[:cut]))]
    except RemoteProtocolError:
        return

    assert decoder.held_bytes <= cut
    for command in commands:
        assert _again(command) == command


@given(st.sampled_from(Serialization), st.binary(max_size=120))
@example(Serialization.JSON, b'{"code":1,"opaque":2,"extFields":{"a":{}}}')
@example(Serialization.JSON, b'{"code":1e999,"opaque":NaN}')
def test_arbitrary_header_is_a_command_or_a_protocol_error(
    serialization: Serialization, header: bytes
) -> None:
    try:
        command = Command.decode(Frame(serialization, header, b""))
    except RemoteProtocolError:
        return

    assert _again(command) == command


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(HEADER_NAMES, JSON)))
def test_header_of_arbitrary_json_is_a_command_or_a_protocol_error(value: object) -> None:
    try:
        command = Command.decode(Frame(Serialization.JSON, _json(value), b""))
    except RemoteProtocolError:
        return

    assert _again(command) == command


@given(st.sampled_from(HEADERS), st.data())
def test_arbitrary_ext_is_a_header_or_an_invalid_request(
    kind: type[Header], data: st.DataObject
) -> None:
    names = [field.wire_name for field in kind._fields]
    value = st.integers().map(str) | st.sampled_from(["true", "false", ""]) | TEXT
    ext = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(names, value)))

    try:
        header = kind.decode(ext)
    except InvalidRequest:
        return

    assert kind.decode(header.encode()) == header


@given(st.sampled_from(BODIES), st.data())
def test_arbitrary_json_is_a_body_or_an_invalid_request(
    kind: type[Body], data: st.DataObject
) -> None:
    names = [field.json_name for field in kind._fields]
    shape = st.fixed_dictionaries({}, optional=dict.fromkeys(names, JSON))

    try:
        body = kind.decode(_json(data.draw(shape | JSON)))
    except InvalidRequest:
        return

    assert kind.decode(body.encode()) == body


@given(st.binary(max_size=100) | st.text('{}[]:,"\\u0d8 -1.5e', max_size=60).map(str.encode))
def test_arbitrary_bytes_are_json_or_an_invalid_request(data: bytes) -> None:
    try:
        value = loads(data)
    except InvalidRequest:
        return

    assert loads(dumps(value)) == value


@given(
    st.lists(
        st.builds(
            BatchMessage,
            body=st.binary(max_size=50),
            properties=st.binary(max_size=50),
            flag=INT32,
        ),
        max_size=5,
    ),
    st.data(),
)
def test_batch_is_read_as_it_was_written_and_its_pieces_are_refused(
    messages: list[BatchMessage], data: st.DataObject
) -> None:
    encoded = encode_batch(messages)
    ends = {len(encode_batch(messages[:count])) for count in range(len(messages) + 1)}
    cut = data.draw(st.integers(0, len(encoded)))

    assert decode_batch(encoded) == messages
    if cut in ends:
        assert decode_batch(encoded[:cut]) == messages[: sorted(ends).index(cut)]
    else:
        with pytest.raises(InvalidRequest):
            decode_batch(encoded[:cut])


@given(st.binary(max_size=120))
def test_arbitrary_bytes_are_a_batch_or_an_invalid_request(data: bytes) -> None:
    try:
        messages = decode_batch(data)
    except InvalidRequest:
        return

    assert decode_batch(encode_batch(messages)) == messages


def _again(command: Command) -> Command:
    (frame,) = FrameDecoder().feed(command.encode())
    return Command.decode(frame)


def _outcome(pieces: list[bytes]) -> tuple[list[Frame], str | None]:
    """All frames of a stream, and how it ended."""
    decoder = FrameDecoder()
    frames = []
    try:
        for piece in pieces:
            for frame in decoder.feed(piece):
                frames.append(frame)  # noqa: PERF402 - those before an error must be kept
    except RemoteProtocolError as error:
        return frames, str(error)
    return frames, None


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
