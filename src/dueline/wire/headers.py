"""Headers of what clients and the broker say to each other: the arguments of each request code.

One class per set of arguments; where several codes share a set, the class is named for the set.
`dueline.wire.admin_headers` has those of the tools and of broker registration. Times are
milliseconds, offsets count messages in a queue, positions count bytes in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from dueline.wire.header import Header, Long, header, wire

__all__ = [
    "AckRequest",
    "ChangeInvisibleTimeRequest",
    "ChangeInvisibleTimeResponse",
    "CheckTransactionRequest",
    "ConsumerGroupRequest",
    "EndTransactionRequest",
    "HeartbeatResponse",
    "OffsetResponse",
    "PopRequest",
    "PopResponse",
    "PullRequest",
    "PullResponse",
    "PushReplyRequest",
    "QueryConsumerOffsetRequest",
    "QueryMessageRequest",
    "QueryMessageResponse",
    "QueueRequest",
    "RecallRequest",
    "RecallResponse",
    "RouteRequest",
    "SearchOffsetRequest",
    "SendBackRequest",
    "SendRequest",
    "SendResponse",
    "StoredResponse",
    "TimestampResponse",
    "UnregisterClientRequest",
    "UpdateConsumerOffsetRequest",
    "ViewMessageRequest",
]


@header
class RouteRequest(Header):
    """105 to the name server."""

    topic: str
    accept_standard_json_only: bool = False


@header
class SendRequest(Header):
    """10, 310, 320, 324 and 325: a send, with long names (10, 324) or one-letter names."""

    producer_group: str = wire(short="a")
    topic: str = wire(short="b")
    default_topic: str = wire(short="c")
    default_topic_queue_nums: int = wire(short="d")
    queue_id: int = wire(short="e")
    sys_flag: int = wire(short="f")
    born_timestamp: Long = wire(short="g")
    flag: int = wire(short="h")
    properties: str | None = wire(short="i", default=None)
    reconsume_times: int | None = wire(short="j", default=None)
    unit_mode: bool = wire(short="k", default=False)
    max_reconsume_times: int | None = wire(short="l", default=None)
    batch: bool = wire(short="m", default=False)
    broker_name: str | None = wire("bname", short="n", default=None)

    @classmethod
    def decode(cls, ext: Mapping[str, str]) -> Self:
        """The names decide, not the code: Go sends a batch with one form or the other."""
        return cls._decode(cls._short_fields if "b" in ext else cls._fields, ext)

    @classmethod
    def short_names(cls, *names: str) -> list[str]:
        """What fields are called in the codes 310, 320 and 325."""
        by_name = {field.name: field.wire_name for field in cls._short_fields}
        return [by_name[name] for name in names]

    def encode_short(self) -> dict[str, str]:
        """The ext fields of the codes 310, 320 and 325."""
        return self._encode(self._short_fields)


@header
class SendResponse(Header):
    """The answer to a send; `msg_id` is the offset id, several with commas for a batch."""

    msg_id: str
    queue_id: int
    queue_offset: Long
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = wire("MSG_REGION", default=None)
    trace_on: bool | None = wire("TRACE_ON", default=None)


@header
class StoredResponse(Header):
    """What a sender needs of a `SendResponse`."""

    msg_id: str
    queue_offset: Long
    recall_handle: str | None = None


@header
class PullRequest(Header):
    """11 and 361; `sys_flag` is a `PullFlag`."""

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: Long
    max_msg_nums: int
    sys_flag: int
    commit_offset: Long
    suspend_timeout_millis: Long
    sub_version: Long
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: int | None = None


@header
class PullResponse(Header):
    """The answer to a pull, also when there was nothing to give."""

    suggest_which_broker_id: Long
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long
    offset_delta: Long | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
    forbidden_type: int | None = None


@header
class HeartbeatResponse(Header):
    """The answer to 34; a client with heartbeat v2 expects both to be there."""

    is_support_heart_beat_v2: bool | None = wire("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = wire("IS_SUB_CHANGE", default=None)


@header
class UnregisterClientRequest(Header):
    """35."""

    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@header
class ConsumerGroupRequest(Header):
    """38 and 203 from clients and tools, 40 to clients."""

    consumer_group: str


@header
class QueryConsumerOffsetRequest(Header):
    """14."""

    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool | None = None


@header
class UpdateConsumerOffsetRequest(Header):
    """15, usually oneway."""

    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: Long


@header
class QueueRequest(Header):
    """30, 31 and 32: the ends of a queue."""

    topic: str
    queue_id: int
    committed: bool | None = None


@header
class SearchOffsetRequest(Header):
    """29; `boundary_type` is LOWER or UPPER."""

    topic: str
    queue_id: int
    timestamp: Long
    boundary_type: str | None = None


@header
class OffsetResponse(Header):
    """The answer to 14, 29, 30 and 31."""

    offset: Long


@header
class TimestampResponse(Header):
    """The answer to 32."""

    timestamp: Long


@header
class SendBackRequest(Header):
    """36: the consumer could not handle the record at `offset`, a position in the log."""

    offset: Long
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: int | None = None


@header
class EndTransactionRequest(Header):
    """37; `commit_or_rollback` is 8 commit, 12 rollback, 0 do not know yet."""

    producer_group: str
    tran_state_table_offset: Long
    commit_log_offset: Long
    commit_or_rollback: int
    msg_id: str
    from_transaction_check: bool = False
    transaction_id: str | None = None
    topic: str | None = None


@header
class CheckTransactionRequest(Header):
    """39 to a producer; the body is the half message as a record."""

    tran_state_table_offset: Long
    commit_log_offset: Long
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None


@header
class QueryMessageRequest(Header):
    """12; with `is_unique_key` the key is a client's message id."""

    topic: str
    key: str
    max_num: int
    begin_timestamp: Long
    end_timestamp: Long
    is_unique_key: bool = wire("_UNIQUE_KEY_QUERY", default=False)


@header
class QueryMessageResponse(Header):
    """The answer to 12; the body is records."""

    index_last_update_timestamp: Long
    index_last_update_phyoffset: Long


@header
class ViewMessageRequest(Header):
    """33; `offset` is a position in the log."""

    offset: Long
    topic: str | None = None


@header
class RecallRequest(Header):
    """370: take a delayed message back."""

    topic: str
    recall_handle: str
    producer_group: str | None = None


@header
class RecallResponse(Header):
    """The answer to 370."""

    msg_id: str


@header
class PushReplyRequest(Header):
    """326 to the client that waits for a reply; the body is the reply's."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: Long
    flag: int
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool = False
    born_host: str | None = None
    store_host: str | None = None
    store_timestamp: Long | None = None


@header
class PopRequest(Header):
    """200050; `queue_id` -1 means any queue, `init_mode` 0 the first message and 1 the end."""

    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int
    invisible_time: Long
    poll_time: Long
    born_time: Long
    init_mode: int
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


@header
class PopResponse(Header):
    """The answer to 200050."""

    pop_time: Long
    invisible_time: Long
    revive_qid: int
    rest_num: Long
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@header
class AckRequest(Header):
    """200051; `extra_info` is the receipt of the pop."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: Long


@header
class ChangeInvisibleTimeRequest(Header):
    """200053."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: Long
    invisible_time: Long


@header
class ChangeInvisibleTimeResponse(Header):
    """The answer to 200053: what the new receipt is made of."""

    pop_time: Long
    invisible_time: Long
    revive_qid: int
