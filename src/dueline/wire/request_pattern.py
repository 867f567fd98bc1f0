"""Requests that a client makes over and over, with other values in some of their fields.

    {"code":310,"extFields":{"a":"group",…,"g":%s,…,"i":%s,…},…,"opaque":%d,…}

The bytes are those that `Command.encode` gives, at a fifth of the time: what does not vary was
written once. Only JSON. Patterns are immutable: any thread may use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Final

from dueline.wire import json_header
from dueline.wire.codes import Language, Serialization
from dueline.wire.command import Command
from dueline.wire.frame import frame_prefix

__all__ = ["RequestPattern"]


class RequestPattern:
    """A request without the values of some fields.

    >>> pattern = RequestPattern(105, {"topic": "", "ns": "x"}, ["topic"], Language.PYTHON)
    >>> plain = Command(
    ...     code=105, opaque=4, ext={"topic": "T", "ns": "x"}, language=Language.PYTHON
    ... )
    >>> pattern.encode(4, ["T"], b"") == plain.encode()
    True
    """

    __slots__ = ("_ext", "_text", "_varying", "code")

    def __init__(
        self, code: int, ext: Mapping[str, str], varying: Sequence[str], language: Language
    ) -> None:
        """`varying` are names of fields, in the order that they have in `ext`.

        Raises:
            LocalProtocolError: a code that no frame has room for.
        """
        command = Command(code=code, opaque=0, ext=ext, language=language)
        command.check()
        self.code: Final = code
        self._ext = ext
        self._varying = varying
        self._text = json_header.pattern(command, varying)

    def ext(self, values: Sequence[str]) -> dict[str, str]:
        """All fields, with these values of those that vary."""
        return {**self._ext, **dict(zip(self._varying, values, strict=True))}

    def encode(self, opaque: int, values: Sequence[str], body: bytes) -> bytes:
        """The whole frame.

        Args:
            values: text that UTF-8 can carry.

        Raises:
            LocalProtocolError: it would be too large.
        """
        header = (self._text % (*map(encode_basestring, values), opaque)).encode()
        return frame_prefix(len(header), len(body), Serialization.JSON) + header + body
