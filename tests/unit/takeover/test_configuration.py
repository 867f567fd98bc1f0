"""Topics, groups and offsets."""

from __future__ import annotations

import json

import pytest
from tests.unit.store.making import QuickFiles, Wall, open_store
from tests.unit.takeover.conftest import TakeOver
from tests.unit.takeover.making import FakeBroker

from dueline.broker.group_configs import GroupTable
from dueline.broker.topics import TopicConfig, Topics
from dueline.errors import InvalidRequest
from dueline.message import Message
from dueline.takeover.configuration import offset_here
from dueline.takeover.moving import Destination
from dueline.takeover.survey import QueueSpan


def topics(to: Destination) -> Topics:
    path = to.folder / "store" / "config" / "topics.json"
    return Topics(path, QuickFiles(), clock=to.clock)


@pytest.mark.parametrize(
    ("offset", "span", "here"),
    [
        (50, None, 7),
        (20, QueueSpan(first=20, last=29, count=10), 7),
        (25, QueueSpan(first=20, last=29, count=10), 12),
        (30, QueueSpan(first=20, last=29, count=10), 17),
        (99, QueueSpan(first=20, last=29, count=10), 17),
        (3, QueueSpan(first=20, last=29, count=10), 7),
        (25, QueueSpan(first=20, last=29, count=8), 10),
        (21, QueueSpan(first=20, last=29, count=8), 7),
        (30, QueueSpan(first=20, last=29, count=8), 15),
    ],
)
def test_group_never_goes_on_behind_what_it_has_not_read(
    offset: int, span: QueueSpan | None, here: int
) -> None:
    assert offset_here(offset, span, 7) == here


def test_topics_and_groups_come_without_rocketmqs_own(
    fake: FakeBroker, move: TakeOver, to: Destination
) -> None:
    fake.message("orders", 0, b"x")
    fake.topics |= {
        "orders": 6,
        "%RETRY%billing": 1,
        "SCHEDULE_TOPIC_XXXX": 18,
        "BenchmarkTest": 1024,
        "DefaultCluster_REPLY_TOPIC": 1,
        "rmq_sys_REVIVE_LOG_DefaultCluster": 8,
    }
    fake.groups = ["billing", "TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS"]

    moved = move()

    assert (moved.topic_count, moved.group_count) == (2, 1)
    orders = topics(to).find("orders")
    assert (orders.read_queue_nums, orders.write_queue_nums) == (6, 6)
    assert topics(to).get("BenchmarkTest") is None
    path = to.folder / "store" / "config" / "subscriptionGroup.json"
    group = GroupTable(path, QuickFiles(), clock=to.clock).get("billing")
    assert group is not None
    assert group.retry_max_times == 3


def test_topic_that_is_here_keeps_its_settings_and_gets_wider(
    fake: FakeBroker, move: TakeOver, to: Destination, wall: Wall
) -> None:
    with open_store(to.folder / "store", wall, to.store) as store:
        store.put(Message(topic="wide", body=b"x", queue_id=9))
    here = topics(to)
    here.put(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2, perm=4))
    here.save()
    fake.message("orders", 0, b"x")
    fake.message("wide", 0, b"x")

    move()

    orders, wide = topics(to).find("orders"), topics(to).find("wide")
    assert (orders.read_queue_nums, orders.perm) == (4, 4)
    assert (wide.read_queue_nums, wide.write_queue_nums) == (10, 4)


def test_bad_configuration_is_refused(fake: FakeBroker, move: TakeOver) -> None:
    fake.message("orders", 0, b"x")
    path = fake.save() / "config" / "topics.json"
    path.write_text(json.dumps({"topicConfigTable": {"orders": 4}}))

    with pytest.raises(InvalidRequest, match="configuration of orders: expected an object"):
        move(dry_run=True)
