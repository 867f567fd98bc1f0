"""Resources, actions and sources as people and tools write them."""

import ipaddress

import pytest

from dueline.broker.access.values import (
    CLUSTER,
    Action,
    Pattern,
    Resource,
    ResourceType,
    check_name,
    group,
    names_of,
    parse_actions,
    parse_network,
    topic,
)
from dueline.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*", Resource(ResourceType.ANY, "", Pattern.ANY)),
        ("Topic:*", Resource(ResourceType.TOPIC, "", Pattern.ANY)),
        ("Topic:orders", Resource(ResourceType.TOPIC, "orders", Pattern.LITERAL)),
        ("Group:billing-*", Resource(ResourceType.GROUP, "billing-", Pattern.PREFIX)),
        ("Cluster:DefaultCluster", Resource(ResourceType.CLUSTER, "DefaultCluster")),
        ("Namespace:shop", Resource(ResourceType.NAMESPACE, "shop")),
        ("Topic:a:b", Resource(ResourceType.TOPIC, "a:b")),
    ],
)
def test_a_resource_is_read_and_written_again(text: str, expected: Resource) -> None:
    assert Resource.parse(text) == expected
    assert str(expected) == text
    assert Resource.parse(text.upper()).type == expected.type


@pytest.mark.parametrize(
    "text",
    ["", "orders", "Topic:", "Topic", "Queue:a", "Any:x", "Topic:a*b*", "Topic:" + "x" * 256],
)
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="resource: expected"):
        Resource.parse(text)


def test_actions_are_read_in_any_case_and_written_as_rocketmq_does() -> None:
    assert parse_actions(["PUB", " sub "]) == Action.PUB | Action.SUB
    assert names_of(Action.SUB | Action.PUB) == ["Pub", "Sub"]
    assert parse_actions(["all"]) == Action.ALL
    assert names_of(Action.ALL) == ["All"]
    for wrong in (["write"], [], ["any"]):
        with pytest.raises(InvalidRequest, match="actions: expected"):
            parse_actions(wrong)


def test_a_retry_topic_is_its_groups_and_the_brokers_own_topics_are_the_clusters() -> None:
    assert topic("orders") == Resource(ResourceType.TOPIC, "orders")
    assert topic("%RETRY%billing") == group("billing") == group("%RETRY%billing")
    assert topic("%DLQ%billing") == Resource(ResourceType.TOPIC, "%DLQ%billing")
    assert topic("RMQ_SYS_TRANS_HALF_TOPIC") == CLUSTER
    assert topic("SCHEDULE_TOPIC_XXXX") == CLUSTER


def test_sources_are_addresses_or_ranges() -> None:
    assert parse_network("10.1.2.3/8") == ipaddress.ip_network("10.0.0.0/8")
    assert parse_network("::1") == ipaddress.ip_network("::1/128")
    for wrong in ("10.0.0", "example.org", "10.0.0.0/33", ""):
        with pytest.raises(InvalidRequest, match="source: expected"):
            parse_network(wrong)


def test_names_of_users_have_nothing_that_separates_fields() -> None:
    check_name("rocketmq-admin_1@example.org")
    for wrong in ("", "a" * 65, "a:b", "a/b", "a,b", "a b", "@pipeline", "a\n", "ä"):
        with pytest.raises(InvalidRequest, match="user: expected a name"):
            check_name(wrong)
