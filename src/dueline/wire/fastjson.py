"""JSON as RocketMQ's Java library writes it: maps may have keys that are no strings.

    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:12},"brokerAddrs":{0:"127.0.0.1:10911"}}

`loads` reads strict JSON and this; keys become text: an integer its digits, an object an
`ObjectKey`, whose text is the object's JSON. `dumps` writes compact JSON, strict except that an
`ObjectKey` is written as an object again: the library of the 5.x tools refuses such a key in
quotes, which that of 4.x takes, and `loads` too, since text is text.

Nesting is bounded by `DEPTH_MAX`, which no real body comes near.
"""

from __future__ import annotations

import json
import math
from json.encoder import encode_basestring
from typing import Any, Final

from dueline.errors import InvalidRequest, LocalProtocolError

__all__ = ["ObjectKey", "dumps", "loads"]

DEPTH_MAX: Final = 32

_BLANKS: Final = " \t\r\n"


class ObjectKey(str):
    """A map's key that is a JSON object: its text is that JSON."""

    __slots__ = ()


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value) or math.isnan(value):
        raise ValueError(f"expected a finite number, found {text[:80]}")
    return value


_decoder: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def loads(data: bytes) -> Any:
    """The value that a body says; `dumps` can write whatever this returns.

    Raises:
        InvalidRequest: not JSON in either form, nested too deep, or with text or numbers that
        have no
            bytes: half a character, an infinite number.
    """
    try:
        text = data.decode()
        try:
            value = _decoder.decode(text)
        except json.JSONDecodeError:
            value = _Reader(text).whole()
        # Both are rare and cost a walk over the value.
        if "\\u" in text or text.count("{") + text.count("[") >= DEPTH_MAX:
            _text(value, DEPTH_MAX).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"body: expected JSON, found {data[:80]!r}: {error}", field="body"
        ) from error
    return value


def dumps(value: Any) -> bytes:
    """Compact JSON, in UTF-8.

    Raises:
        LocalProtocolError: half a character, an infinite number, or nested too deep.
    """
    try:
        return _text(value, DEPTH_MAX).encode()
    except ValueError as error:
        raise LocalProtocolError(f"body: {error}", field="body") from error


def _text(value: Any, depth: int) -> str:
    if not depth:
        raise ValueError(f"expected at most {DEPTH_MAX} levels")
    if isinstance(value, dict):
        pairs = [f"{_key_text(name)}:{_text(item, depth - 1)}" for name, item in value.items()]
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join([_text(item, depth - 1) for item in value]) + "]"
    if isinstance(value, str):
        return encode_basestring(value)
    return json.dumps(value, allow_nan=False)


def _key_text(key: str | int) -> str:
    return key if isinstance(key, ObjectKey) else encode_basestring(str(key))


class _Reader:
    """Reads the lenient form; scalars are left to the standard decoder."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def whole(self) -> Any:
        value = self._value(DEPTH_MAX)
        if self._next():
            raise ValueError(f"expected the end at character {self._position}")
        return value

    def _next(self) -> str:
        """The next character that is not blank, or nothing at the end."""
        while (character := self._text[self._position : self._position + 1]) in _BLANKS:
            if not character:
                break
            self._position += 1
        return character

    def _value(self, depth: int) -> Any:
        if not depth:
            raise ValueError(f"expected at most {DEPTH_MAX} levels")
        first = self._next()
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._array(depth)
        value, self._position = _decoder.raw_decode(self._text, self._position)
        return value

    def _object(self, depth: int) -> dict[str, Any]:
        self._position += 1
        found: dict[str, Any] = {}
        if self._ends("}"):
            return found
        while True:
            key = self._key(depth)
            if self._next() != ":":
                raise ValueError(f"expected a colon at character {self._position}")
            self._position += 1
            found[key] = self._value(depth - 1)
            if self._ends("}"):
                return found
            self._comma()

    def _key(self, depth: int) -> str:
        start = self._position
        key = self._value(depth - 1)
        if isinstance(key, dict):
            # Canonical, so that the same key spelled in another order is the same key.
            return ObjectKey(_text(dict(sorted(key.items())), DEPTH_MAX))
        if isinstance(key, str):
            return key
        if type(key) is int:
            return str(key)
        raise ValueError(f"expected a key at character {start}")

    def _array(self, depth: int) -> list[Any]:
        self._position += 1
        found: list[Any] = []
        if self._ends("]"):
            return found
        while True:
            found.append(self._value(depth - 1))
            if self._ends("]"):
                return found
            self._comma()

    def _ends(self, bracket: str) -> bool:
        if self._next() != bracket:
            return False
        self._position += 1
        return True

    def _comma(self) -> None:
        if self._next() != ",":
            raise ValueError(f"expected a comma at character {self._position}")
        self._position += 1
