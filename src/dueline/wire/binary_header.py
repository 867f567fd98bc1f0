"""Binary headers of commands, the serialization that RocketMQ calls ROCKETMQ.

    ┌──────┬──────────┬─────────┬────────┬──────┬──────┬────────┬──────┬──────┐
    │ code │ language │ version │ opaque │ flag │ size │ remark │ size │ ext  │
    │  2   │    1     │    2    │   4    │  4   │  4   │ size   │  4   │ size │
    └──────┴──────────┴─────────┴────────┴──────┴──────┴────────┴──────┴──────┘
    ext = ( 2 bytes size, name, 4 bytes size, value )*

Big-endian, UTF-8. A size of 0 is an absent remark or an empty ext. A code has 16 bits here: the
pop family (2000xx) needs JSON headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

from dueline.errors import LocalProtocolError, RemoteProtocolError
from dueline.wire.codes import Language

if TYPE_CHECKING:
    from dueline.wire.command import Command

__all__ = ["HeaderFields", "read", "write"]

# code, language, version, opaque, flag, remark, ext: what a header of either kind says, in this
# order. A plain tuple, because making a named one costs a third of what it takes to read the
# header.
HeaderFields: TypeAlias = tuple[int, Language, int, int, int, str | None, Mapping[str, str]]

_START: Final = Struct(">hBhiii")
_NAME_SIZE: Final = Struct(">H")
_VALUE_SIZE: Final = Struct(">I")
_NAME_SIZE_BYTES_MAX: Final = 0x7FFF
_FIELD_COUNT_MAX: Final = 1_024
_LANGUAGES: Final = tuple(Language)
_int: Final = int.from_bytes


def read(header: bytes) -> HeaderFields:
    """The fields of a binary header.

    Raises:
        RemoteProtocolError: sizes that do not add up, or text that is not UTF-8.
    """
    if len(header) < _START.size + 4:
        raise _broken(f"expected at least {_START.size + 4} bytes, found {len(header)}")
    code, language, version, opaque, flag, remark_size = _START.unpack_from(header)
    remark_end = _START.size + remark_size
    ext_start = remark_end + 4
    if remark_size < 0 or ext_start > len(header):
        raise _broken(f"remark of {remark_size} bytes does not fit into {len(header)}")
    ext_size = _int(header[remark_end:ext_start], "big")
    if ext_start + ext_size != len(header):
        raise _broken(f"expected ext of {len(header) - ext_start} bytes, found {ext_size}")
    try:
        remark = header[_START.size : remark_end].decode() if remark_size else None
        ext = _read_ext(header, ext_start) if ext_size else {}
    except UnicodeDecodeError as error:
        raise _broken(f"expected UTF-8, found {error.object[error.start : error.end]!r}") from error
    known = _LANGUAGES[language] if language < len(_LANGUAGES) else Language.OTHER
    return code, known, version, opaque, flag, remark, ext


def write(command: Command) -> bytes:
    """The command's header in binary.

    Raises:
        LocalProtocolError: numbers that do not fit, or text that UTF-8 cannot carry.
    """
    try:
        remark = command.remark.encode() if command.remark else b""
        ext = _write_ext(command.ext) if command.ext else b""
        start = _START.pack(
            command.code,
            command.language,
            command.version,
            command.opaque,
            command.flag,
            len(remark),
        )
    except (AttributeError, UnicodeEncodeError) as error:
        raise LocalProtocolError(f"binary header: {error}", field="header") from error
    return b"".join((start, remark, _VALUE_SIZE.pack(len(ext)), ext))


def _read_ext(header: bytes, position: int) -> dict[str, str]:
    ext = {}
    end = len(header)
    while position < end:
        name_start = position + 2
        name_end = name_start + _int(header[position:name_start], "big")
        value_start = name_end + 4
        value_end = value_start + _int(header[name_end:value_start], "big")
        # Slices end silently at the end of the bytes; only the last end tells whether all was
        # there.
        if value_end > end or value_start > end:
            raise _broken(
                f"ext field at byte {position}: expected an end by {end}, found {value_end}"
            )
        ext[header[name_start:name_end].decode()] = header[value_start:value_end].decode()
        position = value_end
        if len(ext) > _FIELD_COUNT_MAX:
            raise _broken(f"expected at most {_FIELD_COUNT_MAX} ext fields, found more")
    return ext


def _write_ext(ext: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    for name, value in ext.items():
        name_bytes = name.encode()
        value_bytes = value.encode()
        if len(name_bytes) > _NAME_SIZE_BYTES_MAX:
            raise LocalProtocolError(
                f"ext field name: expected at most {_NAME_SIZE_BYTES_MAX} bytes, "
                f"found {len(name_bytes)}",
                field="ext",
                limit=_NAME_SIZE_BYTES_MAX,
            )
        parts += (
            _NAME_SIZE.pack(len(name_bytes)),
            name_bytes,
            _VALUE_SIZE.pack(len(value_bytes)),
            value_bytes,
        )
    return b"".join(parts)


def _broken(message: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"binary header: {message}", field="header")
