"""Pulls: read a queue, or wait until there is something to read.

A pull that finds nothing is *parked* for as long as it allows (15 to 20 seconds with the usual
clients), and run again when its queue grows: by a send, or by the gate when a delayed message is
due. A parked pull whose filter does not want what came stays parked and remembers how far it has
looked.

Reading is a copy out of mapped files and takes microseconds near the end of a queue. Far behind it
the disk may have to be asked, so such pulls run in a thread and stop nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from dueline.broker.filters import Filter, filter_of
from dueline.broker.reading import Pull
from dueline.broker.values import ReadResult, ReadStatus
from dueline.broker.watches import Watch
from dueline.errors import LimitExceeded
from dueline.server.remoting.answers import Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub
from dueline.server.shares import Share
from dueline.wire.codes import PullFlag, RequestCode, ResponseCode
from dueline.wire.headers import PullRequest, PullResponse

__all__ = ["Pulls"]

COUNT_MAX: Final = 1_024
SIZE_BYTES_MAX: Final = 1 << 20
SUSPEND_MS_MAX: Final = 60_000
FAR_BEHIND: Final = 100_000
"""Messages from the end of a queue from which on a pull runs in a thread."""

_CODES: Final[Mapping[ReadStatus, tuple[ResponseCode, str]]] = {
    ReadStatus.FOUND: (ResponseCode.SUCCESS, "FOUND"),
    ReadStatus.NO_MATCH: (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"),
    ReadStatus.AT_END: (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
    ReadStatus.BEFORE_START: (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL"),
    ReadStatus.BEYOND_END: (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY"),
}


class Pulls:
    """Handlers of 11 and 361."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._hub = hub

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.LITE_PULL_MESSAGE: self.pull,
        }

    def pull(self, request: Request) -> Response | None:
        header = PullRequest.decode(request.command.ext)
        reading = self._context.reading
        reading.check(header.consumer_group, header.topic, header.queue_id)
        wanted = self._filter(header)
        _, end = reading.offset_range(header.topic, header.queue_id)
        if header.sys_flag & PullFlag.COMMIT_OFFSET and header.commit_offset >= 0:
            # Beyond the end: of messages that are gone. The pull's answer sets the client right.
            offset = min(header.commit_offset, end)
            self._context.broker.progress.commit(
                header.consumer_group, header.topic, header.queue_id, offset
            )
            self._context.save_soon()
        pull = _Pull(self._context, request, header, wanted)
        if end - header.queue_offset > FAR_BEHIND:
            self._hub.in_thread(request, pull.read_once)
            return None
        return pull.start()

    def _filter(self, header: PullRequest) -> Filter:
        """By what the request says, or else by what the group's heartbeats said."""
        if header.sys_flag & PullFlag.SUBSCRIPTION:
            return filter_of(header.subscription or "*", header.expression_type or "TAG")
        return self._context.reading.subscribed(
            header.consumer_group, header.topic, header.sub_version
        )


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
        self, context: Context, request: Request, header: PullRequest, wanted: Filter
    ) -> None:
        self._context = context
        self._request = request
        self._pull = Pull(
            topic=header.topic,
            queue_id=header.queue_id,
            wanted=wanted,
            count_max=max(1, min(header.max_msg_nums, COUNT_MAX)),
            size_bytes_max=max(1, min(header.max_msg_bytes or SIZE_BYTES_MAX, SIZE_BYTES_MAX)),
        )
        self._offset = header.queue_offset
        self._watch: Watch | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_answered = False
        self._is_waiting = False
        self._share: Share | None = None
        suspend_ms = (
            min(header.suspend_timeout_millis, SUSPEND_MS_MAX)
            if header.sys_flag & PullFlag.SUSPEND
            else 0
        )
        self._deadline_s = context.loop.time() + suspend_ms / 1_000

    def start(self) -> Response | None:
        """The answer, or None: the pull waits and will answer by itself."""
        if self._request.reserve(SIZE_BYTES_MAX):
            try:
                return self._run()
            except LimitExceeded:
                self._finish()
                raise
        self._wait_for_room()
        self._request.channel.on_close.add(self._gone)
        return None

    def _wait_for_room(self) -> None:
        self._is_waiting = True
        self._request.channel.room.wait(self._has_room)

    def _has_room(self) -> None:
        self._is_waiting = False
        self._again()

    def _run(self) -> Response | None:
        is_patient = self._deadline_s > self._context.loop.time()
        wake = self._wake if is_patient else None
        pulled = self._context.reading.pull(self._pull, self._offset, wake)
        if pulled.watch is None:
            return self._answer(pulled.result)
        self._watch = pulled.watch
        self._offset = pulled.result.next_offset
        self._request.release()
        self._park()
        return None

    def read_once(self) -> Response:
        """The answer of a pull that is far behind; runs in any thread."""
        return self._answer(self._context.reading.pull(self._pull, self._offset).result)

    def _answer(self, result: ReadResult) -> Response:
        code, remark = _CODES[result.status]
        response = PullResponse(
            suggest_which_broker_id=0,
            next_begin_offset=result.next_offset,
            min_offset=result.start,
            max_offset=result.end,
        )
        return Response(
            code=code, ext=response.encode(), remark=remark, chunks=tuple(result.records)
        )

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
            answer = self._run()
        except Exception as error:  # noqa: BLE001 - the boundary of a request that was parked
            self._finish()
            self._request.fail(error)
            return
        if answer is not None:
            self._finish()
            self._request.answer(answer)

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
