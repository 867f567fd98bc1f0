"""Headers of what tools, dashboards and other brokers ask.

The tools come from RocketMQ's releases and send more names than they need; what a class does not
list is ignored. Where two releases use two names for one thing, both are fields and a property
joins them.
"""

from __future__ import annotations

from dueline.wire.header import Header, Long, header

__all__ = [
    "AclFilterRequest",
    "AclRequest",
    "AddWritePermissionResponse",
    "BrokerConfigResponse",
    "BrokerConsumeStatsRequest",
    "BrokerNameRequest",
    "ClusterRequest",
    "ConsumeDirectlyRequest",
    "ConsumeStatsRequest",
    "ConsumeTimeSpanRequest",
    "ConsumerRunningInfoRequest",
    "CreateTopicRequest",
    "DeleteAclRequest",
    "DeleteGroupRequest",
    "DeleteTopicRequest",
    "GroupRequest",
    "GroupTopicRequest",
    "KeyRequest",
    "KeyValueRequest",
    "NamespaceRequest",
    "ProducerGroupRequest",
    "QueryConsumeQueueRequest",
    "ResetOffsetRequest",
    "TopicRequest",
    "UserFilterRequest",
    "UserRequest",
    "ValueResponse",
    "WipeWritePermissionResponse",
]


@header
class KeyValueRequest(Header):
    """100 to the name server."""

    namespace: str
    key: str
    value: str


@header
class KeyRequest(Header):
    """101 and 102 to the name server."""

    namespace: str
    key: str


@header
class NamespaceRequest(Header):
    """219 to the name server."""

    namespace: str


@header
class ValueResponse(Header):
    """The answer to 101."""

    value: str | None = None


@header
class BrokerNameRequest(Header):
    """205 and 327 to the name server."""

    broker_name: str


@header
class WipeWritePermissionResponse(Header):
    """The answer to 205."""

    wipe_topic_count: int


@header
class AddWritePermissionResponse(Header):
    """The answer to 327."""

    add_topic_count: int


@header
class ClusterRequest(Header):
    """224 to the name server."""

    cluster: str


@header
class DeleteTopicRequest(Header):
    """216 to the name server."""

    topic: str
    cluster_name: str | None = None


@header
class TopicRequest(Header):
    """202, 215, 300 and 351: one topic."""

    topic: str


@header
class CreateTopicRequest(Header):
    """17; `attributes` is `+name=value` or `-name`, separated by commas."""

    topic: str
    default_topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_filter_type: str
    order: bool = False
    topic_sys_flag: int | None = None
    attributes: str | None = None
    force: bool | None = None


@header
class GroupRequest(Header):
    """343 and 352: one consumer group."""

    group: str


@header
class GroupTopicRequest(Header):
    """345."""

    group: str
    topic: str | None = None


@header
class ConsumeTimeSpanRequest(Header):
    """303."""

    topic: str
    group: str


@header
class DeleteGroupRequest(Header):
    """207; 4.x says `removeOffset`, 5.x `cleanOffset`."""

    group_name: str
    remove_offset: bool | None = None
    clean_offset: bool | None = None

    @property
    def removes_offsets(self) -> bool:
        return bool(self.remove_offset or self.clean_offset)


@header
class ConsumeStatsRequest(Header):
    """208; without a topic, of all topics that the group consumes."""

    consumer_group: str
    topic: str | None = None


@header
class BrokerConsumeStatsRequest(Header):
    """317."""

    is_order: bool


@header
class ProducerGroupRequest(Header):
    """204."""

    producer_group: str


@header
class BrokerConfigResponse(Header):
    """The answer to 26; `version` is a data version as JSON."""

    version: str


@header
class ResetOffsetRequest(Header):
    """222 from tools and 220 to clients; an `offset` beats the `timestamp`."""

    topic: str
    group: str
    timestamp: Long
    is_force: bool
    queue_id: int | None = None
    offset: Long | None = None


@header
class ConsumerRunningInfoRequest(Header):
    """307, forwarded to the client."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@header
class ConsumeDirectlyRequest(Header):
    """309, forwarded to the client with the record as body."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None


@header
class QueryConsumeQueueRequest(Header):
    """321."""

    topic: str
    queue_id: int
    index: Long
    count: int
    consumer_group: str | None = None


@header
class UserRequest(Header):
    """3001 to 3004."""

    username: str


@header
class UserFilterRequest(Header):
    """3005: users whose name contains this."""

    filter: str | None = None


@header
class AclRequest(Header):
    """3006, 3007 and 3009; `subject` is `User:name`."""

    subject: str


@header
class DeleteAclRequest(Header):
    """3008: the policy on one resource, or without one all of them."""

    subject: str
    policy_type: str | None = None
    resource: str | None = None


@header
class AclFilterRequest(Header):
    """3010: policies whose subject and resource contain these."""

    subject_filter: str | None = None
    resource_filter: str | None = None
