"""The broker itself, for the tools: figures, settings, consume queues, questions to clients."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Final

from dueline import __version__
from dueline.broker.access import Action, topic
from dueline.message import parse_message_id
from dueline.server.remoting.answers import Refused, Response
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub, blocking
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

    def runtime(self, _: Request) -> Response:
        """Names that RocketMQ's tools print, and ours beside them."""
        figures = self._context.broker.meter.figures()
        earliest_ms = self._context.reading.first_stored_ms() or figures.now_ms
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
            "earliestMessageTimeStamp": str(earliest_ms),
            "commitLogDiskRatio": "0.0",
            "consumeQueueDiskRatio": "0.0",
            "commitLogMinOffset": str(figures.commit_log.start),
            "commitLogMaxOffset": str(figures.commit_log.end),
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
        return Response(body=KeyValues(table=table).encode())

    def _level_offsets(self) -> dict[str, str]:
        """RocketMQ's `scheduleMessageOffset_N`: how far a level is, and how many came."""
        return {
            f"scheduleMessageOffset_{level}": f"{progress.first},{progress.end}"
            for level, progress in self._context.broker.delayed.levels().items()
        }

    def config(self, _: Request) -> Response:
        options = self._context.broker.store_options
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
            "storePathRootDir": str(self._context.broker.folder),
            "timerMaxDelaySec": str(options.delay_max_ms // 1_000),
        }
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        version = DataVersion(counter=0, timestamp=0).encode().decode()
        return Response(ext=BrokerConfigResponse(version=version).encode(), body=text.encode())

    def delay_offsets(self, _: Request) -> Response:
        levels = self._context.broker.delayed.levels()
        table = {level: progress.first for level, progress in levels.items()}
        return Response(body=DelayOffsets(offset_table=table).encode())

    def consume_queue(self, request: Request) -> Response:
        header = QueryConsumeQueueRequest.decode(request.command.ext)
        reading = self._context.reading
        start, end = reading.offset_range(header.topic, header.queue_id)
        count_max = min(header.count, UNIT_COUNT_MAX)
        units = [
            ConsumeQueueUnit(physic_offset=each.position, physic_size=each.size_bytes, tags_code=0)
            for each in reading.units(
                header.topic, header.queue_id, header.index, count_max=count_max
            )
        ]
        data = ConsumeQueueData(queue_data=units, min_queue_index=start, max_queue_index=end)
        return Response(body=data.encode())

    # Questions that are passed on to a client

    def running_info(self, request: Request) -> Response | None:
        header = ConsumerRunningInfoRequest.decode(request.command.ext)
        self._pass_on(request, header.consumer_group, header.client_id, b"")
        return None

    def consume_directly(self, request: Request) -> Response | None:
        header = ConsumeDirectlyRequest.decode(request.command.ext)
        _, position = parse_message_id(header.msg_id or "")
        record = self._context.reading.by_position(position)
        request.check(Action.SUB, topic(record.topic.decode("utf-8", "replace")))
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
            Response(
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
    request.answer(Response(code=found.code, ext=found.ext, body=found.body, remark=found.remark))
