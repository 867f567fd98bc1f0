"""Pulls that say what an earlier one of their connection said, answered as soon as they come.

    bytes ──▶ a pattern of this connection? ── no ──▶ the usual way (`Channel.take`, `Pulls`)
                    │ yes: four numbers
                    ▼
                 may this group read there? wants it everything? ── no ──▶ the usual way
                    ▼
                 records that are there, sound and usual? ── no ──▶ the usual way
                    ▼
                 one write to the socket

What is left out is what makes a request wait or fail: values of its header, a place among requests
under way, room that is reserved. Nothing is decided here. What may be read is asked each time, and
whatever is not found, not usual or refused is asked once more the usual way, which parks or says
why. So the result is the same, sooner.

A connection has a few patterns (`dueline.wire.pull_pattern`), learned from pulls that have no
filter of their own but "everything". Where access control is on, they are those of signed pulls:
each signature is checked, and each time it is asked whether its user may read there. What is not
admitted goes the usual way, too, which refuses it and writes that to the audit trail. Everything
here runs in the loop's thread.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from dueline.broker.filters import EVERYTHING
from dueline.errors import BrokerError
from dueline.server.remoting.channel import Channel
from dueline.server.remoting.context import Context
from dueline.server.remoting.guard import Guard
from dueline.server.remoting.hub import Hub
from dueline.server.remoting.pull_head import SIZE_BYTES_MAX, PullHead, head_of
from dueline.server.remoting.requirements import REQUIREMENTS
from dueline.server.remoting.standing import Standing
from dueline.wire import Command, FrameDecoder
from dueline.wire.codes import RequestCode
from dueline.wire.headers import PullRequest
from dueline.wire.pull_answer import encode_found_head
from dueline.wire.pull_pattern import PREFIX_SIZE_BYTES, PullNumbers, PullPattern
from dueline.wire.signature import NAME_FIELD

__all__ = ["FAR_BEHIND", "KnownPulls"]

FAR_BEHIND: Final = 100_000
"""Messages from the end of a queue from which on a pull may have to wait for the disk."""

PATTERN_COUNT_MAX: Final = 8
"""Of one connection: topics and groups that one client has."""
PATTERN_SIZE_MAX: Final = 1_024
REQUEST_SIZE_BYTES: Final = 32 << 10
"""More than a request with so long a header takes, whatever fields it has."""
LEARN_COUNT_MAX: Final = 64
"""Pulls that are looked at in vain, or whose patterns are not needed again, before one matches."""
ANSWERS_SIZE_BYTES_MAX: Final = 256 << 10
"""Of one connection, before it is the others' turn."""
_CODES: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_MARKS: Final = tuple(b'"code":%d,' % code for code in _CODES)
_LENGTH_BITS: Final = 32
_HEADER_MASK: Final = (1 << _LENGTH_BITS) - 1


class _Known(NamedTuple):
    pattern: PullPattern
    head: PullHead
    standing: Standing | None
    """Of who signs it, where that has to be known."""


class KnownPulls:
    """The pulls of one port's connections."""

    def __init__(self, context: Context, hub: Hub, guard: Guard | None = None) -> None:
        """`guard` is asked about signed pulls; None: access control is off."""
        self._context = context
        self._hub = hub
        self._guard = guard if guard is not None and guard.is_on else None
        self._reading = context.reading
        self._progress = context.broker.progress
        self._reader = context.reading.usual_reader()

    def follow(self, channel: Channel) -> None:
        """Answer the next pulls of a connection that has pulled."""
        if channel.first_look is None:
            channel.first_look = _Patterns(self, channel)

    def has_place(self, channel: Channel) -> bool:
        """Would a request be looked at now, and have room for its answer?"""
        return channel.is_clear(SIZE_BYTES_MAX) and self._hub.has_place(channel, REQUEST_SIZE_BYTES)

    def known(
        self, channel: Channel, pattern: PullPattern, head: PullHead, command: Command
    ) -> _Known | None:
        """What to keep of a pull; None: it does not say who asks, where that has to be known."""
        if self._guard is None:
            return _Known(pattern, head, None)
        if not pattern.is_signed:
            return None
        needs = REQUIREMENTS[command.code].needs(command)
        name = command.ext[NAME_FIELD]
        return _Known(pattern, head, self._guard.standing(name, channel.source, needs))

    def answer(self, head: PullHead, numbers: PullNumbers) -> bytes | None:
        """The frame with what was found; None: nothing was done, and it has to be asked again."""
        queue_id, offset, commit_offset, opaque, _, _ = numbers
        pull = head.pull
        group, topic = pull.group, pull.topic
        if self._reading.traces.is_on:
            return None
        try:
            self._reading.check(group, topic, queue_id)
            if not head.has_filter:
                wanted = self._reading.subscribed(group, topic, head.sub_version)
                if wanted is not EVERYTHING:
                    return None
            found = self._reader.read(
                topic, queue_id, offset, pull.count_max, pull.size_bytes_max, FAR_BEHIND
            )
            if found is None:
                return None
            if head.commits:
                self._progress.commit(group, topic, queue_id, min(commit_offset, found.end))
                self._context.save_soon()
        except Exception:  # noqa: BLE001 - the usual way fails with it too, and says so
            return None
        size_bytes, next_offset, start, end = found
        first = encode_found_head(opaque, next_offset, start, end, size_bytes)
        return self._reader.behind(first, size_bytes)


class _Patterns:
    """What one connection's pulls look like, the latest first."""

    __slots__ = ("_channel", "_known", "_learn_count", "_pulls")

    def __init__(self, pulls: KnownPulls, channel: Channel) -> None:
        self._pulls = pulls
        self._channel = channel
        self._known: list[_Known] = []
        self._learn_count = LEARN_COUNT_MAX

    def take(self, data: bytes) -> bytes:
        """Answer the pulls that come first in what has come; the rest, from a frame's start on."""
        size = len(data)
        if size <= PREFIX_SIZE_BYTES or not self._pulls.has_place(self._channel):
            return data
        answers: list[bytes] = []
        at = answered_bytes = 0
        while size - at > PREFIX_SIZE_BYTES and answered_bytes < ANSWERS_SIZE_BYTES_MAX:
            lengths = int.from_bytes(data[at : at + PREFIX_SIZE_BYTES], "big")
            header_size = lengths & _HEADER_MASK
            end = at + PREFIX_SIZE_BYTES + header_size
            # A header in JSON, and no body.
            if end > size or lengths >> _LENGTH_BITS != header_size + 4:
                break
            answer = self._answer(data, at, end)
            if answer is None:
                break
            answers.append(answer)
            answered_bytes += len(answer)
            at = end
        if not answers:
            return data
        self._channel.write_now(answers[0] if len(answers) == 1 else b"".join(answers))
        return data[at:]

    def _answer(self, data: bytes, start: int, end: int) -> bytes | None:
        for place, known in enumerate(self._known):
            numbers = known.pattern.match(data, start, end)
            if numbers is not None:
                if place:
                    self._known.insert(0, self._known.pop(place))
                if self._learn_count < LEARN_COUNT_MAX:
                    self._learn_count += 1
                standing = known.standing
                if standing is not None and not standing.admits(numbers.content, numbers.signature):
                    return None
                return self._pulls.answer(known.head, numbers)
        if self._learn_count and end - start <= PATTERN_SIZE_MAX:
            self._learn(data[start:end])
        return None

    def _learn(self, frame: bytes) -> None:
        """Know the next pull that is like this one, if it is a pull."""
        if not any(mark in frame for mark in _MARKS):
            return
        self._learn_count -= 1
        try:
            (cut,) = FrameDecoder().feed(frame)
            command = Command.decode(cut)
            if command.code not in _CODES or command.flag:
                return
            head = head_of(PullRequest.decode(command.ext))
        except BrokerError:
            return  # for the usual way to say
        pattern = PullPattern.of(frame, command)
        if pattern is None or head.pull.wanted is not EVERYTHING:
            return
        known = self._pulls.known(self._channel, pattern, head, command)
        if known is not None:
            self._known.insert(0, known)
            del self._known[PATTERN_COUNT_MAX:]
