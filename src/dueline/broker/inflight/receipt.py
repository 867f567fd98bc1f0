"""A receipt: what a consumer shows to acknowledge a message or to keep it longer.

    | version (1) | epoch (4) | lane (4) | offset (8) | serial (4) | crc32 (4) |   as base64 text

It names the holding, not the consumer: anybody who has it may use it. The epoch is that of the
store's file of receipts, so one that was made before the store's folder was deleted is not taken
for a new one. Text that is no receipt of ours is refused, whatever it is.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from dataclasses import dataclass
from typing import Final, Self

from dueline.errors import InvalidRequest

__all__ = ["InvalidReceipt", "Receipt", "receipt_text"]

_LAYOUT: Final = struct.Struct(">BIIQI")
_VERSION: Final = 1
_CRC_SIZE: Final = 4


class InvalidReceipt(InvalidRequest):
    """A receipt that is not ours, or that a later holding has replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One holding of one message.

    >>> Receipt.decode(Receipt(epoch=1, lane=2, offset=3, serial=4).encode()).offset
    3
    """

    epoch: int
    lane: int
    offset: int
    serial: int

    def encode(self) -> str:
        return receipt_text(self.epoch, self.lane, self.offset, self.serial)

    @classmethod
    def decode(cls, text: str) -> Self:
        """Raises InvalidReceipt."""
        try:
            data = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidReceipt("receipt: expected one of this store, found no base64") from error
        body, crc = data[:-_CRC_SIZE], data[-_CRC_SIZE:]
        if len(body) != _LAYOUT.size or zlib.crc32(body).to_bytes(_CRC_SIZE, "big") != crc:
            raise InvalidReceipt("receipt: expected one of this store, found another's")
        version, epoch, lane, offset, serial = _LAYOUT.unpack(body)
        if version != _VERSION:
            raise InvalidReceipt(f"receipt: expected version {_VERSION}, found {version}")
        return cls(epoch=epoch, lane=lane, offset=offset, serial=serial)


def receipt_text(epoch: int, lane: int, offset: int, serial: int) -> str:
    """A receipt as clients get it, without the value: one is made for every message."""
    data = _LAYOUT.pack(_VERSION, epoch, lane, offset, serial)
    return base64.urlsafe_b64encode(data + zlib.crc32(data).to_bytes(_CRC_SIZE, "big")).decode()
