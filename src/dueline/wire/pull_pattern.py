"""Pulls that differ from an earlier one in four numbers alone, recognised by their bytes.

A consumer says the same with each pull, but for where it reads:

    {"code":11,"extFields":{"queueId":"3","queueOffset":"4711","topic":"orders",…},"opaque":8,…}
                                       ▔             ▔▔▔▔                                  ▔

A pattern is the text between the numbers. A frame that has this text and decimal numbers in between
says what the earlier frame said, with these numbers: the same as `Command.decode` and `PullRequest`
would find, in a tenth of the time. For that, each number's name must be there once and the header
must have no escapes; a pull for which this is not sure makes no pattern (`PullPattern.of`), and a
frame that is written in any other way does not match. Neither says that anything is wrong: it is
for the codec to read.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from dueline.wire.codes import Serialization
from dueline.wire.command import Command

__all__ = ["PREFIX_SIZE_BYTES", "PullNumbers", "PullPattern"]

PREFIX_SIZE_BYTES: Final = 8
_DIGITS_MAX: Final = 18
"""Of an offset; any such number has 64 bits."""
_SHORT_DIGITS_MAX: Final = 9
"""Of a queue's id and of `opaque`, which have 32 bits."""
_ZERO: Final = ord("0")
_NAMES: Final = (b"queueId", b"queueOffset", b"commitOffset")
_OPAQUE: Final = b"opaque"
_FIELD: Final = {name: re.compile(rb'"%b":"([0-9]{1,18})"' % name) for name in _NAMES}
_FIELD[_OPAQUE] = re.compile(rb'"opaque":([0-9]{1,9})[,}]')


class PullNumbers(NamedTuple):
    """What pulls with one pattern say differently."""

    queue_id: int
    queue_offset: int
    commit_offset: int
    opaque: int


class PullPattern:
    """The header of a pull without its numbers."""

    __slots__ = ("_places", "_texts")

    def __init__(self, texts: tuple[bytes, ...], places: tuple[int, ...]) -> None:
        """`texts` stand before, between and behind the numbers; `places` are those of a queue's
        id, its offset, the committed offset and `opaque` among the numbers."""
        self._texts = texts
        self._places = places

    @staticmethod
    def of(frame: bytes, command: Command) -> PullPattern | None:
        """The pattern of a pull; None: this one makes none.

        Args:
            command: what the codec has read in the frame.
        """
        header = frame[PREFIX_SIZE_BYTES:]
        if command.serialization is not Serialization.JSON or command.body or b"\\" in header:
            return None
        said = {name.encode(): text for name, text in command.ext.items()}
        said[_OPAQUE] = str(command.opaque)
        found = []
        for place, (name, field) in enumerate(_FIELD.items()):
            match = field.search(header)
            # Without escapes a name is written in one way only, so this is the one that counts.
            if match is None or header.count(b'"%b"' % name) != 1:
                return None
            if said.get(name) != match[1].decode():  # one of these stands where it means nothing
                return None
            found.append((*match.span(1), place))
        found.sort()
        starts = [0, *(end for _, end, _ in found)]
        ends = [*(start for start, _, _ in found), len(header)]
        texts = tuple(header[start:end] for start, end in zip(starts, ends, strict=True))
        order = [place for _, _, place in found]
        return PullPattern(texts, tuple(order.index(place) for place in range(len(order))))

    def match(self, data: bytes, start: int, end: int) -> PullNumbers | None:
        """The numbers of the frame data[start:end], if that has this pattern."""
        first, second, third, fourth, last = self._texts
        at = start + PREFIX_SIZE_BYTES
        if not data.startswith(first, at, end) or not data.endswith(last, at, end):
            return None
        # A number ends where the next text begins: that begins with a character that is no digit.
        at += len(first)
        stop = data.find(second, at, end)
        if stop < 0:
            return None
        one = data[at:stop]
        at = stop + len(second)
        stop = data.find(third, at, end)
        if stop < 0:
            return None
        two = data[at:stop]
        at = stop + len(third)
        stop = data.find(fourth, at, end)
        if stop < 0:
            return None
        three = data[at:stop]
        texts = (one, two, three, data[stop + len(fourth) : end - len(last)])
        queue_id, offset, commit_offset, opaque = self._places
        return _numbers(texts[queue_id], texts[offset], texts[commit_offset], texts[opaque])


def _numbers(
    queue_id: bytes, offset: bytes, commit_offset: bytes, opaque: bytes
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
    return PullNumbers(int(queue_id), int(offset), int(commit_offset), int(opaque))
