"""Values as JSON and back, strictly: the codec under every request and answer.

    >>> class Point(Value, frozen=True, kw_only=True):
    ...     x: int
    ...     name: str | None = None
    >>> Point(x=1).encode()
    b'{"x":1,"name":null}'
    >>> Point.decode(b'{"x":1,"name":"a"}')
    Point(x=1, name='a')

An unknown field, a missing one without a default and a wrong type are errors that name the field: a
peer of another version is told so at once, not by a wrong answer later.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Self

import msgspec

from dueline.errors import RemoteProtocolError

__all__ = ["Value"]


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what travels as JSON. `frozen` and `kw_only` have to be said again by each class."""

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists and scalars."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def changed(self, **fields: Any) -> Self:
        """The same with other values in some fields."""
        return msgspec.structs.replace(self, **fields)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the JSON form.

        Raises:
            RemoteProtocolError: not JSON, or not of this type; says where.
        """
        try:
            value: Self = _decoder_of(cls).decode(data)
        except msgspec.ValidationError as error:
            raise _refusal(cls, error) from error
        except msgspec.DecodeError as error:
            raise RemoteProtocolError(
                f"{cls.__name__}: expected JSON, found {bytes(data)[:100]!r}"
            ) from error
        return value

    @classmethod
    def from_json(cls, plain: Any) -> Self:
        """Read the plain form.

        Raises:
            RemoteProtocolError: not of this type; says where.
        """
        try:
            return msgspec.convert(plain, cls)
        except msgspec.ValidationError as error:
            raise _refusal(cls, error) from error


@cache
def _decoder_of(cls: type[Value]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cls)


def _refusal(cls: type[Value], error: msgspec.ValidationError) -> RemoteProtocolError:
    return RemoteProtocolError(f"{cls.__name__}: {error}; are both sides of the same version?")
