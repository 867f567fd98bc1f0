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
from dueline.broker.group_configs import check_may_consume
from dueline.broker.topics import check_readable
from dueline.broker.watches import Watch
from dueline.errors import InvalidRequest, LimitExceeded
from dueline.message import decode_properties
from dueline.server.remoting.answers import Answer, Refused
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub
from dueline.server.shares import Share
from dueline.store import ReadResult, ReadStatus
from dueline.store import record as records
from dueline.wire.codes import PullFlag, RequestCode, ResponseCode
from dueline.wire.headers import PullRequest, PullResponse

__all__ = ["Pulls"]

COUNT_MAX: Final = 1_024
SIZE_BYTES_MAX: Final = 1 << 20
SUSPEND_MS_MAX: Final = 60_000
WORK_MAX: Final = 20_000
"""Words of an SQL92 condition, and pieces of properties, that one pull looks at: some ms."""
_PIECE_SIZE: Final = 8
SCAN_COUNT_MAX: Final = 64
"""Reads without a match before the client is asked to pull again."""
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

    def pull(self, request: Request) -> Answer | None:
        header = PullRequest.decode(request.command.ext)
        self._check(header)
        wanted = self._filter(header)
        if header.sys_flag & PullFlag.COMMIT_OFFSET and header.commit_offset >= 0:
            self._context.broker.offsets.set(
                header.consumer_group, header.topic, {header.queue_id: header.commit_offset}
            )
        pull = _Pull(self._context, request, header, wanted)
        _, end = self._context.store.offset_range(header.topic, header.queue_id)
        if end - header.queue_offset > FAR_BEHIND:
            self._hub.in_thread(request, pull.read_once)
            return None
        return pull.start()

    def _check(self, header: PullRequest) -> None:
        group = self._context.broker.group_table.find(header.consumer_group)
        check_may_consume(group)
        check_readable(self._context.topics.find(header.topic), header.queue_id)

    def _filter(self, header: PullRequest) -> Filter:
        """By what the request says, or else by what the group's heartbeats said."""
        if header.sys_flag & PullFlag.SUBSCRIPTION:
            return filter_of(header.subscription or "*", header.expression_type or "TAG")
        group = self._context.groups.get(header.consumer_group)
        if group is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"consumer group {header.consumer_group}: expected a client with a heartbeat, "
                "found none",
            )
        if group.consumption.message_model == "BROADCASTING":
            config = self._context.broker.group_table.find(header.consumer_group)
            if not config.consume_broadcast_enable:
                raise Refused(
                    ResponseCode.NO_PERMISSION,
                    f"consumer group {header.consumer_group} may not consume broadcasts",
                )
        subscription = group.subscriptions.get(header.topic)
        if subscription is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"consumer group {header.consumer_group} does not subscribe to {header.topic}",
            )
        if subscription.version < header.sub_version:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"consumer group {header.consumer_group}: its newest subscription to "
                f"{header.topic} has not arrived yet",
            )
        try:
            return filter_of(subscription.expression, subscription.kind)
        except InvalidRequest as error:
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, error.message) from error


class _Pull:
    """One pull, from its request to its answer."""

    __slots__ = (
        "_context",
        "_deadline_s",
        "_filter",
        "_header",
        "_is_answered",
        "_is_waiting",
        "_offset",
        "_request",
        "_share",
        "_timer",
        "_watch",
        "_work",
    )

    def __init__(
        self, context: Context, request: Request, header: PullRequest, wanted: Filter
    ) -> None:
        self._context = context
        self._request = request
        self._header = header
        self._filter = wanted
        self._offset = header.queue_offset
        self._watch: Watch | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_answered = False
        self._is_waiting = False
        self._work = 0
        self._share: Share | None = None
        suspend_ms = (
            min(header.suspend_timeout_millis, SUSPEND_MS_MAX)
            if header.sys_flag & PullFlag.SUSPEND
            else 0
        )
        self._deadline_s = context.loop.time() + suspend_ms / 1_000

    def start(self) -> Answer | None:
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

    def _run(self) -> Answer | None:
        self._work = 0
        is_patient = self._deadline_s > self._context.loop.time()
        for _ in range(SCAN_COUNT_MAX):
            result = self._read(is_patient=is_patient)
            if self._watch is not None:
                self._request.release()
                self._park()
                return None
            if result.status is not ReadStatus.NO_MATCH or not is_patient:
                break
            if self._work >= WORK_MAX:
                break  # the client goes on from there
            self._offset = result.next_offset
        return self._answer(result)

    def read_once(self) -> Answer:
        """The answer of a pull that is far behind; runs in any thread."""
        return self._answer(self._read(is_patient=False))

    def _read(self, *, is_patient: bool) -> ReadResult:
        header = self._header
        pulled = self._context.engine.pull(
            header.topic,
            header.queue_id,
            self._offset,
            count_max=max(1, min(header.max_msg_nums, COUNT_MAX)),
            size_bytes_max=max(1, min(header.max_msg_bytes or SIZE_BYTES_MAX, SIZE_BYTES_MAX)),
            accept=self._filter.accept,
            wake=self._wake if is_patient else None,
        )
        self._watch = pulled.watch
        if not self._filter.needs_properties or pulled.result.status is not ReadStatus.FOUND:
            return pulled.result
        return self._chosen(pulled.result)

    def _chosen(self, result: ReadResult) -> ReadResult:
        """What an SQL92 condition leaves of what was read, as far as there is time to look."""
        matches = self._filter.matches
        assert matches is not None
        chosen: list[memoryview] = []
        next_offset = result.next_offset
        for view in result.records:
            record = records.decode(view)
            if self._work >= WORK_MAX:
                next_offset = record.queue_offset
                break
            self._work += self._filter.word_count + len(record.properties) // _PIECE_SIZE
            if matches(decode_properties(record.properties)):
                chosen.append(view)
        return ReadResult(
            status=ReadStatus.FOUND if chosen else ReadStatus.NO_MATCH,
            records=chosen,
            next_offset=next_offset,
            start=result.start,
            end=result.end,
        )

    def _answer(self, result: ReadResult) -> Answer:
        code, remark = _CODES[result.status]
        response = PullResponse(
            suggest_which_broker_id=0,
            next_begin_offset=result.next_offset,
            min_offset=result.start,
            max_offset=result.end,
        )
        return Answer(code=code, ext=response.encode(), remark=remark, chunks=tuple(result.records))

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
        self._request.answer(Answer())

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
