"""Pulls: read a queue, or wait until there is something to read.

A pull that finds nothing is *parked* for as long as it allows (15 to 20 seconds with the usual
clients), and run again when its queue grows: by a send, or by the gate when a delayed message is
due. A parked pull whose filter does not want what came stays parked and remembers how far it has
looked.

Reading is a copy out of mapped files and takes microseconds near the end of a queue. Far behind it
the disk may have to be asked: such pulls run in a thread and stop nobody else, unless what they
read is in memory.

The pulls of one consumer differ in their offsets alone. What the rest of a header says is decoded
once and then remembered (`PullHead`); who may read what is asked each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from dueline.broker.filters import EVERYTHING
from dueline.broker.reading import Pull
from dueline.broker.values import ReadResult, ReadStatus
from dueline.broker.watches import Watch
from dueline.errors import LimitExceeded
from dueline.server.remoting.answers import Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub
from dueline.server.remoting.known_pulls import FAR_BEHIND, KnownPulls
from dueline.server.remoting.pull_head import SIZE_BYTES_MAX, PullHead, head_of
from dueline.server.shares import Share
from dueline.wire.codes import RequestCode, ResponseCode, Serialization
from dueline.wire.header import parse_long
from dueline.wire.headers import PullRequest, PullResponse
from dueline.wire.pull_answer import FOUND_REMARK, encode_found_head

__all__ = ["Pulls"]

HEAD_COUNT_MAX: Final = 10_000
HEAD_SIZE_MAX: Final = 1_024
"""Characters of a header that is remembered. One with a condition is not: what a condition becomes
may be large, and has a bound of its own in `filter_of`."""

_CODES: Final[Mapping[ReadStatus, tuple[ResponseCode, str]]] = {
    ReadStatus.FOUND: (ResponseCode.SUCCESS, FOUND_REMARK),
    ReadStatus.NO_MATCH: (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"),
    ReadStatus.AT_END: (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
    ReadStatus.BEFORE_START: (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL"),
    ReadStatus.BEYOND_END: (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY"),
}


class Pulls:
    """Handlers of 11 and 361."""

    def __init__(self, context: Context, hub: Hub, known: KnownPulls | None = None) -> None:
        """`known` answers what it knows of connections that have pulled."""
        self._context = context
        self._hub = hub
        self._known = known
        self._check = context.reading.check
        self._heads: dict[tuple[str | None, ...], PullHead] = {}

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.LITE_PULL_MESSAGE: self.pull,
        }

    def pull(self, request: Request) -> None:
        known, offset, commit_offset = self._read(request.command.ext)
        if self._known is not None and known.pull.wanted is EVERYTHING:
            self._known.follow(request.channel)
        wanted = known.pull.wanted
        if not known.has_filter:
            wanted = self._context.reading.subscribed(
                known.pull.group, known.pull.topic, known.sub_version
            )
        pull = known.pull if wanted is known.pull.wanted else replace(known.pull, wanted=wanted)
        reading = self._context.reading
        _, end = reading.offset_range(pull.topic, pull.queue_id)
        if known.commits and commit_offset >= 0:
            # Beyond the end: of messages that are gone. The pull's answer sets the client right.
            self._context.broker.progress.commit(
                pull.group, pull.topic, pull.queue_id, min(commit_offset, end)
            )
            self._context.save_soon()
        waiting = _Pull(self._context, request, pull, offset, known.suspend_ms)
        if end - offset > FAR_BEHIND and not reading.is_at_hand(pull, offset):
            self._hub.in_thread(request, waiting.read_once)
        else:
            waiting.start()

    def _read(self, ext: Mapping[str, str]) -> tuple[PullHead, int, int]:
        """What a pull's header says, with its two offsets; who and what it names may be read."""
        get = ext.get
        key = (
            *(get("consumerGroup"), get("topic"), get("queueId"), get("maxMsgNums")),
            *(get("sysFlag"), get("suspendTimeoutMillis"), get("subVersion")),
            *(get("subscription"), get("expressionType"), get("maxMsgBytes")),
        )
        head = self._heads.get(key)
        if head is None:
            header = PullRequest.decode(ext)
            self._check(header.consumer_group, header.topic, header.queue_id)
            head = head_of(header)
            is_small = sum(len(part) for part in key if part is not None) <= HEAD_SIZE_MAX
            if is_small and not head.pull.wanted.needs_properties:
                if len(self._heads) >= HEAD_COUNT_MAX:
                    self._heads.clear()
                self._heads[key] = head
            return head, header.queue_offset, header.commit_offset
        try:
            offset, commit_offset = parse_long(ext["queueOffset"]), parse_long(ext["commitOffset"])
        except (KeyError, ValueError):
            PullRequest.decode(ext)  # says what is wrong
            raise
        pull = head.pull
        self._check(pull.group, pull.topic, pull.queue_id)
        return head, offset, commit_offset


class _Pull:
    """One pull, from its request to its answer."""

    __slots__ = (
        "_context",
        "_deadline_s",
        "_is_answered",
        "_is_waiting",
        "_offset",
        "_pull",
        "_request",
        "_share",
        "_timer",
        "_watch",
    )

    def __init__(
        self, context: Context, request: Request, pull: Pull, offset: int, suspend_ms: int
    ) -> None:
        self._context = context
        self._request = request
        self._pull = pull
        self._offset = offset
        self._watch: Watch | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_answered = False
        self._is_waiting = False
        self._share: Share | None = None
        self._deadline_s = context.loop.time() + suspend_ms / 1_000 if suspend_ms > 0 else 0.0

    def start(self) -> None:
        """Answer, or wait and answer then."""
        if self._request.reserve(SIZE_BYTES_MAX):
            try:
                result = self._run()
            except LimitExceeded:
                self._finish()
                raise
            if result is not None:
                self._answer(result)
            return
        self._wait_for_room()
        self._request.channel.on_close.add(self._gone)

    def _wait_for_room(self) -> None:
        self._is_waiting = True
        self._request.channel.room.wait(self._has_room)

    def _has_room(self) -> None:
        self._is_waiting = False
        self._again()

    def _run(self) -> ReadResult | None:
        """What it reads; None: it waits."""
        is_patient = self._deadline_s > 0 and self._deadline_s > self._context.loop.time()
        wake = self._wake if is_patient else None
        pulled = self._context.reading.pull(self._pull, self._offset, wake)
        if pulled.watch is None:
            return pulled.result
        self._watch = pulled.watch
        self._offset = pulled.result.next_offset
        self._request.release()
        self._park()
        return None

    def read_once(self) -> Response:
        """The answer of a pull that is far behind; runs in any thread."""
        return _response(self._context.reading.pull(self._pull, self._offset).result)

    def _answer(self, result: ReadResult) -> None:
        command = self._request.command
        size_bytes = sum(map(len, result.chunks))
        if 0 < size_bytes <= SIZE_BYTES_MAX and command.serialization is Serialization.JSON:
            head = encode_found_head(
                command.opaque, result.next_offset, result.start, result.end, size_bytes
            )
            self._request.answer_frame(head, *result.chunks)
        else:
            self._request.answer(_response(result))

    # Waiting

    def _park(self) -> None:
        if self._timer is None:
            self._share = self._request.channel.wait(self._give_up)
            self._timer = self._context.loop.call_at(self._deadline_s, self._again)
            self._request.channel.on_close.add(self._gone)

    def _wake(self) -> None:
        """The queue has grown; any thread, under the store's lock."""
        self._context.outbox.post(self._again)

    def _again(self) -> None:
        """Look again: woken, or out of time."""
        if self._is_answered or self._is_waiting:
            return
        if not self._request.reserve(SIZE_BYTES_MAX):
            self._wait_for_room()
            return
        self._forget_watch()
        try:
            result = self._run()
        except Exception as error:  # noqa: BLE001 - the boundary of a request that was parked
            self._finish()
            self._request.fail(error)
            return
        if result is not None:
            self._finish()
            self._answer(result)

    def _give_up(self) -> None:
        """Another client needs the place: the time is over."""
        self._deadline_s = 0.0
        self._again()

    def _gone(self) -> None:
        """The peer has gone, and nobody wants the answer."""
        self._finish()
        self._request.answer(Response())

    def _finish(self) -> None:
        self._is_answered = True
        self._forget_watch()
        if self._share is not None:
            self._share.leave()
        if self._timer is not None:
            self._timer.cancel()
        self._request.channel.on_close.discard(self._gone)

    def _forget_watch(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


def _response(result: ReadResult) -> Response:
    code, remark = _CODES[result.status]
    response = PullResponse(
        suggest_which_broker_id=0,
        next_begin_offset=result.next_offset,
        min_offset=result.start,
        max_offset=result.end,
    )
    return Response(code=code, ext=response.encode(), remark=remark, chunks=tuple(result.chunks))
