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
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from dueline.wire.codes import Serialization
from dueline.wire.command import Command
from dueline.wire.signature import NAME_FIELD, SIGNATURE_FIELD, content_of

__all__ = ["PREFIX_SIZE_BYTES", "PullNumbers", "PullPattern"]

PREFIX_SIZE_BYTES: Final = 8
_DIGITS_MAX: Final = 18
"""Of an offset; any such number has 64 bits."""
_SHORT_DIGITS_MAX: Final = 9
"""Of a queue's id and of `opaque`, which have 32 bits."""
_ZERO: Final = ord("0")
_NAMES: Final = ("queueId", "queueOffset", "commitOffset")
_OPAQUE: Final = "opaque"
_FIELD: Final = {name: re.compile(rb'"%b":"([0-9]{1,18})"' % name.encode()) for name in _NAMES}
_FIELD[_OPAQUE] = re.compile(rb'"opaque":([0-9]{1,9})[,}]')
_SIGNED_FIELD: Final = {
    **_FIELD,
    SIGNATURE_FIELD: re.compile(rb'"%b":"([A-Za-z0-9+/=]+)"' % SIGNATURE_FIELD.encode()),
}
_GAP: Final = "\0"
"""Stands for a number in what was signed: a header without escapes has no such character."""


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

    __slots__ = ("_contents", "_first", "_last", "_middle", "_places")

    def __init__(
        self, texts: Sequence[bytes], places: tuple[int, ...], contents: tuple[bytes, ...] = ()
    ) -> None:
        """`texts` stand before, between and behind what differs; `places` are those of a queue's
        id, its offset, the committed offset, `opaque` and perhaps the signature among that;
        `contents` stand around the numbers in what was signed."""
        self._first, *self._middle, self._last = texts
        self._places = places
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
            found.append((*match.span(1), place))
        contents = _contents_of(command) if is_signed else ()
        if is_signed and len(contents) != len(_NAMES) + 1:
            return None
        found.sort()
        starts = [0, *(end for _, end, _ in found)]
        ends = [*(start for start, _, _ in found), len(header)]
        texts = [header[start:end] for start, end in zip(starts, ends, strict=True)]
        order = [place for _, _, place in found]
        return PullPattern(
            texts, tuple(order.index(place) for place in range(len(order))), contents
        )

    def match(self, data: bytes, start: int, end: int) -> PullNumbers | None:
        """The numbers of the frame data[start:end], if that has this pattern."""
        at = start + PREFIX_SIZE_BYTES
        if not data.startswith(self._first, at, end) or not data.endswith(self._last, at, end):
            return None
        # A value ends where the next text begins: that begins with a character that none has.
        at += len(self._first)
        values = []
        for text in self._middle:
            stop = data.find(text, at, end)
            if stop < 0:
                return None
            values.append(data[at:stop])
            at = stop + len(text)
        values.append(data[at : end - len(self._last)])
        places = self._places
        queue_id, offset, commit_offset = values[places[0]], values[places[1]], values[places[2]]
        opaque = values[places[3]]
        if not self._contents:
            return _numbers(queue_id, offset, commit_offset, opaque, b"", b"")
        first, second, third, last = self._contents
        # By the order of their names.
        content = b"".join((first, commit_offset, second, queue_id, third, offset, last))
        return _numbers(queue_id, offset, commit_offset, opaque, content, values[places[4]])


def _contents_of(command: Command) -> tuple[bytes, ...]:
    """What stands around the numbers in what was signed, by the rules of signatures."""
    ext = {name: _GAP if name in _NAMES else text for name, text in command.ext.items()}
    return tuple(content_of(replace(command, ext=ext)).split(_GAP.encode()))


def _numbers(  # noqa: PLR0913 - what a pull says, for which there is no time to be named
    queue_id: bytes,
    offset: bytes,
    commit_offset: bytes,
    opaque: bytes,
    content: bytes,
    signature: bytes,
) -> PullNumbers | None:
    if (
        not (
            queue_id.isdigit() and offset.isdigit() and commit_offset.isdigit() and opaque.isdigit()
        )
        or len(queue_id) > _SHORT_DIGITS_MAX
        or len(offset) > _DIGITS_MAX
        or len(commit_offset) > _DIGITS_MAX
        or len(opaque) > _SHORT_DIGITS_MAX
        or (opaque[0] == _ZERO and len(opaque) > 1)  # no number of JSON
    ):
        return None
    return PullNumbers(
        int(queue_id), int(offset), int(commit_offset), int(opaque), content, signature
    )
