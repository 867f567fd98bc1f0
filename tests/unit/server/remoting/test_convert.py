"""Values of the broker and bodies of the 4.x protocol say the same."""

from __future__ import annotations

import json

from dueline.broker.config_table import Snapshot
from dueline.broker.group_configs import GroupConfig
from dueline.broker.groups import Member, Subscription
from dueline.broker.topics import TopicConfig
from dueline.server.remoting import convert
from dueline.wire.bodies import SubscriptionData


def test_a_topics_fields_have_their_names_in_json() -> None:
    config = TopicConfig(topic_name="t", read_queue_nums=3, write_queue_nums=2, perm=4, order=True)

    found = json.loads(convert.topic_body(config).encode())

    assert found["topicName"] == "t"
    assert (found["readQueueNums"], found["writeQueueNums"], found["perm"]) == (3, 2, 4)
    assert found["order"] is True


def test_a_groups_fields_come_back() -> None:
    config = GroupConfig(group_name="g", retry_max_times=3, consume_message_orderly=True)

    body = convert.group_body(config)

    assert json.loads(body.encode())["retryMaxTimes"] == 3
    assert convert.group_config(body) == config


def test_tables_have_the_version_of_their_last_change() -> None:
    topics = Snapshot(
        entries={"t": TopicConfig(topic_name="t", read_queue_nums=1, write_queue_nums=1)},
        counter=7,
        changed_ms=17,
    )
    groups = Snapshot(entries={"g": GroupConfig(group_name="g")}, counter=8, changed_ms=18)

    shown = json.loads(convert.topics_body(topics).encode())
    assert list(shown["topicConfigTable"]) == ["t"]
    assert (shown["dataVersion"]["counter"], shown["dataVersion"]["timestamp"]) == (7, 17)
    shown = json.loads(convert.groups_body(groups).encode())
    assert list(shown["subscriptionGroupTable"]) == ["g"]
    assert (shown["dataVersion"]["counter"], shown["dataVersion"]["timestamp"]) == (8, 18)


def test_subscriptions_come_back() -> None:
    body = SubscriptionData(
        topic="t",
        sub_string="a || b",
        sub_version=5,
        class_filter_mode=True,
        code_set=frozenset({97, 98}),
        tags_set=frozenset({"a", "b"}),
        expression_type="TAG",
    )

    value = convert.subscription(body)

    assert value == Subscription(
        topic="t",
        expression="a || b",
        kind="TAG",
        version=5,
        tags=frozenset({"a", "b"}),
        tag_hashes=frozenset({97, 98}),
        is_class_filter=True,
    )
    assert convert.subscription_body(value) == body


def test_a_member_is_a_connection() -> None:
    member = Member(
        client_id="c", channel=object(), address="1.2.3.4:5", language="GO", version=400, seen_ms=1
    )

    found = json.loads(convert.connection_body(member).encode())

    assert (found["clientId"], found["clientAddr"]) == ("c", "1.2.3.4:5")
    assert (found["language"], found["version"]) == ("GO", 400)
