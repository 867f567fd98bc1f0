"""What a 4.x client signs, as RocketMQ's hook does it."""

import base64
import hmac

import pytest

from dueline.credentials import Credentials
from dueline.wire import Command
from dueline.wire.signature import carried_signature, content_of, signed


def _command(version: int = 409, **ext: str) -> Command:
    return Command(code=10, opaque=1, ext=ext, body=b"body", version=version)


def test_values_are_signed_in_the_order_of_their_names_and_then_the_body() -> None:
    command = _command(b="orders", AccessKey="billing", a="group", Signature="none", Z="last")

    # Upper case comes before lower case, as in Java.
    assert content_of(command) == b"billing" + b"last" + b"group" + b"orders" + b"body"


def test_old_clients_add_a_field_after_they_have_signed() -> None:
    assert content_of(_command(version=399, _UNIQUE_KEY_QUERY="true", key="k")) == b"kbody"
    assert content_of(_command(version=401, _UNIQUE_KEY_QUERY="true", key="k")) == b"truekbody"


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
