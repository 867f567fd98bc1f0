"""Pulling a queue: what the reader and the consumer have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dueline.client.cluster import Cluster, TopicQueue, error_of
from dueline.client.connection import AnyConnection
from dueline.client.values import Received, read_messages
from dueline.wire import RequestCode, ResponseCode
from dueline.wire.codes import PullFlag
from dueline.wire.headers import (
    OffsetResponse,
    PullRequest,
    PullResponse,
    QueryConsumerOffsetRequest,
    QueueRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)

__all__ = ["PullResult", "QueuePuller"]

COUNT_MAX: Final = 32
_ANSWERED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullResult:
    """Messages, and where to go on."""

    messages: list[Received]
    next_offset: int


class QueuePuller:
    """One queue's requests, for a group."""

    def __init__(self, cluster: Cluster, group: str, queue: TopicQueue, expression: str) -> None:
        self.queue: Final = queue
        self._cluster = cluster
        self._group = group
        self._expression = expression

    async def pull(self, offset: int, *, wait_s: float, count_max: int = COUNT_MAX) -> PullResult:
        """Read, or wait until there is something to read."""
        flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_s > 0 else 0)
        header = PullRequest(
            consumer_group=self._group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count_max,
            sys_flag=int(flags),
            commit_offset=0,
            suspend_timeout_millis=int(wait_s * 1_000),
            sub_version=0,
            subscription=self._expression,
            expression_type="TAG",
        )
        connection = await self._connection()
        answer = await connection.call(
            RequestCode.PULL_MESSAGE,
            header.encode(),
            timeout_s=wait_s + self._cluster.timeout_s,
        )
        if answer.code not in _ANSWERED:
            raise error_of(answer)
        next_offset = PullResponse.decode(answer.ext).next_begin_offset
        return PullResult(messages=read_messages(answer.body), next_offset=next_offset)

    async def committed(self) -> int | None:
        """Where the group goes on, if the broker knows."""
        header = QueryConsumerOffsetRequest(
            consumer_group=self._group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            # Unasked, brokers say 0 for a young queue: a group that begins at its end would not.
            set_zero_if_not_found=False,
        )
        return await self._offset(RequestCode.QUERY_CONSUMER_OFFSET, header.encode())

    async def end(self) -> int:
        """The offset of the next message."""
        header = QueueRequest(topic=self.queue.topic, queue_id=self.queue.queue_id)
        return await self._offset(RequestCode.GET_MAX_OFFSET, header.encode()) or 0

    async def start(self) -> int:
        """The offset of the first message that is there."""
        header = QueueRequest(topic=self.queue.topic, queue_id=self.queue.queue_id)
        return await self._offset(RequestCode.GET_MIN_OFFSET, header.encode()) or 0

    async def at(self, timestamp_ms: int) -> int:
        """The offset of the first message at or after a time."""
        header = SearchOffsetRequest(
            topic=self.queue.topic, queue_id=self.queue.queue_id, timestamp=timestamp_ms
        )
        return await self._offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header.encode()) or 0

    async def commit(self, offset: int, *, is_answered: bool = False) -> None:
        """Remember where the group goes on; `is_answered` waits until the broker does."""
        header = UpdateConsumerOffsetRequest(
            consumer_group=self._group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            commit_offset=offset,
        )
        connection = await self._connection()
        code, ext = RequestCode.UPDATE_CONSUMER_OFFSET, header.encode()
        if not is_answered:
            connection.notify(code, ext)
            return
        answer = await connection.call(code, ext, timeout_s=self._cluster.timeout_s)
        if answer.code != ResponseCode.SUCCESS:
            raise error_of(answer)

    async def _offset(self, code: int, ext: dict[str, str]) -> int | None:
        connection = await self._connection()
        answer = await connection.call(code, ext, timeout_s=self._cluster.timeout_s)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise error_of(answer)
        return OffsetResponse.decode(answer.ext).offset

    async def _connection(self) -> AnyConnection:
        return await self._cluster.broker(self.queue.topic, self.queue.broker_name)
