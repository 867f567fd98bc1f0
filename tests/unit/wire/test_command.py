"""Commands: every captured frame is read and written again, and limits hold both ways."""

import dataclasses

import pytest
from tests.unit.wire.capture import BINARY_FRAMES, JSON_FRAMES, Captured
from tests.unit.wire.codecs import assert_codec, decode_command, json_header, split_frame

from dueline.errors import LocalProtocolError, RemoteProtocolError
from dueline.wire import Command, Frame, Language, RequestCode, Serialization

ROUTE = Command(code=105, opaque=4, ext={"topic": "TopicT"})
EMPTY_OK = Command(code=0, opaque=8, flag=1)


@pytest.mark.parametrize("captured", JSON_FRAMES, ids=lambda c: str(c.line))
def test_captured_json_frame_is_written_with_the_same_fields(captured: Captured) -> None:
    written = decode_command(captured.frame).encode()

    # Java leaves an empty ext out, or writes it; readers take both for the same.
    assert json_header(written) == {"extFields": {}, **captured.fields}
    assert split_frame(written)[2] == captured.body


@pytest.mark.parametrize("captured", BINARY_FRAMES, ids=lambda c: str(c.line))
def test_captured_binary_frame_is_written_byte_for_byte(captured: Captured) -> None:
    assert decode_command(captured.frame).encode() == captured.frame


@pytest.mark.parametrize("captured", JSON_FRAMES, ids=lambda c: str(c.line))
def test_captured_json_frame_says_what_its_json_says(captured: Captured) -> None:
    command = decode_command(captured.frame)

    fields = captured.fields
    assert command == Command(
        code=fields["code"],
        opaque=fields["opaque"],
        flag=fields["flag"],
        ext=fields.get("extFields", {}),
        body=captured.body,
        remark=fields.get("remark"),
        language=Language.JAVA,
        version=409,
        serialization=Serialization.JSON,
    )


def test_binary_route_request_is_these_bytes() -> None:
    header = bytes.fromhex(
        "0069 00 0199 00000004 00000000 00000000 00000011 0005 746f706963 00000006 546f70696354"
    )
    data = (4 + len(header)).to_bytes(4, "big") + b"\x01\x00\x00" + bytes([len(header)]) + header

    assert_codec(
        data,
        dataclasses.replace(ROUTE, serialization=Serialization.BINARY),
        decode=decode_command,
        encode=Command.encode,
    )


def test_binary_empty_answer_is_these_bytes() -> None:
    header = bytes.fromhex("0000 00 0199 00000008 00000001 00000000 00000000")
    data = (4 + len(header)).to_bytes(4, "big") + b"\x01\x00\x00\x15" + header

    assert_codec(
        data,
        dataclasses.replace(EMPTY_OK, serialization=Serialization.BINARY),
        decode=decode_command,
        encode=Command.encode,
    )


def test_json_route_request_is_these_bytes() -> None:
    header = (
        b'{"code":105,"extFields":{"topic":"TopicT"},"flag":0,"language":"JAVA","opaque":4,'
        b'"serializeTypeCurrentRPC":"JSON","version":409}'
    )
    data = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header

    assert_codec(data, ROUTE, decode=decode_command, encode=Command.encode)


@pytest.mark.parametrize("serialization", Serialization)
def test_reply_has_the_requests_opaque_and_serialization(serialization: Serialization) -> None:
    request = Command(code=105, opaque=77, language=Language.GO, serialization=serialization)

    reply = request.reply(code=17, ext={"a": "b"}, body=b"x", remark="no such topic")

    assert reply == Command(
        code=17,
        opaque=77,
        flag=1,
        ext={"a": "b"},
        body=b"x",
        remark="no such topic",
        serialization=serialization,
    )
    assert reply.is_response
    assert not request.is_response


def test_oneway_is_bit_one() -> None:
    assert Command(code=15, opaque=1, flag=2).is_oneway
    assert not Command(code=15, opaque=1, flag=1).is_oneway


def test_head_and_body_apart_are_the_frame() -> None:
    command = Command(code=0, opaque=3, flag=1, remark="FOUND", body=b"records")

    assert command.encode_head(7) + b"records" == command.encode()


def test_command_cannot_be_changed() -> None:
    command = decode_command(ROUTE.encode())

    with pytest.raises(dataclasses.FrozenInstanceError):
        command.code = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    "command",
    [
        Command(code=1 << 31, opaque=0),
        Command(code=0, opaque=1 << 31),
        Command(code=0, opaque=-(1 << 31) - 1),
        Command(code=0, opaque=0, flag=1 << 31),
        Command(code=0, opaque=0, version=1 << 31),
        Command(code=RequestCode.POP_MESSAGE, opaque=0, serialization=Serialization.BINARY),
        Command(code=0, opaque=0, version=1 << 15, serialization=Serialization.BINARY),
    ],
)
def test_number_without_room_is_not_sent(command: Command) -> None:
    with pytest.raises(LocalProtocolError, match="expected code and version in"):
        command.encode()


def test_number_without_room_is_not_read() -> None:
    header = b'{"code":2147483648,"opaque":1}'

    with pytest.raises(RemoteProtocolError, match="2147483648"):
        Command.decode(Frame(Serialization.JSON, header, b""))


@pytest.mark.parametrize("opaque", [-(1 << 31), -1, 0, (1 << 31) - 1])
@pytest.mark.parametrize("serialization", Serialization)
def test_opaque_has_thirty_two_bits(opaque: int, serialization: Serialization) -> None:
    command = Command(code=34, opaque=opaque, serialization=serialization)

    assert decode_command(command.encode()).opaque == opaque


def test_frame_over_the_limit_is_not_sent() -> None:
    with pytest.raises(LocalProtocolError, match="expected at most 16777216 bytes"):
        Command(code=0, opaque=0, body=bytes(16 << 20)).encode()
