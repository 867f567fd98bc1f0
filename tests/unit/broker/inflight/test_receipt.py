"""Receipts as text: ours are read back, and anything else is refused."""

from __future__ import annotations

import base64
import zlib

import pytest

from dueline.broker.inflight import InvalidReceipt, Receipt

RECEIPT = Receipt(epoch=0x01020304, lane=5, offset=6, serial=7)


def test_receipt_is_what_its_module_says() -> None:
    body = bytes([1]) + b"\1\2\3\4" + (5).to_bytes(4) + (6).to_bytes(8) + (7).to_bytes(4)
    expected = base64.urlsafe_b64encode(body + zlib.crc32(body).to_bytes(4)).decode()

    assert RECEIPT.encode() == expected
    assert Receipt.decode(expected) == RECEIPT


@pytest.mark.parametrize("place", range(len(RECEIPT.encode())))
def test_no_other_character_gives_another_receipt(place: int) -> None:
    text = RECEIPT.encode()
    other = "A" if text[place] != "A" else "B"

    with pytest.raises(InvalidReceipt):
        Receipt.decode(text[:place] + other + text[place + 1 :])


@pytest.mark.parametrize("version", [0, 2, 255])
def test_other_version_is_refused(version: int) -> None:
    body = bytes([version]) + bytes(20)
    text = base64.urlsafe_b64encode(body + zlib.crc32(body).to_bytes(4)).decode()

    with pytest.raises(InvalidReceipt, match="version"):
        Receipt.decode(text)
