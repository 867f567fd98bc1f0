"""The broker's values to bodies of the 4.x protocol, and back."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from dueline.broker.config_table import Snapshot
from dueline.broker.group_configs import GroupConfig
from dueline.broker.groups import Member, Subscription
from dueline.broker.topics import TopicConfig
from dueline.wire import admin_bodies as bodies
from dueline.wire.bodies import SubscriptionData

__all__ = [
    "connection_body",
    "group_body",
    "group_config",
    "groups_body",
    "subscription",
    "subscription_body",
    "topic_body",
    "topics_body",
]

_TOPIC_FIELDS: Final = tuple(field.name for field in dataclasses.fields(TopicConfig))
_GROUP_FIELDS: Final = tuple(field.name for field in dataclasses.fields(GroupConfig))


def topic_body(config: TopicConfig) -> bodies.TopicConfigBody:
    return bodies.TopicConfigBody(**_values(config, _TOPIC_FIELDS))


def topics_body(topics: Snapshot[TopicConfig]) -> bodies.TopicConfigs:
    return bodies.TopicConfigs(
        data_version=_version(topics),
        topic_config_table={name: topic_body(each) for name, each in topics.entries.items()},
    )


def group_config(body: bodies.GroupConfigBody) -> GroupConfig:
    return GroupConfig(**_values(body, _GROUP_FIELDS))


def group_body(config: GroupConfig) -> bodies.GroupConfigBody:
    return bodies.GroupConfigBody(**_values(config, _GROUP_FIELDS))


def groups_body(groups: Snapshot[GroupConfig]) -> bodies.GroupConfigs:
    return bodies.GroupConfigs(
        data_version=_version(groups),
        subscription_group_table={name: group_body(each) for name, each in groups.entries.items()},
    )


def _values(value: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _version(table: Snapshot[Any]) -> bodies.DataVersion:
    return bodies.DataVersion(counter=table.counter, timestamp=table.changed_ms)


def subscription(body: SubscriptionData) -> Subscription:
    return Subscription(
        topic=body.topic,
        expression=body.sub_string,
        kind=body.expression_type,
        version=body.sub_version,
        tags=body.tags_set,
        tag_hashes=body.code_set,
        is_class_filter=body.class_filter_mode,
    )


def subscription_body(value: Subscription) -> SubscriptionData:
    return SubscriptionData(
        topic=value.topic,
        sub_string=value.expression,
        expression_type=value.kind,
        sub_version=value.version,
        tags_set=value.tags,
        code_set=value.tag_hashes,
        class_filter_mode=value.is_class_filter,
    )


def connection_body(member: Member) -> bodies.ConnectedClient:
    return bodies.ConnectedClient(
        client_id=member.client_id,
        client_addr=member.address,
        language=member.language,
        version=member.version,
    )
