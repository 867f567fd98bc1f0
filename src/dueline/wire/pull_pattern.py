"""Pulls that differ from an earlier one in numbers alone, recognised by their bytes.

A consumer says the same with each pull, but for where it reads:

    {"code":11,"extFields":{"queueId":"3","queueOffset":"4711","topic":"orders",…},"opaque":8,…}
                                       ▔             ▔▔▔▔                                  ▔

A pattern is the text between the numbers. A frame that has this text and decimal numbers in between
says what the earlier frame said, with these numbers: the same as `Command.decode` and `PullRequest`
would find, in a tenth of the time. For that, each number's name must be there once and the header
must have no escapes; a pull for which this is not sure makes no pattern (`PullPattern.of`), and a
frame that is written in any other way does not match. Neither says that anything is wrong: it is
for the codec to read.

A signed pull has another signature each time, too. What was signed are the values of its header, so
the pattern has what stands there before, between and behind the numbers.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final, NamedTuple

from dueline.wire.codes import Serialization
from dueline.wire.command import Command
from dueline.wire.signature import NAME_FIELD, SIGNATURE_FIELD, content_of

__all__ = ["PREFIX_SIZE_BYTES", "PullNumbers", "PullPattern"]

PREFIX_SIZE_BYTES: Final = 8
_NAMES: Final = ("queueId", "queueOffset", "commitOffset")
_OPAQUE: Final = "opaque"
_FIELD: Final = {name: re.compile(rb'"%b":"([0-9]{1,18})"' % name.encode()) for name in _NAMES}
_FIELD[_OPAQUE] = re.compile(rb'"opaque":([0-9]{1,9})[,}]')
_SIGNED_FIELD: Final = {
    **_FIELD,
    SIGNATURE_FIELD: re.compile(rb'"%b":"([A-Za-z0-9+/=]+)"' % SIGNATURE_FIELD.encode()),
}
_VALUES: Final = {
    "queueId": b"([0-9]{1,9})",
    "queueOffset": b"([0-9]{1,18})",
    "commitOffset": b"([0-9]{1,18})",
    _OPAQUE: b"(0|[1-9][0-9]{0,8})",
    SIGNATURE_FIELD: b"((?s:.{28}))",
}
"""A signature's length is all that is looked at: what is none is nobody's, and asked for once more
the usual way. Offsets have 64 bits, a queue's id and `opaque` 32; `opaque` is a number of JSON."""
_GAP: Final = "\0"
"""Stands for a number in what was signed: a header without escapes has no such character."""
_new_tuple: Final[Any] = tuple.__new__
"""What a named tuple is made with, without a call of Python code."""


class PullNumbers(NamedTuple):
    """What differs between pulls of one pattern; what was signed, and the signature as it came."""

    queue_id: int
    queue_offset: int
    commit_offset: int
    opaque: int
    content: bytes = b""
    signature: bytes = b""


class PullPattern:
    """The header of a pull without its numbers."""

    __slots__ = ("_contents", "_groups", "_match")

    def __init__(
        self, text: bytes, places: tuple[int, ...], contents: tuple[bytes, ...] = ()
    ) -> None:
        """`text` is a regular expression with a group for what differs; `places` are those of a
        queue's id, its offset, the committed offset, `opaque` and perhaps the signature among
        that; `contents` stand around the numbers in what was signed."""
        self._match = re.compile(text).fullmatch
        self._groups = tuple(place + 1 for place in places)
        self._contents = contents

    @property
    def is_signed(self) -> bool:
        """Does somebody say who they are?"""
        return bool(self._contents)

    @staticmethod
    def of(frame: bytes, command: Command) -> PullPattern | None:
        """The pattern of a pull; None: this one makes none.

        Args:
            command: what the codec has read in the frame.
        """
        header = frame[PREFIX_SIZE_BYTES:]
        if command.serialization is not Serialization.JSON or command.body or b"\\" in header:
            return None
        is_signed = NAME_FIELD in command.ext
        said = {**command.ext, _OPAQUE: str(command.opaque)}
        found = []
        for place, (name, field) in enumerate((_SIGNED_FIELD if is_signed else _FIELD).items()):
            match = field.search(header)
            # Without escapes a name is written in one way only, so this is the one that counts.
            if match is None or header.count(b'"%b"' % name.encode()) != 1:
                return None
            if said.get(name) != match[1].decode():  # one of these stands where it means nothing
                return None
            found.append((*match.span(1), place, name))
        contents = _contents_of(command) if is_signed else ()
        if is_signed and len(contents) != len(_NAMES) + 1:
            return None
        found.sort()
        text, at = b"", 0
        for start, end, _, name in found:
            text += re.escape(header[at:start]) + _VALUES[name]
            at = end
        text += re.escape(header[at:])
        order = [place for _, _, place, _ in found]
        return PullPattern(text, tuple(map(order.index, range(len(order)))), contents)

    def match(self, data: bytes, start: int, end: int) -> PullNumbers | None:
        """The numbers of the frame data[start:end], if that has this pattern."""
        found = self._match(data, start + PREFIX_SIZE_BYTES, end)
        if found is None:
            return None
        content = signature = b""
        if not self._contents:
            queue_id, offset, commit_offset, opaque = found.group(*self._groups)
        else:
            queue_id, offset, commit_offset, opaque, signature = found.group(*self._groups)
            first, second, third, last = self._contents
            # By the order of their names.
            content = b"".join((first, commit_offset, second, queue_id, third, offset, last))
        numbers = int(queue_id), int(offset), int(commit_offset), int(opaque), content, signature
        made: PullNumbers = _new_tuple(PullNumbers, numbers)
        return made


def _contents_of(command: Command) -> tuple[bytes, ...]:
    """What stands around the numbers in what was signed, by the rules of signatures."""
    ext = {name: _GAP if name in _NAMES else text for name, text in command.ext.items()}
    return tuple(content_of(replace(command, ext=ext)).split(_GAP.encode()))
