"""JSON bodies of tools, of broker registration and of the files that brokers exchange."""

from __future__ import annotations

from dataclasses import field

from dueline.wire.bodies import BrokerData, MessageQueue, SubscriptionData
from dueline.wire.body import Body, JsonValue, body

__all__ = [
    "AclInfo",
    "ClusterInfo",
    "ConnectedClient",
    "ConsumeQueueData",
    "ConsumeQueueUnit",
    "ConsumeStats",
    "ConsumeTimeSpan",
    "ConsumeTimeSpans",
    "ConsumerConnections",
    "ConsumerOffsetsBody",
    "DataVersion",
    "DelayOffsets",
    "GroupConfigBody",
    "GroupConfigs",
    "GroupList",
    "KeyValues",
    "OffsetSpan",
    "PolicyEntryInfo",
    "PolicyInfo",
    "ProducerConnections",
    "QueueOffsets",
    "QueueProgress",
    "SubscriptionAnswer",
    "TopicConfigBody",
    "TopicConfigs",
    "TopicList",
    "TopicStats",
    "UserInfo",
]


@body
class DataVersion(Body):
    """Says which of two copies of a table is newer."""

    counter: int = 0
    timestamp: int = 0
    state_version: int | None = None


@body
class TopicConfigBody(Body):
    """One topic; `attributes` has for example `message.type`."""

    topic_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int = 6
    order: bool = False
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    attributes: dict[str, str] | None = None


@body
class TopicConfigs(Body):
    """The answer to 21, and part of 103."""

    data_version: DataVersion = field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfigBody] = field(default_factory=dict)


@body
class ClusterInfo(Body):
    """The answer to 106."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)


@body
class TopicList(Body):
    """The answer to 206, 224, 304, 305 and 343."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None


@body
class GroupList(Body):
    """The answer to 300."""

    group_list: list[str] = field(default_factory=list)


@body
class KeyValues(Body):
    """The answer to 28 (a broker's running statistics) and 219."""

    table: dict[str, str] = field(default_factory=dict)


@body
class GroupConfigBody(Body):
    """200, and one entry of 201: a consumer group."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool | None = None
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int | None = None
    consume_timeout_minute: int | None = None
    attributes: dict[str, str] | None = None
    # Newer clients and tools send these; they are kept as they are.
    group_retry_policy: JsonValue = None
    subscription_data_set: JsonValue = None


@body
class GroupConfigs(Body):
    """The answer to 201."""

    data_version: DataVersion = field(default_factory=DataVersion)
    subscription_group_table: dict[str, GroupConfigBody] = field(default_factory=dict)


@body
class OffsetSpan(Body):
    """One queue in a topic's statistics."""

    min_offset: int
    max_offset: int
    last_update_timestamp: int


@body
class TopicStats(Body):
    """The answer to 202."""

    offset_table: dict[MessageQueue, OffsetSpan] = field(default_factory=dict)


@body
class QueueProgress(Body):
    """One queue in a group's statistics."""

    broker_offset: int
    consumer_offset: int
    last_timestamp: int
    pull_offset: int | None = None


@body
class ConsumeStats(Body):
    """The answer to 208."""

    consume_tps: float = 0.0
    offset_table: dict[MessageQueue, QueueProgress] = field(default_factory=dict)


@body
class QueueOffsets(Body):
    """The answer to 222, and the body of 220."""

    offset_table: dict[MessageQueue, int] = field(default_factory=dict)


@body
class ConnectedClient(Body):
    """One connected client."""

    client_id: str
    client_addr: str
    language: str = "JAVA"
    version: int = 0


@body
class ConsumerConnections(Body):
    """The answer to 203."""

    connection_set: list[ConnectedClient] = field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


@body
class ProducerConnections(Body):
    """The answer to 204."""

    connection_set: list[ConnectedClient] = field(default_factory=list)


@body
class ConsumeTimeSpan(Body):
    """The times between which a queue's messages lie, and how far the group is."""

    message_queue: MessageQueue
    min_time_stamp: int
    max_time_stamp: int
    consume_time_stamp: int
    delay_time: int


@body
class ConsumeTimeSpans(Body):
    """The answer to 303."""

    consume_time_span_set: list[ConsumeTimeSpan] = field(default_factory=list)


@body
class SubscriptionAnswer(Body):
    """The answer to 345."""

    group: str
    topic: str
    subscription_data: SubscriptionData | None = None


@body
class ConsumeQueueUnit(Body):
    """One unit of a consume queue."""

    physic_offset: int
    physic_size: int
    tags_code: int
    eval: bool = True
    extend_data_json: str | None = None
    bit_map: str | None = None
    msg: str | None = None


@body
class ConsumeQueueData(Body):
    """The answer to 321."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueUnit] = field(default_factory=list)
    max_queue_index: int = 0
    min_queue_index: int = 0


@body
class ConsumerOffsetsBody(Body):
    """The answer to 43: by `topic@group`, offsets by queue id."""

    offset_table: dict[str, dict[int, int]] = field(default_factory=dict)
    data_version: DataVersion | None = None


@body
class DelayOffsets(Body):
    """The answer to 45: how far each delay level is."""

    offset_table: dict[int, int] = field(default_factory=dict)
    data_version: DataVersion | None = None


@body
class UserInfo(Body):
    """A user; `user_type` is Super or Normal, `user_status` enable or disable."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


@body
class PolicyEntryInfo(Body):
    """What may be done, or may not, with one resource."""

    resource: str
    actions: list[str]
    source_ips: list[str] | None = None
    decision: str


@body
class PolicyInfo(Body):
    """Entries of one type, Custom or Default."""

    policy_type: str | None = None
    entries: list[PolicyEntryInfo] = field(default_factory=list)


@body
class AclInfo(Body):
    """All policies of a subject."""

    subject: str | None = None
    policies: list[PolicyInfo] = field(default_factory=list)
