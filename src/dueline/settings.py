"""What a setting is: a kind of value that is read strictly and can be written again.

`dueline.config` lists the settings; this module is what they are made of. A `Kind` reads a value
from TOML (`read`) or from text (`parse`: environment and command line) and writes it as TOML
(`show`). Every value that `show` writes is read again as the same value.

    >>> DURATION.parse("1m30s", where="x")
    90000
    >>> DURATION.show(90000)
    '"90s"'
    >>> SIZE.show(1 << 30)
    '"1GiB"'
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dueline.errors import InvalidRequest
from dueline.times import parse_duration_ms

__all__ = [
    "ADDRESS",
    "COUNT",
    "DURATION",
    "FLAG",
    "MASK",
    "OPTIONAL_ADDRESS",
    "OPTIONAL_DURATION",
    "OPTIONAL_TEXT",
    "RATIO",
    "SIZE",
    "TABLE",
    "TEXT",
    "Kind",
    "Setting",
    "choice",
    "masked",
    "parse_address",
    "setting",
    "settings_of",
]

_ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:,\[\]]+):([0-9]{1,5})")
_SIZE: Final = re.compile(r"([0-9]{1,15})(B|KiB|MiB|GiB|TiB)")
_SIZE_UNITS: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_DURATION_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
_COUNT_MAX: Final = 1 << 53
_SECRET: Final = re.compile("password|passwd|passphrase|secret|token|credential|key", re.IGNORECASE)
MASK: Final = "********"
"""Shown instead of a secret; no value of a table."""

_TRUTH: Final = {"true": True, "false": False}


class _BadValue(ValueError):
    """Not a value of this kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of value. `from_text` and `check` raise ValueError if it is none."""

    expected: str
    from_text: Callable[[str], Any]
    check: Callable[[Any], Any]
    show: Callable[[Any], str]
    is_private: bool = False
    """Part of it may be a password: what was found is not repeated in an error."""

    def parse(self, text: str, *, where: str) -> Any:
        """The value that a text stands for.

        Raises:
            InvalidRequest: says where it stands, what was expected and what was found.
        """
        try:
            return self.from_text(text)
        except ValueError:
            raise self._bad(where, text) from None

    def read(self, value: Any, *, where: str) -> Any:
        """The value that a TOML value stands for; raises like `parse`."""
        try:
            return self.check(value)
        except ValueError:
            raise self._bad(where, value) from None

    def _bad(self, where: str, found: Any) -> InvalidRequest:
        shown = "something else" if self.is_private else f"{found!r:.200}"
        return InvalidRequest(f"{where}: expected {self.expected}, found {shown}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: `name` is what users write, `section` and `field` where its value is kept."""

    name: str
    section: str
    field: str
    kind: Kind
    default: Any
    text: str

    def value_in(self, config: Any) -> Any:
        owner = getattr(config, self.section) if self.section else config
        return getattr(owner, self.field)


def setting(default: Any, kind: Kind, text: str) -> Any:
    """Declare a setting as the field of a dataclass."""
    metadata = {"kind": kind, "text": text, "default": default}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(cls: type, section: str = "") -> Iterator[Setting]:
    """The settings that a dataclass declares; fields with other defaults are sections."""
    for field in dataclasses.fields(cls):
        if "kind" not in field.metadata:
            yield from settings_of(type(field.default), field.name)
            continue
        name = _public_name(field.name)
        yield Setting(
            name=f"{section}.{name}" if section else name,
            section=section,
            field=field.name,
            kind=field.metadata["kind"],
            default=field.metadata["default"],
            text=field.metadata["text"],
        )


def _public_name(field: str) -> str:
    """Users write the unit with the value, so it is not in the name.

    >>> _public_name("ahead_ms"), _public_name("window_size_bytes_max")
    ('ahead', 'window_size_max')
    """
    return field.removesuffix("_ms").replace("_max_ms", "_max").replace("_size_bytes", "_size")


# --- the kinds ------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if isinstance(value, str) and value and value.isprintable():
        return value
    raise _BadValue


def _optional_text(value: Any) -> str | None:
    return None if value == "" else _text(value)


def _duration(value: Any) -> int:
    try:
        return parse_duration_ms(_text(value))
    except InvalidRequest:
        raise _BadValue from None


def _optional_duration(value: Any) -> int | None:
    return None if value == "" else _duration(value)


def _show_duration(value_ms: int) -> str:
    for unit, unit_ms in _DURATION_UNITS:
        is_named_so = unit != "d" or value_ms >= 7 * unit_ms  # people say 72h, but 30d
        if value_ms and value_ms % unit_ms == 0 and is_named_so:
            return f'"{value_ms // unit_ms}{unit}"'
    return f'"{value_ms}ms"'


def _size(value: Any) -> int:
    match = _SIZE.fullmatch(_text(value))
    if match is None:
        raise _BadValue
    return int(match.group(1)) * _SIZE_UNITS[match.group(2)]


def _show_size(value_bytes: int) -> str:
    for unit, unit_bytes in reversed(_SIZE_UNITS.items()):
        if value_bytes and value_bytes % unit_bytes == 0:
            return f'"{value_bytes // unit_bytes}{unit}"'
    return f'"{value_bytes}B"'


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _COUNT_MAX:
        return value
    raise _BadValue


def _count_text(text: str) -> int:
    if text.isascii() and text.isdigit():
        return _count(int(text))
    raise _BadValue


def _ratio(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise _BadValue


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _BadValue


def _flag_text(text: str) -> bool:
    if text in _TRUTH:
        return _TRUTH[text]
    raise _BadValue


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 host stands in brackets and comes without them.

    >>> parse_address("[::1]:8815")
    ('::1', 8815)
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match.group(2)) > 65_535:
        raise InvalidRequest(
            f"address: expected host:port, such as 127.0.0.1:8815, found {text!r:.200}", found=text
        )
    return match.group(1).strip("[]"), int(match.group(2))


def _address(value: Any) -> str:
    try:
        parse_address(_text(value))
    except InvalidRequest:
        raise _BadValue from None
    return str(value)


def _optional_address(value: Any) -> str | None:
    return None if value == "off" else _address(value)


def _table(value: Any) -> dict[str, str]:
    if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        if MASK in value.values():
            raise _BadValue
        return dict(value)
    raise _BadValue


def _table_text(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part]
    if not all(name and equals for name, equals, _ in pairs):
        raise _BadValue
    return _table({name.strip(): value for name, _, value in pairs})


def masked(value: Any) -> Any:
    """A setting's value to be looked at: a table without the values whose names say secret.

    >>> masked({"spark.ssl.keyPassword": "x", "spark.cores.max": "2"})
    {'spark.ssl.keyPassword': '********', 'spark.cores.max': '2'}
    """
    if not isinstance(value, Mapping):
        return value
    return {name: MASK if _SECRET.search(name) else text for name, text in value.items()}


def _show_text(value: str | None) -> str:
    # TOML's basic strings are JSON's, as long as everything is printable.
    return json.dumps(value or "", ensure_ascii=False)


def _show_table(value: dict[str, str]) -> str:
    pairs = [f"{_show_text(name)} = {_show_text(each)}" for name, each in value.items()]
    return "{ " + ", ".join(pairs) + " }" if pairs else "{}"


def choice(*allowed: str) -> Kind:
    """One of some words."""

    def check(value: Any) -> str:
        if value in allowed:
            return str(value)
        raise _BadValue

    return Kind(
        expected=" or ".join(f'"{word}"' for word in allowed),
        from_text=check,
        check=check,
        show=_show_text,
    )


TEXT: Final = Kind(expected="text", from_text=_text, check=_text, show=_show_text)
OPTIONAL_TEXT: Final = Kind(
    expected='text, or "" for none', from_text=_optional_text, check=_optional_text, show=_show_text
)
DURATION: Final = Kind(
    expected='a number with a unit ms, s, m, h or d, such as "30s"',
    from_text=_duration,
    check=_duration,
    show=_show_duration,
)
OPTIONAL_DURATION: Final = Kind(
    expected=f'{DURATION.expected}, or "" for the default',
    from_text=_optional_duration,
    check=_optional_duration,
    show=lambda value: '""' if value is None else _show_duration(value),
)
SIZE: Final = Kind(
    expected='a whole number with a unit B, KiB, MiB, GiB or TiB, such as "64MiB"',
    from_text=_size,
    check=_size,
    show=_show_size,
)
COUNT: Final = Kind(
    expected="a whole number above 0", from_text=_count_text, check=_count, show=str
)
RATIO: Final = Kind(
    expected="a number from 0 to 1",
    from_text=lambda text: _ratio(float(text)),
    check=_ratio,
    show=str,
)
FLAG: Final = Kind(
    expected="true or false",
    from_text=_flag_text,
    check=_flag,
    show=lambda value: "true" if value else "false",
)
ADDRESS: Final = Kind(
    expected='host:port, such as "127.0.0.1:8815"',
    from_text=_address,
    check=_address,
    show=_show_text,
)
OPTIONAL_ADDRESS: Final = Kind(
    expected='host:port, such as "127.0.0.1:9876", or "off"',
    from_text=_optional_address,
    check=_optional_address,
    show=lambda value: _show_text(value or "off"),
)
TABLE: Final = Kind(
    expected=f'a table of texts, without the "{MASK}" that `dueline config` shows for secrets',
    from_text=_table_text,
    check=_table,
    show=_show_table,
    is_private=True,
)
