"""Sends of one turn of the loop, of all connections at once: bytes in, one write, bytes out.

    Channel.data_received ──▶ add ── no more comes ────▶ kernel: frames, rows, heads
                                                           │ understood          │ not
                                                           ▼                     ▼
                                            rows ──▶ Sending.send_rows     Channel.take, in order
                                                           │
    Channel.write ◀── kernel: answers, a slice each ◀──────┘ on disk

A kernel reads sends as producers write them (`dueline.wire.turn`). Whether messages may go where
they say is asked once for all that are alike (`Sends.head`); what the rules are, `dueline.broker`
says. Every other frame goes the way it would go without this module, and so does every frame while
the kernels are not there: with the same result, slower. A turn with few messages goes that way,
too: calling a kernel costs as much as some messages. Not so while many are under way, of which
others went as rows: what is of one kind shares a write.

Order holds on each connection. Requests are looked at one after the other, and rows go to the
writer before a message of a later request does (`Sending.keeping_order`). What bounds requests
bounds these: those under way and their bytes are counted, a connection that does not read its
answers is not read from, and a turn ends early when much has come.

**Who may send** is asked by a `TurnGuard`, where access control is on. What it does not admit goes
the other way, where it is refused. Where peers have to be known for their quotas, there are no
turns at all (`RemotingService`).

Everything here runs in the loop's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from dueline import compiled
from dueline.broker.values import RowsResult
from dueline.errors import LimitExceeded, OutcomeUnknown
from dueline.message_rows import ROW_FRAME, Head, MessageRows
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Hub
from dueline.server.remoting.send import Sends
from dueline.server.remoting.turn_guard import TurnGuard
from dueline.wire import Command
from dueline.wire.codes import RequestCode
from dueline.wire.turn import (
    FRAME_CHANNEL,
    FRAME_END,
    FRAME_FIRST_ROW,
    FRAME_HEAD,
    FRAME_IS_FAST,
    FRAME_OPAQUE,
    FRAME_ROW_COUNT,
    FRAME_SIZE_BYTES,
    FRAME_START,
    TURN_KERNELS,
    Turn,
    TurnReader,
)
from dueline.wire.turn_answers import ANSWER_KERNELS, ANSWER_WIDTH, encode_answers
from dueline.wire.turn_signatures import SIGNATURE_KERNELS

__all__ = ["Turns"]

TURN_SIZE_BYTES_MAX: Final = 4 << 20
SMALL_TURN_BYTES: Final = 4 << 10
"""A turn with less, some six messages, is done sooner without arrays."""
SEVERAL: Final = 4
"""With so many under way of late, a turn of the loop that brings something is not the last one of
those that are looked at together."""
LOOKS_MAX: Final = 16
"""However little each of them brings."""
EMPTY_LOOKS_MAX: Final = 4
"""Of these, while fewer connections have sent something than of late: those that were answered
together come back one after the other, and who comes alone takes a write of its own."""
USUAL: Final = 0.9
"""Which part of the connections of late is enough."""
DECAY: Final = 0.9
"""What is left of their number after a turn that had fewer."""
MANY_UNDER_WAY: Final = 32
"""With so many of late also a small turn is done by kernels: rows and single messages that wait for
the disk together take two writes, and two fsyncs."""
KERNELS: Final = (ANSWER_KERNELS, TURN_KERNELS, SIGNATURE_KERNELS)
"""In this order they become ready: what is read can be answered."""

_ANSWERED: Final = (FRAME_OPAQUE, FRAME_FIRST_ROW, FRAME_ROW_COUNT)
"""What the first columns of an answer are made of."""

log = logging.getLogger(__name__)


class _Share(NamedTuple):
    """Requests of one connection, one after the other."""

    channel: Channel
    start: int
    end: int
    size_bytes: int


class _Sent(NamedTuple):
    """Requests whose messages are on their way."""

    messages: MessageRows
    frames: Any
    shares: Sequence[_Share]


class Turns:
    """The sends of one port's connections."""

    def __init__(  # noqa: PLR0913 - what it stands between, and by keyword how
        self,
        hub: Hub,
        context: Context,
        sends: Sends,
        reader: TurnReader,
        *,
        guard: TurnGuard | None = None,
        size_bytes_min: int = SMALL_TURN_BYTES,
    ) -> None:
        self._hub = hub
        self._context = context
        self._sending = context.sending
        self._sends = sends
        self._reader = reader
        self.guard: Final = guard
        self._size_bytes_min = size_bytes_min
        self._pieces: dict[Channel, list[bytes]] = {}
        self._size_bytes = 0
        self._looked_bytes = self._look_count = self._empty_look_count = 0
        self._usual_count = 0.0

    @property
    def is_ready(self) -> bool:
        """Are the kernels there, those that answer what the others have read, too?"""
        return _ready() is not None

    def holds(self, channel: Channel) -> bool:
        """Has something come on this connection that is not looked at yet?"""
        return channel in self._pieces

    def add(self, channel: Channel, data: bytes) -> None:
        """Something has come on a connection; it is looked at when all others had their turn."""
        if not self._pieces:
            self._hub.loop.call_soon(self._look)
        self._pieces.setdefault(channel, []).append(data)
        self._size_bytes += len(data)
        if self._size_bytes >= TURN_SIZE_BYTES_MAX:
            self._end()

    def _look(self) -> None:
        """Begin when nothing more comes: while several are under way, more follow at once."""
        if not self._pieces:
            return  # so much had come that it was not waited for
        if self._looks_again() and self._sending.shares_fsyncs(SEVERAL):
            self._looked_bytes = self._size_bytes
            self._look_count += 1
            self._hub.loop.call_soon(self._look)
        else:
            self._end()

    def _looks_again(self) -> bool:
        """Has more come, or did more connections send something of late?"""
        if self._look_count >= LOOKS_MAX:
            return False
        if self._size_bytes != self._looked_bytes:
            return True
        self._empty_look_count += 1
        are_fewer = len(self._pieces) < self._usual_count * USUAL
        return are_fewer and self._empty_look_count <= EMPTY_LOOKS_MAX

    def _end(self) -> None:
        self._looked_bytes = self._look_count = self._empty_look_count = 0
        self._usual_count = max(float(len(self._pieces)), self._usual_count * DECAY)
        pieces, self._pieces = self._pieces, {}
        self._size_bytes = 0
        channels, gathered = [], []
        for channel, parts in pieces.items():
            whole = channel.gather(parts[0] if len(parts) == 1 else b"".join(parts))
            if whole:
                channels.append(channel)
                gathered.append(whole)
        kernels = _ready()
        if kernels is None or not channels or self._is_small(gathered):
            for channel, whole in zip(channels, gathered, strict=True):
                channel.take(whole)
            return
        turn = self._reader.read(kernels, gathered, self._context.clock.now_ms())
        walk = _Walk(self, turn, channels, gathered)
        with self._sending.keeping_order(walk.send):
            walk.run()
        walk.send()

    def _is_small(self, gathered: Sequence[bytes]) -> bool:
        size_bytes = sum(map(len, gathered))
        return size_bytes < self._size_bytes_min and not self._sending.shares_fsyncs(MANY_UNDER_WAY)

    # What a walk asks

    def head(self, turn: Turn, head: int, number: int) -> Head | None:
        """What a head means, if messages with it may go as rows; a frame that has it is given."""
        start, end = turn.frames[number, FRAME_START], turn.frames[number, FRAME_END]
        return self._sends.head(turn.key(head), turn.data[start:end])

    def begin(self, channel: Channel, count: int, size_bytes: int) -> bool:
        """Count requests; False: they are too many, and are to be told so one by one."""
        return channel.room.is_free and self._hub.begin(channel, count, size_bytes)

    def send(self, sent: _Sent) -> None:
        """Write rows; their requests are answered when they are on disk."""
        self._sending.send_rows(sent.messages, partial(self._answer, sent))

    # Answering

    def _answer(self, sent: _Sent, result: RowsResult | BaseException) -> None:
        if isinstance(result, LimitExceeded) and len(sent.frames) > 1:
            self._send_singly(sent)
        elif isinstance(result, BaseException):
            self._fail(sent, result, is_message=False)
        elif result.ordinary_error is not None or result.delayed_error is not None:
            self._answer_some(sent, result)
        else:
            self._answer_all(sent, result)

    def _send_singly(self, sent: _Sent) -> None:
        """Together they are more than may wait: as many as there is room for."""
        for part in _singly(sent):
            self.send(part)

    def _fail(self, sent: _Sent, error: BaseException, *, is_message: bool) -> None:
        for share in sent.shares:
            for frame in sent.frames[share.start : share.end].tolist():
                command = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=frame[FRAME_OPAQUE])
                request = Request(share.channel, command, frame[FRAME_SIZE_BYTES])
                request.fail(error, is_message=is_message)

    def _answer_some(self, sent: _Sent, result: RowsResult) -> None:
        """One of the logs has taken nothing: a request fails if one of its messages did."""
        start = 0
        for part in _singly(sent):
            end = start + len(part.messages)
            is_delayed = result.is_delayed[start:end]
            errors = {
                True: result.delayed_error if is_delayed.any() else None,
                False: result.ordinary_error if not is_delayed.all() else None,
            }
            first = errors.pop(bool(is_delayed[0]))
            error = first or next(iter(errors.values()))
            if error is not None:
                self._fail(part, error, is_message=True)
            else:
                self._answer_all(part, result.part(start, end))
            start = end

    def _answer_all(self, sent: _Sent, result: RowsResult) -> None:
        try:
            view, ends = self._encoded(sent, result)
        except Exception:
            log.exception("answers to %d sends could not be made", len(sent.frames))
            unknown = OutcomeUnknown("the broker failed when it answered; the messages are kept")
            self._fail(sent, unknown, is_message=False)
            return
        start, now_s = 0, self._hub.loop.time()
        for share in sent.shares:
            end = int(ends[share.end - 1])
            self._hub.finish(share.channel, share.end - share.start, share.size_bytes)
            share.channel.active_s = now_s
            share.channel.write_now(view[start:end])
            start = end

    def _encoded(self, sent: _Sent, result: RowsResult) -> tuple[memoryview, Any]:
        """All answers, and where each of them ends."""
        kernels = compiled.ready(ANSWER_KERNELS)
        frames, messages = sent.frames, sent.messages
        answers = np.empty((len(frames), ANSWER_WIDTH), dtype=np.int64)
        answers[:, :3] = frames[:, _ANSWERED]
        data, ends = encode_answers(
            kernels,
            messages,
            answers,
            positions=result.positions,
            offsets=result.offsets,
            dues=result.dues,
            store_host=result.store_host,
            broker_name=self._context.broker_name,
        )
        return memoryview(data), ends


def _ready() -> Any | None:
    """The kernels that read, if those that answer are there: they become ready one by one."""
    return compiled.ready(TURN_KERNELS) if compiled.ready(ANSWER_KERNELS) is not None else None


class _Walk:
    """One turn, request by request: rows gather until a message of another kind comes."""

    def __init__(
        self, turns: Turns, turn: Turn, channels: list[Channel], pieces: list[bytes]
    ) -> None:
        self._turns = turns
        self._turn = turn
        self._channels = channels
        self._pieces = pieces
        self._starts = [0, *accumulate(map(len, pieces))]
        self._heads: list[Head | None] = [None] * len(turn.heads)
        self._taken: list[tuple[Channel, int, int, int]] = []
        self._admitted: tuple[object, Any] | None = None
        # Lists: most connections have one frame in a turn, for which arrays take longer.
        self._ends: list[int] = turn.frames[:, FRAME_END].tolist()
        self._sizes: list[int] = turn.frames[:, FRAME_SIZE_BYTES].tolist()
        self._look_at_heads()

    def _look_at_heads(self) -> None:
        """Which frames may go as rows, as things are now."""
        turn = self._turn
        frames = turn.frames
        is_fast = frames[:, FRAME_IS_FAST] == 1
        firsts: dict[int, int] = {}
        heads = frames[:, FRAME_HEAD]
        for number in np.flatnonzero(is_fast).tolist() if len(turn.heads) else ():
            firsts.setdefault(int(heads[number]), number)
            if len(firsts) == len(turn.heads):
                break
        for head, number in firsts.items():
            self._heads[head] = self._turns.head(turn, head, number)
        passes = np.array([head is not None for head in self._heads] or [False])
        is_fast &= passes[np.where(is_fast, heads, 0)]
        guard = self._turns.guard
        if guard is not None:
            is_fast &= self._are_admitted(guard)
        self._is_fast: list[bool] = is_fast.tolist()

    def _are_admitted(self, guard: TurnGuard) -> Any:
        """Asked once for the whole turn; after a change of users nobody is: all are asked anew."""
        if self._admitted is None:
            flags = guard.admitted(self._turn, self._channels, self._heads)
            self._admitted = guard.state, flags
        state, flags = self._admitted
        return flags if state is guard.state else np.zeros_like(flags)

    def run(self) -> None:
        numbers = self._turn.frames[:, FRAME_CHANNEL]
        cuts = np.searchsorted(numbers, np.arange(len(self._channels) + 1))
        first, *stops = cuts.tolist()
        for number, (channel, stop) in enumerate(zip(self._channels, stops, strict=True)):
            self._run(channel, number, first, stop)
            first = stop

    def _run(self, channel: Channel, number: int, first: int, stop: int) -> None:
        """The frames [first, stop) of one connection, and what is left behind them."""
        piece, base = self._pieces[number], self._starts[number]
        at = 0  # in the piece
        place = first
        while place < stop:
            is_fast = self._is_fast[place]
            run_end = stop
            if (not is_fast) in self._is_fast[place:stop]:
                run_end = self._is_fast.index(not is_fast, place, stop)
            end = self._ends[run_end - 1] - base
            if not is_fast or not self._take(channel, place, run_end):
                if not channel.take(piece[at:end]):
                    at = end
                    break
                if not self._has_same_heads():
                    at = end
                    break
            at, place = end, run_end
        if at < len(piece) and (channel.is_open or channel.is_blocked):
            channel.take(piece[at:])

    def _has_same_heads(self) -> bool:
        """Would the heads pass as before, after a request that may have changed everything?"""
        before = self._is_fast
        self._look_at_heads()
        return before == self._is_fast

    def _take(self, channel: Channel, first: int, stop: int) -> bool:
        size_bytes = sum(self._sizes[first:stop])
        if not self._turns.begin(channel, stop - first, size_bytes):
            return False
        self._taken.append((channel, first, stop, size_bytes))
        return True

    def send(self) -> None:
        """Let what has gathered go to the writer."""
        taken, self._taken = self._taken, []
        if not taken:
            return
        turn = self._turn
        frames, rows = turn.frames, turn.rows
        if sum(stop - first for _, first, stop, _ in taken) < len(frames):
            numbers = np.concatenate([np.arange(first, stop) for _, first, stop, _ in taken])
            is_chosen = np.zeros(len(frames), dtype=np.bool_)
            is_chosen[numbers] = True
            rows = rows[is_chosen[rows[:, ROW_FRAME]]]
            frames = frames[numbers]
        counts = frames[:, FRAME_ROW_COUNT]
        frames[:, FRAME_FIRST_ROW] = np.cumsum(counts) - counts
        shares = []
        start = 0
        for channel, first, stop, size_bytes in taken:
            end = start + stop - first
            shares.append(_Share(channel, start, end, size_bytes))
            start = end
        messages = MessageRows(
            data=turn.data,
            texts=turn.texts,
            rows=rows,
            heads=[head or _NO_HEAD for head in self._heads],
            hosts=[channel.host for channel in self._channels],
        )
        self._turns.send(_Sent(messages, frames, shares))


_NO_HEAD: Final = Head("", 0, 0, 0, 0, False)
"""Of a head that no row has."""


def _singly(sent: _Sent) -> Sequence[_Sent]:
    """The same with one request in each."""
    parts = []
    for share in sent.shares:
        for number in range(share.start, share.end):
            frame = sent.frames[number : number + 1].copy()
            first, count = int(frame[0, FRAME_FIRST_ROW]), int(frame[0, FRAME_ROW_COUNT])
            frame[0, FRAME_FIRST_ROW] = 0
            own = _Share(share.channel, 0, 1, int(frame[0, FRAME_SIZE_BYTES]))
            parts.append(_Sent(sent.messages.part(first, first + count), frame, (own,)))
    return parts
