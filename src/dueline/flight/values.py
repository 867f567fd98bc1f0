"""Frozen dataclasses as JSON and back, strictly: the codec under every request and answer.

    >>> @dataclass(frozen=True, slots=True, kw_only=True)
    ... class Point(Value):
    ...     x: int
    ...     name: str | None = None
    >>> Point(x=1).encode()
    b'{"x":1,"name":null}'
    >>> Point.decode(b'{"x":1,"name":"a"}')
    Point(x=1, name='a')

Field types may be int, str, bool, float, another `Value`, `dict[str, T]`, `tuple[T, ...]` and any
of them or None. An unknown field, a missing one without a default and a wrong type are errors that
name the field: a peer of another version is told so at once, not by a wrong answer later.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dueline.errors import RemoteProtocolError

__all__ = ["Value", "dataclass"]


class Value:
    """Base of dataclasses that travel as JSON; adds only `encode` and `decode`."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def encode(self) -> bytes:
        return json.dumps(self.to_json(), separators=(",", ":")).encode()

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists and scalars."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the JSON form.

        Raises:
            RemoteProtocolError: not JSON, or not of this type; says where.
        """
        try:
            plain = json.loads(data)
        except ValueError as error:
            raise RemoteProtocolError(
                f"{cls.__name__}: expected JSON, found {bytes(data)[:100]!r}"
            ) from error
        return cls.from_json(plain)

    @classmethod
    def from_json(cls, plain: Any) -> Self:
        if not isinstance(plain, dict):
            raise RemoteProtocolError(f"{cls.__name__}: expected an object, found {plain!r:.100}")
        kinds = _kinds_of(cls)
        unknown = sorted(set(plain) - set(kinds))
        needed = {field.name for field in dataclasses.fields(cls) if _is_needed(field)}
        missing = sorted(needed - set(plain))
        if unknown or missing:
            raise RemoteProtocolError(
                f"{cls.__name__}: expected the fields {sorted(kinds)}, found unknown {unknown}, "
                f"missing {missing}; are both sides of the same version?"
            )
        return cls(
            **{
                name: _typed(kinds[name], value, f"{cls.__name__}.{name}")
                for name, value in plain.items()
            }
        )


def _kinds_of(cls: type[Value]) -> dict[str, Any]:
    kinds = typing.get_type_hints(cls)
    return {name: kind for name, kind in kinds.items() if typing.get_origin(kind) is not ClassVar}


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _plain(value: Any) -> Any:
    if isinstance(value, Value):
        return value.to_json()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _typed(kind: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        kinds = [each for each in typing.get_args(kind) if each is not type(None)]
        return None if value is None else _typed(kinds[0], value, where)
    if origin is tuple and isinstance(value, list):
        inner = typing.get_args(kind)[0]
        return tuple(_typed(inner, item, where) for item in value)
    if origin is dict and isinstance(value, dict):
        inner = typing.get_args(kind)[1]
        return {name: _typed(inner, item, f"{where}[{name}]") for name, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, Value):
        return kind.from_json(value)
    # JSON's true is an int to Python; a flag where a number belongs is still a mistake.
    if origin is None and isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
        return value
    raise RemoteProtocolError(f"{where}: expected {kind}, found {value!r:.100}")
