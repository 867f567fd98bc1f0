"""JSON headers: liberal in, strict out."""

import json

import pytest

from dueline.errors import LocalProtocolError, RemoteProtocolError
from dueline.wire import Command, Language
from dueline.wire.json_header import read, write

START = '{"code":1,"opaque":2'


def test_least_header_is_code_and_opaque() -> None:
    assert read(b'{"code":1,"opaque":2}') == (1, Language.OTHER, 0, 2, 0, None, {})


def test_unknown_keys_blanks_and_order_do_not_matter() -> None:
    header = b' { "opaque" : 2, "new": [1, {"deep": null}], "language": "GO", "code" : 1 }\n'

    assert read(header) == (1, Language.GO, 0, 2, 0, None, {})


@pytest.mark.parametrize("name", ['"COBOL"', "7", "null"])
def test_unknown_language_is_other(name: str) -> None:
    assert read(f'{START},"language":{name}}}'.encode())[1] is Language.OTHER


@pytest.mark.parametrize(
    ("value", "text"), [("5", "5"), ("-7", "-7"), ("true", "true"), ("false", "false")]
)
def test_ext_value_of_another_type_becomes_text(value: str, text: str) -> None:
    header = f'{START},"extFields":{{"a":{value},"b":"c"}}}}'.encode()

    assert read(header)[6] == {"a": text, "b": "c"}


def test_null_is_absent() -> None:
    assert read(f'{START},"remark":null,"extFields":{{"a":null}}}}'.encode())[5:] == (None, {})


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"null",
        b"\xff\xfe",
        b'{"code":1,"opaque":2} x',
        b"[" * 5000 + b"]" * 5000,
        b'{"code":1}',
        b'{"opaque":1}',
        b'{"code":"1","opaque":2}',
        b'{"code":true,"opaque":2}',
        b'{"code":1.0,"opaque":2}',
        b'{"code":' + b"9" * 5000 + b',"opaque":2}',
        b'{"code":1,"opaque":2,"flag":null}',
        b'{"code":1,"opaque":2,"extFields":[]}',
        b'{"code":1,"opaque":2,"extFields":{"a":[]}}',
        b'{"code":1,"opaque":2,"extFields":{"a":"\\ud800"}}',
        b'{"code":1,"opaque":2,"extFields":{"\\udc00":1}}',
        b'{"code":1,"opaque":2,"remark":"\\ud800"}',
        b'{"code":1,"opaque":2,"remark":5}',
    ],
)
def test_bad_header_is_refused(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="JSON header"):
        read(header)


def test_control_characters_and_quotes_survive() -> None:
    ext = {"i": 'KEYS\x01a "b" \\ c\x02TAGS\x01\u8ba2\u5355 \U0001f600'}

    header = write(Command(code=310, opaque=1, ext=ext, remark="a\nb"))

    fields = json.loads(header)
    assert fields["extFields"] == ext
    assert fields["remark"] == "a\nb"


def test_every_ext_value_is_written_as_a_string() -> None:
    command = Command(code=1, opaque=2, ext={"queueId": 5})  # type: ignore[dict-item]

    with pytest.raises(LocalProtocolError, match="expected text"):
        write(command)


def test_half_a_character_is_not_written() -> None:
    with pytest.raises(LocalProtocolError):
        write(Command(code=1, opaque=2, ext={"a": "\ud800"}))
