"""The body of a batch send (320): messages one after the other.

    ┌──────┬───────┬─────┬──────┬──────┬──────┬──────┬────────────┐
    │ size │ magic │ crc │ flag │ size │ body │ size │ properties │
    │  4   │   4   │  4  │  4   │  4   │      │  2   │            │
    └──────┴───────┴─────┴──────┴──────┴──────┴──────┴────────────┘

The first size counts the whole message. Clients write 0 as magic and CRC; both are ignored.
Properties are in their stored form (`dueline.message.decode_properties`).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from dueline.errors import InvalidRequest

__all__ = ["BatchMessage", "decode_batch", "encode_batch"]

_START: Final = Struct(">iiiii")
_PROPERTIES_SIZE: Final = Struct(">H")
_FIXED_SIZE_BYTES: Final = _START.size + _PROPERTIES_SIZE.size


class BatchMessage(NamedTuple):  # a tuple: a batch has many
    """One message of a batch; topic and queue are the request's."""

    body: bytes
    properties: bytes = b""
    flag: int = 0


def decode_batch(data: bytes, *, count_max: int | None = None) -> list[BatchMessage]:
    """The messages of a batch.

    Args:
        count_max: how many there may be; if there are more, the first one too many is the last.

    Raises:
        InvalidRequest: sizes that do not add up; `position` says where.

    >>> decode_batch(encode_batch([BatchMessage(body=b"one", properties=b"TAGS\\x01a")]))
    [BatchMessage(body=b'one', properties=b'TAGS\\x01a', flag=0)]
    """
    messages: list[BatchMessage] = []
    enough = None if count_max is None else count_max + 1
    position = 0
    while position < len(data):
        if len(data) - position < _FIXED_SIZE_BYTES:
            raise _broken(position, _FIXED_SIZE_BYTES, len(data) - position)
        size, _, _, flag, body_size = _START.unpack_from(data, position)
        if not _FIXED_SIZE_BYTES <= size <= len(data) - position:
            raise _broken(position, len(data) - position, size)
        body_start = position + _START.size
        properties_at = body_start + body_size
        end = position + size
        if not body_start <= properties_at <= end - _PROPERTIES_SIZE.size:
            raise _broken(position, size - _FIXED_SIZE_BYTES, body_size)
        properties_start = properties_at + _PROPERTIES_SIZE.size
        (properties_size,) = _PROPERTIES_SIZE.unpack_from(data, properties_at)
        if properties_start + properties_size != end:
            raise _broken(position, end - properties_start, properties_size)
        messages.append(
            BatchMessage(data[body_start:properties_at], data[properties_start:end], flag)
        )
        position = end
        if len(messages) == enough:
            break
    return messages


def encode_batch(messages: Iterable[BatchMessage]) -> bytes:
    """The body of a batch, as clients write it."""
    parts = []
    for message in messages:
        if len(message.properties) > 0x7FFF:
            raise InvalidRequest(
                f"properties: expected at most 32767 bytes, found {len(message.properties)}",
                field="properties",
            )
        size = _FIXED_SIZE_BYTES + len(message.body) + len(message.properties)
        parts.append(_START.pack(size, 0, 0, message.flag, len(message.body)))
        parts.append(message.body)
        parts.append(_PROPERTIES_SIZE.pack(len(message.properties)))
        parts.append(message.properties)
    return b"".join(parts)


def _broken(position: int, expected: int, found: int) -> InvalidRequest:
    return InvalidRequest(
        f"batch: message at byte {position}: expected a size of {expected} bytes, found {found}",
        field="body",
        position=position,
        found=found,
    )
