"""Texts of JSON strings, as the standard library reads them."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from dueline import compiled
from dueline.wire.turn import TURN_KERNELS

pytest.importorskip("numba")


def unescape(text: bytes) -> bytes | None:
    assert compiled.load([TURN_KERNELS])
    from dueline.wire import property_kernels as kernels

    texts = np.zeros(len(text) + 8, dtype=np.uint8)
    data = np.frombuffer(b"\\" + text + b"\\", dtype=np.uint8)
    end = kernels.unescape(data, 1, 1 + len(text), texts, 3)
    return None if end < 0 else texts[3:end].tobytes()


@given(st.text(), st.booleans())
def test_text_is_what_json_says(text: str, is_ascii: bool) -> None:
    quoted = json.dumps(text, ensure_ascii=is_ascii)[1:-1].encode("utf-8", "surrogatepass")
    has_halves = any(0xD800 <= ord(each) <= 0xDFFF for each in text)
    is_wide = any(ord(each) > 0xFFFF for each in text)

    found = unescape(quoted)

    if has_halves or (is_ascii and is_wide):
        assert found is None  # for the codec to join, or to refuse
    else:
        assert found == text.encode()


@given(st.binary(max_size=6))
def test_bytes_that_are_not_utf8_are_not_understood(data: bytes) -> None:
    data = data.replace(b"\\", b"/")
    try:
        data.decode()
    except UnicodeDecodeError:
        assert unescape(data) is None
    else:
        assert unescape(data) == data


@pytest.mark.parametrize("text", [b"\\", b"\\u", b"\\u12", b"\\u12g4", b"\\x41", b"\\u004"])
def test_escapes_that_are_none_are_not_understood(text: bytes) -> None:
    assert unescape(text) is None


def test_every_short_escape_is_known() -> None:
    assert unescape(rb"\"\\\/\b\f\n\r\t") == b'"\\/\b\f\n\r\t'
