"""Single values of JSON, read by their type: what the wire's bodies and files of settings share.

A path says where a value stands. It is a name, or a parent's path and a name or place in it; text
is made of it only when there is something to complain about.

>>> read_int("17", ("body", "queueId"))
17
>>> read_bool("yes", (("body", "queues"), 3))
Traceback (most recent call last):
dueline.errors.InvalidRequest: body.queues[3]: expected true or false, found 'yes'
"""

from __future__ import annotations

from typing import Any

from dueline.errors import InvalidRequest

__all__ = [
    "JsonPath",
    "camel_case",
    "read_bool",
    "read_float",
    "read_int",
    "read_text",
    "unexpected",
]

JsonPath = str | tuple["JsonPath", str | int]


def camel_case(name: str) -> str:
    """Java's form of a name.

    >>> camel_case("suspend_timeout_millis")
    'suspendTimeoutMillis'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def read_int(value: Any, path: JsonPath) -> int:
    """An integer, also from a string: Go writes some so."""
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= 20:
        value = int(value)
    if type(value) is int and -1 <= value >> 63 <= 0:
        return value
    raise unexpected(path, "an integer of 64 bits", value)


def read_float(value: Any, path: JsonPath) -> float:
    if type(value) in (int, float):
        return float(value)
    raise unexpected(path, "a number", value)


def read_bool(value: Any, path: JsonPath) -> bool:
    if isinstance(value, bool):
        return value
    raise unexpected(path, "true or false", value)


def read_text(value: Any, path: JsonPath) -> str:
    if isinstance(value, str):
        return value
    raise unexpected(path, "a string", value)


def unexpected(path: JsonPath, expected: str, found: object) -> InvalidRequest:
    """The error that names the place."""
    place = _text(path)
    return InvalidRequest(f"{place}: expected {expected}, found {found!r:.80}", field=place)


def _text(path: JsonPath) -> str:
    if isinstance(path, str):
        return path
    parent, name = path
    inner = f"[{name}]" if isinstance(name, int) else f".{name[:80]}"
    return _text(parent) + inner
