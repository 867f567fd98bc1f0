"""The broker itself, for the tools: figures, settings, consume queues, questions to clients."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Final

from dueline import __version__
from dueline.errors import NotFound
from dueline.message import LEVEL_TOPIC, parse_message_id
from dueline.server.remoting.answers import Answer, Refused
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub, blocking
from dueline.store import record as records
from dueline.wire import Command
from dueline.wire.admin_bodies import (
    ConsumeQueueData,
    ConsumeQueueUnit,
    DataVersion,
    DelayOffsets,
    KeyValues,
)
from dueline.wire.admin_headers import (
    BrokerConfigResponse,
    ConsumeDirectlyRequest,
    ConsumerRunningInfoRequest,
    QueryConsumeQueueRequest,
)
from dueline.wire.codes import RequestCode, ResponseCode

__all__ = ["BrokerAdmin"]

UNIT_COUNT_MAX: Final = 1_000
PENDING_COUNT_MAX: Final = 10_000
LEVEL_MS_MAX: Final = 400 * 86_400_000
CLIENT_ANSWER_S_MAX: Final = 10.0


class BrokerAdmin:
    """Handlers of 26, 28, 45, 307, 309, 321 and 322."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._hub = hub

    def table(self) -> Mapping[int, Handler]:
        work = {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime,
            RequestCode.GET_BROKER_CONFIG: self.config,
            RequestCode.GET_ALL_DELAY_OFFSET: self.delay_offsets,
            RequestCode.QUERY_CONSUME_QUEUE: self.consume_queue,
        }
        return {
            **{code: blocking(self._hub, each) for code, each in work.items()},
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

    def runtime(self, _: Request) -> Answer:
        """Names that RocketMQ's tools print, and ours beside them."""
        figures = self._context.broker.meter.figures()
        log = self._context.store.stats()["commit_log"]
        seconds = max((figures.now_ms - figures.started_ms) / 1_000, 0.001)
        rate = f"{figures.sent_count / seconds:.1f}"
        out_rate = f"{figures.delivered_count / seconds:.1f}"
        table = {
            "brokerVersionDesc": f"Dueline {__version__}",
            "brokerVersion": "409",
            "bootTimestamp": str(figures.started_ms),
            "runtime": f"[ {int(seconds)} seconds ]",
            "putTps": f"{rate} {rate} {rate}",
            "getTotalTps": f"{out_rate} {out_rate} {out_rate}",
            "getTransferedTps": f"{out_rate} {out_rate} {out_rate}",
            "getTransferredTps": f"{out_rate} {out_rate} {out_rate}",
            "getFoundTps": "0.0 0.0 0.0",
            "getMissTps": "0.0 0.0 0.0",
            "msgPutTotalTodayNow": str(figures.sent_count),
            "msgPutTotalTodayMorning": "0",
            "msgPutTotalYesterdayMorning": "0",
            "msgGetTotalTodayNow": str(figures.delivered_count),
            "msgGetTotalTodayMorning": "0",
            "msgGetTotalYesterdayMorning": "0",
            "sendThreadPoolQueueSize": "0",
            "sendThreadPoolQueueCapacity": "0",
            "sendThreadPoolQueueHeadWaitTimeMills": "0",
            "pullThreadPoolQueueSize": str(figures.waiting_reader_count),
            "pullThreadPoolQueueCapacity": "0",
            "pullThreadPoolQueueHeadWaitTimeMills": "0",
            "queryThreadPoolQueueHeadWaitTimeMills": "0",
            "pageCacheLockTimeMills": "0",
            "earliestMessageTimeStamp": str(self._earliest_ms(log["start"], figures.now_ms)),
            "commitLogDiskRatio": "0.0",
            "consumeQueueDiskRatio": "0.0",
            "commitLogMinOffset": str(log["start"]),
            "commitLogMaxOffset": str(log["end"]),
            "timerReadBehind": "0",
            "timerOffsetBehind": "0",
            "timerCongestNum": str(figures.pending_count),
            "timerEnqueueTps": "0.0",
            "timerDequeueTps": out_rate,
            "pendingMessages": str(figures.pending_count),
            "messagesAtGate": str(figures.at_gate_count),
            "nextDueMs": str(figures.next_due_ms or -1),
            "latenessP50Ms": str(figures.lateness.p50_ms or 0),
            "latenessP99Ms": str(figures.lateness.p99_ms or 0),
            **self._level_offsets(),
        }
        return Answer(body=KeyValues(table=table).encode())

    def _earliest_ms(self, position: int, now_ms: int) -> int:
        try:
            return self._context.store.record_at(position).store_ms
        except NotFound:
            return now_ms

    def _level_offsets(self) -> dict[str, str]:
        """RocketMQ's `scheduleMessageOffset_N`: how far a level is, and how many came."""
        return {
            f"scheduleMessageOffset_{level}": f"{done},{end}"
            for level, (done, end) in self._levels().items()
        }

    def _levels(self) -> dict[int, tuple[int, int]]:
        """By level: the first message that is still pending, and how many were ever accepted.

        Looks at no more than `PENDING_COUNT_MAX` of the next messages that are due; a level that
        has none among them is shown as done.
        """
        store = self._context.store
        ends = {
            int(name.rpartition("/")[2]) + 1: end
            for name, end in store.stats()["delay_offsets"].items()
            if name.startswith(f"{LEVEL_TOPIC}/")
        }
        first: dict[int, int] = {}
        if ends:
            until_ms = self._context.clock.now_ms() + LEVEL_MS_MAX
            corner = store.next_corner(until_ms=until_ms, row_count_max=PENDING_COUNT_MAX)
            for data in store.read_window(store.window(corner)).column("record").to_pylist():
                record = records.decode(data)
                if record.topic == LEVEL_TOPIC.encode():
                    level = record.queue_id + 1
                    first[level] = min(record.queue_offset, first.get(level, record.queue_offset))
        return {level: (first.get(level, end), end) for level, end in sorted(ends.items())}

    def config(self, _: Request) -> Answer:
        options = self._context.store.options
        topics = self._context.broker.options.topics
        lines = {
            "brokerName": self._context.broker_name,
            "brokerClusterName": self._context.cluster_name,
            "brokerId": "0",
            "listenPort": str(self._context.addresses.port),
            "messageDelayLevel": options.levels,
            "maxMessageSize": str(options.body_size_max),
            "flushDiskType": "SYNC_FLUSH" if options.flush == "sync" else "ASYNC_FLUSH",
            "autoCreateTopicEnable": "true" if topics.auto_create else "false",
            "defaultTopicQueueNums": str(topics.queue_count),
            "mappedFileSizeCommitLog": str(options.commit_segment_size_bytes),
            "storePathRootDir": str(self._context.store.path),
            "timerMaxDelaySec": str(options.delay_max_ms // 1_000),
        }
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        version = DataVersion(counter=0, timestamp=0).encode().decode()
        return Answer(ext=BrokerConfigResponse(version=version).encode(), body=text.encode())

    def delay_offsets(self, _: Request) -> Answer:
        table = {level: done for level, (done, _) in self._levels().items()}
        return Answer(body=DelayOffsets(offset_table=table).encode())

    def consume_queue(self, request: Request) -> Answer:
        header = QueryConsumeQueueRequest.decode(request.command.ext)
        store = self._context.store
        start, end = store.offset_range(header.topic, header.queue_id)
        units: list[ConsumeQueueUnit] = []
        offset = max(header.index, start)
        while offset < end and len(units) < min(header.count, UNIT_COUNT_MAX):
            result = store.read(header.topic, header.queue_id, offset, count_max=32)
            if result.next_offset <= offset:
                break
            for view in result.records:
                record = records.decode(view)
                units.append(
                    ConsumeQueueUnit(
                        physic_offset=record.position,
                        physic_size=record.size_bytes,
                        tags_code=0,
                    )
                )
            offset = result.next_offset
        data = ConsumeQueueData(
            queue_data=units[: header.count], min_queue_index=start, max_queue_index=end
        )
        return Answer(body=data.encode())

    # Questions that are passed on to a client

    def running_info(self, request: Request) -> Answer | None:
        header = ConsumerRunningInfoRequest.decode(request.command.ext)
        self._pass_on(request, header.consumer_group, header.client_id, b"")
        return None

    def consume_directly(self, request: Request) -> Answer | None:
        header = ConsumeDirectlyRequest.decode(request.command.ext)
        _, position = parse_message_id(header.msg_id or "")
        record = self._context.store.record_at(position)
        self._pass_on(request, header.consumer_group, header.client_id or "", record.encode())
        return None

    def _pass_on(self, request: Request, group: str, client_id: str, body: bytes) -> None:
        member = self._context.groups.member(group, client_id)
        if member is None or not isinstance(member.channel, Channel):
            raise Refused(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"client {client_id[:200]} of consumer group {group[:200]} is not online here",
            )
        command = request.command
        future = member.channel.call(command.code, command.ext, body, timeout_s=CLIENT_ANSWER_S_MAX)
        future.add_done_callback(functools.partial(_passed_back, request))


def _passed_back(request: Request, future: asyncio.Future[Command]) -> None:
    if future.cancelled():
        request.answer(
            Answer(
                code=ResponseCode.CONSUME_MESSAGE_TIMEOUT,
                remark=f"the client has not answered within {CLIENT_ANSWER_S_MAX:g} s",
            )
        )
        return
    error = future.exception()
    if error is not None:
        request.fail(error)
        return
    found = future.result()
    request.answer(Answer(code=found.code, ext=found.ext, body=found.body, remark=found.remark))
