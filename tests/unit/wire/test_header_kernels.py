"""JSON headers: what the kernel understands, the codec reads alike."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from dueline import compiled
from dueline.wire import Command, json_header
from dueline.wire.turn import TURN_KERNELS

pytest.importorskip("numba")

LETTERS = "abcdefghijklmn"


def read(header: bytes) -> list[int] | None:
    """The numbers that the kernel finds; None: it does not understand."""
    assert compiled.load([TURN_KERNELS])
    from dueline.wire import header_kernels as kernels

    found = np.zeros(kernels.HEADER_WIDTH, dtype=np.int64)
    data = np.frombuffer(b"{" + header + b"}", dtype=np.uint8)
    if kernels.read_header(data, 1, 1 + len(header), found) < 0:
        return None
    return [int(each) for each in found]


@given(
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.dictionaries(st.sampled_from(LETTERS), st.text(st.characters(codec="ascii"))),
)
def test_numbers_and_fields_are_those_of_the_codec(
    code: int, opaque: int, version: int, ext: dict[str, str]
) -> None:
    command = Command(code=code, opaque=opaque, version=version, ext=ext)
    header = json_header.write(command)

    found = read(header)

    has_escape = any(
        json_header.write(Command(code=1, opaque=1, ext={"a": value})).count(b"\\")
        for name, value in ext.items()
        if name != "i"
    )
    assert (found is None) == has_escape
    if found is not None:
        assert found[28:33] == [code, 0, opaque, version, len(ext)]
        for place, letter in enumerate(LETTERS):
            start, end = found[2 * place : 2 * place + 2]
            assert (start >= 0) == (letter in ext)
            if start >= 0 and letter != "i":
                assert (b"{" + header)[start:end].decode() == ext[letter]


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{}",
        b'{"code":310}',
        b'{"opaque":1}',
        b'{"code":310,"opaque":1',
        b'{"code":310,"opaque":1}x',
        b'{"code":310,"opaque":1,}',
        b'{"code":310,"code":310,"opaque":1}',
        b'{"code":0310,"opaque":1}',
        b'{"code":-0,"opaque":1}',
        b'{"code":310.0,"opaque":1}',
        b'{"code":2147483648,"opaque":1}',
        b'{"code": 310,"opaque":1}',
        b'{"code":310,"opaque":1,"remark":"x"}',
        b'{"code":310,"opaque":1,"language":"J\xc3\x84VA"}',
        b'{"code":310,"opaque":1,"extFields":null}',
        b'{"code":310,"opaque":1,"extFields":{"a":1}}',
        b'{"code":310,"opaque":1,"extFields":{"ab":"1"}}',
        b'{"code":310,"opaque":1,"extFields":{"a":"1","a":"2"}}',
        b'{"code":310,"opaque":1,"extFields":{"a":"1",}}',
        b'{"code":310,"opaque":1,"extFields":{"i":"\\"}}',
    ],
)
def test_other_headers_are_left_to_the_codec(header: bytes) -> None:
    assert read(header) is None


def test_keys_may_come_in_any_order_and_be_absent() -> None:
    found = read(b'{"opaque":-7,"extFields":{},"code":310}')

    assert found is not None
    assert found[28:33] == [310, 0, -7, 0, 0]


@given(st.one_of(st.from_regex(rb"[0-9]{0,20}", fullmatch=True), st.binary(max_size=19)))
def test_digits_are_those_that_python_reads(text: bytes) -> None:
    assert compiled.load([TURN_KERNELS])
    from dueline.wire import header_kernels as kernels

    is_number = 0 < len(text) <= 18 and all(0x30 <= byte <= 0x39 for byte in text)
    found = kernels.digits(np.frombuffer(b"x" + text + b"9", dtype=np.uint8), 1, 1 + len(text))
    assert found == (int(text) if is_number else -1)


@given(st.lists(st.sampled_from(b'ab"\\\x1f\x20\x7f\x80\xff/'), max_size=20).map(bytes))
def test_strings_end_at_the_first_byte_that_cannot_stand_for_itself(text: bytes) -> None:
    assert compiled.load([TURN_KERNELS])
    from dueline.wire import header_kernels as kernels

    odd = [at for at, byte in enumerate(text) if byte in b'"\\' or byte < 0x20 or byte >= 0x80]
    found = kernels.plain_end(np.frombuffer(b'"' + text + b'"', dtype=np.uint8), 1, 1 + len(text))
    assert found == 1 + (odd[0] if odd else len(text))
