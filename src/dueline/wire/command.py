"""Commands: what one frame says, request or response.

`opaque` pairs a response with its request on one connection. `flag` bit 0 marks a response, bit 1
a request that wants none. `ext` are the named string arguments (`dueline.wire.headers` gives them
types), `body` is whatever the code says. The header around them is JSON or binary (`json_header`,
`binary_header`); a response is written the way its request was.

Both directions run `check`, so whatever was decoded can be encoded again and the other way round.
Values are immutable and functions pure: any thread may use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dueline.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dueline.wire import binary_header, json_header
from dueline.wire.codes import VERSION_4_9_8, Language, Serialization
from dueline.wire.frame import Frame, frame_prefix

__all__ = ["Command", "new_command"]

RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2

NO_EXT: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One request or response.

    >>> request = Command(code=105, opaque=4, ext={"topic": "TopicT"})
    >>> request.encode()[8:].decode()[:44]
    '{"code":105,"extFields":{"topic":"TopicT"},"'
    >>> request.reply(code=17, remark="no such topic").opaque
    4
    """

    code: int
    opaque: int
    flag: int = 0
    ext: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    remark: str | None = None
    # Clients know brokers that say JAVA; an answer has no reason to be the first that does not.
    language: Language = Language.JAVA
    version: int = VERSION_4_9_8
    serialization: Serialization = Serialization.JSON

    @property
    def is_response(self) -> bool:
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & ONEWAY_FLAG != 0

    def reply(
        self,
        *,
        code: int,
        ext: Mapping[str, str] = NO_EXT,
        body: bytes = b"",
        remark: str | None = None,
    ) -> Command:
        """The response to this request: same opaque, same serialization."""
        return new_command(
            (code, Language.JAVA, VERSION_4_9_8, self.opaque, RESPONSE_FLAG, remark, ext),
            body,
            self.serialization,
        )

    @staticmethod
    def decode(frame: Frame) -> Command:
        """What a frame says.

        Raises:
            RemoteProtocolError: a header that cannot be read, or numbers outside their ranges.
        """
        if frame.serialization is Serialization.JSON:
            fields = json_header.read(frame.header)
        else:
            fields = binary_header.read(frame.header)
        command = new_command(fields, frame.body, frame.serialization)
        command.check(RemoteProtocolError)
        return command

    def encode(self) -> bytes:
        """The whole frame.

        Raises:
            LocalProtocolError: the command breaks the protocol's limits.
        """
        return self.encode_head(len(self.body)) + self.body

    def encode_head(self, body_size_bytes: int) -> bytes:
        """The frame up to its body, for a body of this size that is sent in pieces of its own.

        A pull's answer is many records; joining them first would only copy them.
        """
        self.check(LocalProtocolError)
        if self.serialization is Serialization.JSON:
            header = json_header.write(self)
        else:
            header = binary_header.write(self)
        return frame_prefix(len(header), body_size_bytes, self.serialization) + header

    def check(self, kind: type[ProtocolError] = LocalProtocolError) -> None:
        """Raise `kind` if a number does not fit where a header has room for it."""
        # Java reads all four as 32-bit integers from JSON; binary has 16 bits for two of them.
        bits = 31 if self.serialization is Serialization.JSON else 15
        if (
            -1 <= self.code >> bits <= 0
            and -1 <= self.version >> bits <= 0
            and -1 <= self.opaque >> 31 <= 0
            and -1 <= self.flag >> 31 <= 0
        ):
            return
        raise kind(
            f"header: expected code and version in {bits + 1} bits, opaque and flag in 32, found "
            f"{self.code}, {self.version}, {self.opaque}, {self.flag}",
            field="header",
        )


# Decoding a frame would spend a third of its time in the frozen dataclass's `__init__`, which
# assigns through `object.__setattr__`. The slots' own descriptors do the same at a third of that.
_new: Final = object.__new__
_set_code: Final = Command.__dict__["code"].__set__
_set_opaque: Final = Command.__dict__["opaque"].__set__
_set_flag: Final = Command.__dict__["flag"].__set__
_set_ext: Final = Command.__dict__["ext"].__set__
_set_body: Final = Command.__dict__["body"].__set__
_set_remark: Final = Command.__dict__["remark"].__set__
_set_language: Final = Command.__dict__["language"].__set__
_set_version: Final = Command.__dict__["version"].__set__
_set_serialization: Final = Command.__dict__["serialization"].__set__


def new_command(
    fields: binary_header.HeaderFields, body: bytes, serialization: Serialization
) -> Command:
    """`Command(...)` for callers that make many of them."""
    command = _new(Command)
    code, language, version, opaque, flag, remark, ext = fields
    _set_code(command, code)
    _set_opaque(command, opaque)
    _set_flag(command, flag)
    _set_ext(command, ext)
    _set_body(command, body)
    _set_remark(command, remark)
    _set_language(command, language)
    _set_version(command, version)
    _set_serialization(command, serialization)
    return command
