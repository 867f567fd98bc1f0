"""How typed JSON bodies are made: declare the fields once, get `decode`, `encode` and `check`.

    @body
    class LockResult(Body):
        locked: frozenset[MessageQueue] = json_name("lockOKMQSet")

Types are `int`, `float`, `bool`, `str`, `JsonValue` (anything, untouched), another body, or a
`list`, `frozenset` or `dict` of them; `None` in a union makes it optional. A map's keys may be
strings, integers or bodies (see `dueline.wire.fastjson`). A field with a default may be absent or
null; what a class does not know is ignored; `None` is not written. Integers are also taken from
strings: Go writes some so.

`decode(body.encode())` gives the same value. As with headers, a body that cannot be read is the
request's fault: `InvalidRequest` with the path to the offending part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from dueline.errors import InvalidRequest
from dueline.json_fields import (
    JsonPath,
    camel_case,
    read_bool,
    read_float,
    read_int,
    read_text,
    unexpected,
)
from dueline.wire import fastjson

__all__ = ["Body", "JsonValue", "body", "json_name"]

JsonValue = Any

_REQUIRED: Final = object()

B = TypeVar("B", bound="Body")


class _Codec(NamedTuple):
    """How a type is read from plain JSON values and turned back into them."""

    read: Callable[[Any, JsonPath], Any]
    write: Callable[[Any], Any]


class _Field(NamedTuple):
    """How one field travels."""

    name: str
    json_name: str
    codec: _Codec
    default: Callable[[], Any]
    assign: Callable[[object, Any], None]


class Body:
    """Base of all typed JSON bodies; see the module."""

    __slots__ = ()
    _fields: ClassVar[tuple[_Field, ...]] = ()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The body that these bytes say.

        Raises:
            InvalidRequest: not JSON, or not of this shape.
        """
        return cls.from_json(fastjson.loads(data))

    @classmethod
    def decode_request(cls, data: bytes) -> Self:
        """The same of bytes that a peer has sent, which have bounds (`fastjson.loads_request`)."""
        return cls.from_json(fastjson.loads_request(data))

    @classmethod
    def from_json(cls, value: object, path: JsonPath = "body") -> Self:
        """The body that a parsed JSON value says."""
        if not isinstance(value, dict):
            raise unexpected(path, "an object", value)
        # As with headers, assigned by the slots' descriptors: `__init__` takes twice as long.
        made = object.__new__(cls)
        get = value.get
        for _, key, codec, default, assign in cls._fields:
            item = get(key)
            if item is not None:
                assign(made, codec.read(item, (path, key)))
                continue
            item = default()
            if item is _REQUIRED:
                raise unexpected((path, key), "a value", None)
            assign(made, item)
        return made

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; sets are sorted, so equal bodies have equal bytes."""
        found = {}
        for name, key, codec, _, _ in self._fields:
            value = getattr(self, name)
            if value is not None:
                found[key] = codec.write(value)
        return found

    def encode(self) -> bytes:
        """The bytes to send."""
        return fastjson.dumps(self.to_json())

    def check(self) -> None:
        """Refuse a body that could not be read again."""
        if type(self).decode(self.encode()) != self:
            raise InvalidRequest(f"{type(self).__name__}: expected the field's types, found {self}")


def json_name(
    name: str, *, default: Any = dataclasses.MISSING, default_factory: Any = dataclasses.MISSING
) -> Any:
    """A field whose name in JSON is not its own in camel case."""
    return dataclasses.field(
        default=default, default_factory=default_factory, metadata={"name": name}
    )


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(json_name, dataclasses.field)
)
def body(cls: type[B]) -> type[B]:
    """Class decorator: a frozen dataclass that knows its JSON form."""
    made = dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)
    hints = get_type_hints(made)
    made._fields = tuple(
        _Field(
            name=field.name,
            json_name=field.metadata.get("name") or camel_case(field.name),
            codec=_codec(hints[field.name]),
            default=_default(field),
            assign=made.__dict__[field.name].__set__,
        )
        for field in dataclasses.fields(cast(Any, made))
    )
    return made


def _default(field: dataclasses.Field[Any]) -> Callable[[], Any]:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    value = _REQUIRED if field.default is dataclasses.MISSING else field.default
    return lambda: value


def _codec(hint: Any) -> _Codec:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [choice for choice in get_args(hint) if choice is not type(None)]
    if hint is Any:
        return _Codec(lambda value, path: value, lambda value: value)
    if isinstance(hint, type) and issubclass(hint, Body):
        return _Codec(hint.from_json, lambda value: value.to_json())
    if get_origin(hint) is dict:
        return _dict_codec(*get_args(hint))
    if get_origin(hint) in (list, frozenset):
        return _sequence_codec(get_origin(hint), _codec(get_args(hint)[0]))
    return _Codec(_SCALARS[hint], lambda value: value)


def _sequence_codec(kind: Any, item: _Codec) -> _Codec:
    read_item = item.read

    def read(value: Any, path: JsonPath) -> Any:
        if not isinstance(value, list):
            raise unexpected(path, "an array", value)
        return kind([read_item(part, (path, place)) for place, part in enumerate(value)])

    def write(value: Any) -> list[Any]:
        if kind is frozenset:
            return sorted([item.write(part) for part in value], key=fastjson.dumps)
        return [item.write(part) for part in value]

    return _Codec(read, write)


def _dict_codec(key_hint: Any, value_hint: Any) -> _Codec:
    key, item = _key_codec(key_hint), _codec(value_hint)

    def read(value: Any, path: JsonPath) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise unexpected(path, "an object", value)
        return {key.read(name, path): item.read(part, (path, name)) for name, part in value.items()}

    return _Codec(
        read, lambda value: {key.write(name): item.write(part) for name, part in value.items()}
    )


def _key_codec(hint: Any) -> _Codec:
    if hint is int:
        return _Codec(read_int, str)
    if hint is str:
        return _Codec(read_text, lambda key: key)

    def read(text: str, path: JsonPath) -> Any:
        return hint.from_json(fastjson.loads(text.encode()), path)

    return _Codec(read, lambda key: fastjson.ObjectKey(key.encode().decode()))


_SCALARS: Final[dict[Any, Callable[[Any, JsonPath], Any]]] = {
    int: read_int,
    float: read_float,
    bool: read_bool,
    str: read_text,
}
