"""JSON headers of commands: one object, its keys in any order, absent the same as null.

    {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":4,
     "serializeTypeCurrentRPC":"JSON","version":409}

Reading is as liberal as Java's broker: unknown keys, a missing language, version or flag, and
numbers or booleans as ext values are taken. Writing is strict: Go's client reads every ext value
as a string. The result of `read` always can be written again; half a surrogate pair, which JSON
can escape but UTF-8 cannot carry, is refused.

This is the hot path: headers as clients write them are read by a typed decoder (3 instead of 6
µs), and by the liberal reader only if that one refuses them. `write` fills in a pattern, with the
standard library's C function for the strings, instead of walking a dictionary (1.5 instead of 4.7
µs).
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dueline.errors import LocalProtocolError, RemoteProtocolError
from dueline.wire.binary_header import HeaderFields
from dueline.wire.codes import Language

if TYPE_CHECKING:
    from dueline.wire.command import Command

__all__ = ["pattern", "read", "write"]

_read_value: Final = json.JSONDecoder().raw_decode
_BLANKS: Final = " \t\r\n"
_LANGUAGE_BY_NAME: Final = {language.name: language for language in Language}
_NAME_BY_LANGUAGE: Final = {language: language.name for language in Language}


class _Header(msgspec.Struct, gc=False):
    """A header as clients write it."""

    code: int
    opaque: int
    language: str = ""
    version: int = 0
    flag: int = 0
    remark: str | None = None
    extFields: dict[str, str] | None = None


_read_usual: Final = msgspec.json.Decoder(_Header).decode


def read(header: bytes) -> HeaderFields:
    """The fields of a JSON header; whether their numbers are in range is for the caller to check.

    Raises:
        RemoteProtocolError: not JSON, not an object, or a field of another type.
    """
    try:
        usual = _read_usual(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_liberally(header)
    return (
        usual.code,
        _LANGUAGE_BY_NAME.get(usual.language, Language.OTHER),
        usual.version,
        usual.opaque,
        usual.flag,
        usual.remark,
        usual.extFields or {},
    )


def _read_liberally(header: bytes) -> HeaderFields:
    try:
        text = str(header, "utf-8").strip(_BLANKS)
        fields, end = _read_value(text)
    except (ValueError, RecursionError) as error:
        raise _not_an_object(header) from error
    if type(fields) is not dict or end != len(text):
        raise _not_an_object(header)
    get = fields.get
    ext, remark = get("extFields"), get("remark")
    return (
        _integer(fields, "code"),
        _LANGUAGE_BY_NAME.get(name, Language.OTHER)
        if type(name := get("language")) is str
        else Language.OTHER,
        _integer(fields, "version", 0),
        _integer(fields, "opaque"),
        _integer(fields, "flag", 0),
        None if remark is None else _remark(remark),
        {} if ext is None else _strings(ext),
    )


def write(command: Command) -> bytes:
    """The command's header as JSON: compact, all of `ext` as strings.

    Raises:
        LocalProtocolError: text that UTF-8 cannot carry, or something that is not text.
    """
    ext = command.ext
    try:
        pairs = ",".join([f"{encode_basestring(k)}:{encode_basestring(v)}" for k, v in ext.items()])
        remark = "" if command.remark is None else f'"remark":{encode_basestring(command.remark)},'
        return _text(command, pairs, command.opaque, remark).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise LocalProtocolError(
            f"ext fields and remark: expected text, found {ext!r:.200} and {command.remark!r:.80}",
            field="ext",
        ) from error


def pattern(command: Command, varying: Container[str]) -> str:
    """What `write` gives for such commands without a remark, to be filled in with `%`.

    Args:
        varying: names of fields whose values are filled in, as texts of JSON in the order of the
            fields; `opaque` comes last.
    """
    pairs = [
        f"{_constant(k)}:{'%s' if k in varying else _constant(v)}" for k, v in command.ext.items()
    ]
    return _text(command, ",".join(pairs), "%d", "")


def _constant(text: str) -> str:
    return encode_basestring(text).replace("%", "%%")


def _text(command: Command, pairs: str, opaque: int | str, remark: str) -> str:
    return (
        f'{{"code":{command.code},"extFields":{{{pairs}}},"flag":{command.flag},'
        f'"language":"{_NAME_BY_LANGUAGE[command.language]}","opaque":{opaque},{remark}'
        f'"serializeTypeCurrentRPC":"JSON","version":{command.version}}}'
    )


def _integer(fields: dict[str, Any], name: str, default: int | None = None) -> int:
    value = fields.get(name, default)
    # The exact type: a boolean is an integer too in Python, but not in JSON.
    if type(value) is int:
        return value
    raise RemoteProtocolError(
        f"JSON header: {name}: expected an integer, found {value!r:.80}", field=name, found=value
    )


def _strings(ext: object) -> Mapping[str, str]:
    if type(ext) is not dict:
        raise RemoteProtocolError(
            f"JSON header: extFields: expected an object, found {ext!r:.80}", field="extFields"
        )
    try:
        # One join tells in C whether all are strings, and its encoding whether all are whole.
        "".join([*ext, *ext.values()]).encode()
    except TypeError:
        return _strings({k: _string(k, v) for k, v in ext.items() if v is not None})
    except UnicodeEncodeError as error:
        raise _half_a_character("extFields") from error
    return ext


def _string(name: str, value: object) -> str:
    """An ext value that came as another JSON type, as Java's `toString` would give it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise RemoteProtocolError(
        f"JSON header: extFields: {name}: expected a string, found {value!r:.80}", field=name
    )


def _remark(remark: object) -> str:
    if not isinstance(remark, str):
        raise RemoteProtocolError(
            f"JSON header: remark: expected a string, found {remark!r:.80}", field="remark"
        )
    try:
        remark.encode()
    except UnicodeEncodeError as error:
        raise _half_a_character("remark") from error
    return remark


def _half_a_character(name: str) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"JSON header: {name}: expected whole characters, found half of a surrogate pair",
        field=name,
    )


def _not_an_object(header: bytes) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"JSON header: expected one object in UTF-8, found {header[:80]!r}", field="header"
    )
