"""How typed headers are made: declare the fields once, get `decode`, `encode` and `check`.

A request's arguments travel as strings by name (`Command.ext`). A header class says which names, of
which types, and which may be absent:

    @header
    class RouteRequest(Header):
        topic: str                                  # travels as "topic", must be there
        accept_standard_json_only: bool = False     # travels as "acceptStandardJsonOnly"

The wire's name is the field's name in camel case unless `wire("...")` gives another. `int` has 32
bits as in Java, `Long` has 64. A field with a default may be absent; a `None` is not sent. Names
that the class does not know are ignored: every release of the clients adds some.

A header that cannot be read is the request's fault and not the connection's, hence
`InvalidRequest`: the frame around it was fine, and the peer can be told.

Decoding assigns through the slots' descriptors, as `Command` does: a send has 14 fields, and a
frozen dataclass's `__init__` would double the time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import UnionType
from typing import (
    Annotated,
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
from dueline.json_fields import camel_case

__all__ = ["Header", "Long", "header", "wire"]

Long = Annotated[int, "64 bits"]

_REQUIRED: Final = object()
_DIGITS_MAX: Final = 20
_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}

H = TypeVar("H", bound="Header")


class _Field(NamedTuple):
    """How one field travels."""

    wire_name: str
    assign: Callable[[object, Any], None]
    # None for strings, which travel as they are.
    parse: Callable[[str], Any] | None
    default: Any
    name: str
    write: Callable[[Any], str]


class Header:
    """Base of all typed headers; see the module."""

    __slots__ = ()
    _fields: ClassVar[tuple[_Field, ...]] = ()
    _short_fields: ClassVar[tuple[_Field, ...]] = ()

    @classmethod
    def decode(cls, ext: Mapping[str, str]) -> Self:
        """The header in a command's ext fields.

        Raises:
            InvalidRequest: a field is missing or is not what it should be; `field` is its wire
            name.
        """
        return cls._decode(cls._fields, ext)

    @classmethod
    def _decode(cls, fields: tuple[_Field, ...], ext: Mapping[str, str]) -> Self:
        decoded = object.__new__(cls)
        get = ext.get
        for wire_name, assign, parse, default, _, _ in fields:
            text = get(wire_name)
            if text is None:
                if default is _REQUIRED:
                    raise _missing(cls, wire_name, ext)
                assign(decoded, default)
            elif parse is None:
                assign(decoded, text)
            else:
                try:
                    assign(decoded, parse(text))
                except ValueError as error:
                    raise InvalidRequest(
                        f"{cls.__name__}: {wire_name}: expected {error}, found {text[:80]!r}",
                        field=wire_name,
                        found=text,
                    ) from None
        return decoded

    def encode(self) -> dict[str, str]:
        """The ext fields that carry this header.

        Raises:
            InvalidRequest: a value that its field cannot hold.
        """
        return self._encode(self._fields)

    def _encode(self, fields: tuple[_Field, ...]) -> dict[str, str]:
        ext = {}
        for wire_name, _, _, default, name, write in fields:
            value = getattr(self, name)
            if value is None and default is None:
                continue
            try:
                ext[wire_name] = write(value)
            except ValueError as error:
                raise InvalidRequest(
                    f"{type(self).__name__}: {name}: expected {error}, found {value!r:.80}",
                    field=wire_name,
                    found=value,
                ) from None
        return ext

    def check(self) -> None:
        """Refuse a value that its field cannot hold; encoding and decoding do the same."""
        self._encode(self._fields)


def wire(name: str = "", *, short: str = "", default: Any = dataclasses.MISSING) -> Any:
    """A field whose wire name is not its own in camel case, or that also has a short one."""
    return dataclasses.field(default=default, metadata={"name": name, "short": short})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(wire,))
def header(cls: type[H]) -> type[H]:
    """Class decorator: a frozen dataclass that knows its wire form."""
    made = dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)
    hints = get_type_hints(made, include_extras=True)
    fields = []
    short_fields = []
    for field in dataclasses.fields(cast(Any, made)):
        missing = field.default is dataclasses.MISSING
        parse, write = _codec(hints[field.name])
        how = _Field(
            wire_name=field.metadata.get("name") or camel_case(field.name),
            assign=made.__dict__[field.name].__set__,
            parse=parse,
            default=_REQUIRED if missing else field.default,
            name=field.name,
            write=write,
        )
        fields.append(how)
        short_fields.append(how._replace(wire_name=field.metadata.get("short") or how.wire_name))
    made._fields = tuple(fields)
    made._short_fields = tuple(short_fields)
    return made


def parse_int(text: str) -> int:
    """A decimal integer of 32 bits; `int` alone would also take blanks and underscores.

    Raises:
        ValueError: its text says what was expected.
    """
    if text.isdecimal() and len(text) < 10:
        return int(text)
    return _parse_rare(text, 31)


def parse_long(text: str) -> int:
    """The same of 64 bits."""
    if text.isdecimal() and len(text) < 19:
        return int(text)
    return _parse_rare(text, 63)


def _parse_rare(text: str, bits: int) -> int:
    """Integers with a sign or with many digits."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isdecimal() and len(digits) <= _DIGITS_MAX:
        value = int(text)
        if -1 <= value >> bits <= 0:
            return value
    raise ValueError(f"an integer of {bits + 1} bits")


def _parse_bool(text: str) -> bool:
    """Java writes true and false; the C++ client writes 1 and 0."""
    value = _BOOLEANS.get(text.lower())
    if value is None:
        raise ValueError("true or false")
    return value


def _write_int(value: object) -> str:
    if isinstance(value, int) and -1 <= value >> 31 <= 0:
        return f"{value:d}"
    raise ValueError("an integer of 32 bits")


def _write_long(value: object) -> str:
    if isinstance(value, int) and -1 <= value >> 63 <= 0:
        return f"{value:d}"
    raise ValueError("an integer of 64 bits")


def _write_bool(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    raise ValueError("true or false")


def _write_str(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("text")


def _codec(hint: Any) -> tuple[Callable[[str], Any] | None, Callable[[Any], str]]:
    """How a field of this type is read and written."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [choice for choice in get_args(hint) if choice is not type(None)]
    if hint == Long:
        return parse_long, _write_long
    return {
        str: (None, _write_str),
        int: (parse_int, _write_int),
        bool: (_parse_bool, _write_bool),
    }[hint]


def _missing(cls: type[Header], wire_name: str, ext: Mapping[str, str]) -> InvalidRequest:
    return InvalidRequest(
        f"{cls.__name__}: {wire_name}: expected a value, found none among {sorted(ext)!r:.200}",
        field=wire_name,
    )
