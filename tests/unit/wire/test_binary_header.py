"""Binary headers: sizes must add up."""

import pytest

from dueline.errors import LocalProtocolError, RemoteProtocolError
from dueline.wire import Command, Language, Serialization
from dueline.wire.binary_header import read, write

START = bytes.fromhex("0069 09 013d 00000004 00000000")


def test_header_with_remark_and_ext() -> None:
    header = START + bytes.fromhex("00000002 6f6b 0000000a 0001 61 00000003 e8aea2")

    assert read(header) == (105, Language.GO, 317, 4, 0, "ok", {"a": "\u8ba2"})


def test_empty_value_is_a_value() -> None:
    header = START + bytes.fromhex("00000000 00000007 0001 61 00000000")

    assert read(header)[5:] == (None, {"a": ""})


def test_unknown_language_is_other() -> None:
    header = bytes.fromhex("0069 fe 013d 00000004 00000000 00000000 00000000")

    assert read(header)[1] is Language.OTHER


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "00000000",
        "00000000 000000",
        "ffffffff 00000000",
        "00000001 00000000",
        "7fffffff 00000000",
        "00000001 ff 00000000",
        "00000000 00000001",
        "00000000 ffffffff",
        "00000000 00000000 00",
        "00000000 00000001 00",
        "00000000 00000007 0002 61 00000000",
        "00000000 00000007 0001 61 00000001",
        "00000000 00000007 0001 61 ffffffff",
        "00000000 00000008 0001 ff 00000001 61",
        "00000000 00000008 0001 61 00000001 ff",
        "00000000 00000003 0001 61",
    ],
)
def test_sizes_that_do_not_add_up_are_refused(rest: str) -> None:
    with pytest.raises(RemoteProtocolError, match="binary header"):
        read(START + bytes.fromhex(rest))


@pytest.mark.parametrize("ext", [{"a": "\ud800"}, {"a" * 32768: "b"}, {"a": 1}])
def test_what_cannot_be_written_is_refused(ext: dict[str, str]) -> None:
    with pytest.raises(LocalProtocolError):
        write(Command(code=1, opaque=2, ext=ext, serialization=Serialization.BINARY))
