"""JSON as RocketMQ's Java library writes it: maps may have keys that are no strings.

    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:12},"brokerAddrs":{0:"127.0.0.1:10911"}}

`loads` reads strict JSON and this; keys become text: an integer its digits, an object an
`ObjectKey`, whose text is the object's JSON. `dumps` writes compact JSON, strict except that an
`ObjectKey` is written as an object again: the library of the 5.x tools refuses such a key in
quotes, which that of 4.x takes, and `loads` too, since text is text.

Nesting is bounded by `DEPTH_MAX`, which no real body comes near. `loads_request` reads what a peer
has sent and has more bounds, since it takes a broker's time: of bytes, of values, and of bytes in
the lenient form, which no client needs for a request.
"""

from __future__ import annotations

import json
import math
import re
from json.encoder import encode_basestring
from typing import Any, Final

from dueline.errors import InvalidRequest, LocalProtocolError

__all__ = ["ObjectKey", "dumps", "loads", "loads_request"]

DEPTH_MAX: Final = 32
REQUEST_SIZE_BYTES_MAX: Final = 1 << 20
REQUEST_VALUE_COUNT_MAX: Final = 50_000
LENIENT_SIZE_BYTES_MAX: Final = 16 << 10

_BLANKS: Final = " \t\r\n"
_WORDS: Final = {"true": True, "false": False, "null": None}
_TOKEN: Final = re.compile(
    r"[ \t\r\n]*(?:(?P<sign>[{}\[\]:,])"
    r'|(?P<text>"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<word>true|false|null))"
)
_HALF_CHARACTER: Final = re.compile(r"\\u[dD][89a-fA-F]")


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
    return _loads(data, len(data))


def loads_request(data: bytes) -> Any:
    """The same for a body that a peer has sent.

    Raises:
        InvalidRequest: as with `loads`, or more than a request may have.
    """
    if len(data) > REQUEST_SIZE_BYTES_MAX:
        raise _too_large("bytes", REQUEST_SIZE_BYTES_MAX, len(data))
    count = data.count(b",") + data.count(b"{") + data.count(b"[")
    if count > REQUEST_VALUE_COUNT_MAX:
        raise _too_large("values", REQUEST_VALUE_COUNT_MAX, count)
    return _loads(data, LENIENT_SIZE_BYTES_MAX)


def _loads(data: bytes, lenient_size_max: int) -> Any:
    try:
        text = data.decode()
        try:
            value = _decoder.decode(text)
        except json.JSONDecodeError:
            if len(data) > lenient_size_max:
                raise
            value = _Reader(text).whole()
        # Both are rare and cost a walk over the value.
        if _HALF_CHARACTER.search(text) or text.count("{") + text.count("[") >= DEPTH_MAX:
            _check(value)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"body: expected JSON, found {data[:80]!r}: {error}", field="body"
        ) from error
    return value


def _check(value: Any) -> None:
    """Refuse what `dumps` cannot write, level by level."""
    level = [value]
    for _ in range(DEPTH_MAX):
        texts: list[str] = []
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                texts += item
                inner += item.values()
            elif isinstance(item, list):
                inner += item
            elif isinstance(item, str):
                texts.append(item)
        "".join(texts).encode()
        if not inner:
            return
        level = inner
    raise ValueError(f"expected at most {DEPTH_MAX} levels")


def _too_large(what: str, limit: int, found: int) -> InvalidRequest:
    return InvalidRequest(
        f"body: expected at most {limit} {what}, found {found}",
        field="body",
        limit=limit,
        found=found,
    )


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
    """Reads the lenient form, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def whole(self) -> Any:
        value = self._value(self._next(), DEPTH_MAX)
        if self._text[self._position :].strip(_BLANKS):
            raise ValueError(f"expected the end at character {self._position}")
        return value

    def _next(self) -> re.Match[str]:
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            raise ValueError(f"expected a value or a sign at character {self._position}")
        self._position = match.end()
        return match

    def _sign(self) -> str:
        return self._next()["sign"] or ""

    def _value(self, match: re.Match[str], depth: int) -> Any:
        if not depth:
            raise ValueError(f"expected at most {DEPTH_MAX} levels")
        kind = match.lastgroup
        if kind == "text":
            return _decoder.raw_decode(self._text, match.start("text"))[0]
        if kind == "number":
            return _number(match["number"])
        if kind == "word":
            return _WORDS[match["word"]]
        sign = match["sign"]
        if sign == "{":
            return self._object(depth)
        if sign == "[":
            return self._array(depth)
        raise ValueError(f"expected a value at character {match.start('sign')}")

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        match = self._next()
        if match["sign"] == "}":
            return found
        while True:
            key = _key(self._value(match, depth - 1))
            if self._sign() != ":":
                raise ValueError(f"expected a colon before character {self._position}")
            found[key] = self._value(self._next(), depth - 1)
            sign = self._sign()
            if sign == "}":
                return found
            if sign != ",":
                raise ValueError(f"expected a comma before character {self._position}")
            match = self._next()

    def _array(self, depth: int) -> list[Any]:
        found: list[Any] = []
        match = self._next()
        if match["sign"] == "]":
            return found
        while True:
            found.append(self._value(match, depth - 1))
            sign = self._sign()
            if sign == "]":
                return found
            if sign != ",":
                raise ValueError(f"expected a comma before character {self._position}")
            match = self._next()


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else _finite(text)


def _key(key: object) -> str:
    if isinstance(key, dict):
        # Canonical, so that the same key spelled in another order is the same key.
        return ObjectKey(_text(dict(sorted(key.items())), DEPTH_MAX))
    if isinstance(key, str):
        return key
    if type(key) is int:
        return str(key)
    raise ValueError(f"expected a key, found {key!r:.80}")
