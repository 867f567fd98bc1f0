"""What a 4.x client signs, as RocketMQ's hook does it."""

import base64
import hmac

import pytest

from dueline.credentials import Credentials
from dueline.wire import Command, signature
from dueline.wire.signature import (
    NAMES_COUNT_MAX,
    NAMES_SIZE_MAX,
    carried_signature,
    content_of,
    signed,
)


def _command(version: int = 409, **ext: str) -> Command:
    return _with(ext, version)


def _with(ext: dict[str, str], version: int = 409) -> Command:
    return Command(code=10, opaque=1, ext=ext, body=b"body", version=version)


def test_values_are_signed_in_the_order_of_their_names_and_then_the_body() -> None:
    command = _command(b="orders", AccessKey="billing", a="group", Signature="none", Z="last")

    # Upper case comes before lower case, as in Java.
    assert content_of(command) == b"billing" + b"last" + b"group" + b"orders" + b"body"


def test_old_clients_add_a_field_after_they_have_signed() -> None:
    assert content_of(_command(version=399, _UNIQUE_KEY_QUERY="true", key="k")) == b"kbody"
    assert content_of(_command(version=401, _UNIQUE_KEY_QUERY="true", key="k")) == b"truekbody"


def test_requests_with_the_same_fields_differ_in_their_values_alone() -> None:
    for number in range(3):
        command = _command(b=f"b{number}", a=f"a{number}", Signature=f"{number}")
        assert content_of(command) == f"a{number}b{number}body".encode()
    # Whether a field counts depends on the client's version, also if its names were seen before.
    for version, expected in ((399, b"kbody"), (401, b"truekbody"), (399, b"kbody")):
        command = _command(version=version, _UNIQUE_KEY_QUERY="true", key="k")
        assert content_of(command) == expected


@pytest.mark.parametrize("ext", [{}, {"Signature": "s"}])
def test_without_fields_the_body_is_signed(ext: dict[str, str]) -> None:
    assert content_of(_with(ext)) == b"body"


def test_names_that_are_remembered_are_bounded() -> None:
    long = "x" * NAMES_SIZE_MAX
    for number in range(NAMES_COUNT_MAX + 10):
        assert content_of(_with({f"z{number}": "2", "b": "1"})) == b"12body"
        assert content_of(_with({f"{long}{number}": "2", "b": "1"})) == b"12body"

    assert len(signature._values_of) <= NAMES_COUNT_MAX
    assert not any(long in str(names) for names in signature._values_of)


def test_text_that_no_encoding_has_is_signed_as_something() -> None:
    assert content_of(_command(key="\ud800")) == b"?body"


@pytest.mark.parametrize("text", ["", "not base64", "AAA", "AA==AA==", "ü"])
def test_a_signature_that_cannot_be_read_is_none(text: str) -> None:
    assert carried_signature({"Signature": text}) == b""
    assert carried_signature({}) == b""


def test_a_signature_is_base64() -> None:
    assert carried_signature({"Signature": base64.b64encode(bytes(range(20))).decode()}) == bytes(
        range(20)
    )


def test_what_we_sign_is_what_we_check() -> None:
    who = Credentials(name="billing", secret="hush")

    ext = signed({"b": "orders", "a": "group"}, b"body", who)

    command = Command(code=10, opaque=1, ext=ext, body=b"body")
    assert content_of(command) == b"billing" + b"group" + b"orders" + b"body"
    assert carried_signature(ext) == hmac.digest(b"hush", content_of(command), "sha1")
