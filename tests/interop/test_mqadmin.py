"""RocketMQ's administration tool sees a topic, its progress and its consumers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.interop import toolchain
from tests.interop.clients import Client
from tests.interop.mqadmin import mqadmin
from tests.interop.servers import Server
from tests.waiting import wait_until

from dueline.client import Outgoing, Producer, Reader

Admin = Callable[..., str]


@pytest.fixture
def admin(server: Server, tmp_path: Path) -> Admin:
    """The tool, of the server's own generation: the newest asks for tables that 4.x has not."""
    release = "apache5" if server.is_5x else "apache49"
    toolchain.build(release)
    return partial(mqadmin, server.name_server, tmp_path, release=release)


def test_cluster_list_names_the_broker(server: Server, admin: Admin) -> None:
    printed = admin("clusterList")

    assert server.broker in printed


def test_topic_made_with_the_tool_can_be_used(server: Server, admin: Admin, group: str) -> None:
    topic = f"made-{group}"

    printed = admin("updateTopic", "-b", server.broker, "-t", topic, "-r", "3",
        "-w", "3",
    )  # fmt: skip

    assert "success" in printed
    assert server.route(topic).queue_datas[0].write_queue_nums == 3
    assert topic in admin("topicList")


def test_tool_counts_messages_and_progress(
    server: Server, admin: Admin, tmp_path: Path, topic: str, group: str
) -> None:
    client = Client(kind="java49", name_server=server.name_server, folder=tmp_path)
    with client.start("consume", topic=topic, group=group) as consumer:
        consumer.wait_events("ready")
        client.send(topic=topic, count=8)
        consumer.wait_events("received", 8)
        connections = admin("consumerConnection", "-g", group)
        consumer.end_input()
        consumer.finish()

    broker = server.route(topic).broker_datas[0].broker_name
    status = admin("topicStatus", "-t", topic)
    progress = admin("consumerProgress", "-g", group)

    assert "CONSUME_PASSIVELY" in connections
    assert topic in connections
    # A line per queue: broker, queue, first offset, next offset, when.
    spans = [line.split()[1:4] for line in status.splitlines() if line.startswith(broker)]
    assert sorted(spans) == [[str(queue), "0", "2"] for queue in range(4)]
    assert "Diff Total: 0" in progress


def test_tool_finds_a_message(server: Server, admin: Admin, tmp_path: Path, topic: str) -> None:
    client = Client(kind="java49", name_server=server.name_server, folder=tmp_path)
    (sent,) = client.send(topic=topic, key="find-me", body="found")

    def printed() -> str | None:
        text = admin("queryMsgByUniqueKey", "-t", topic, "-i", sent["id"])
        return text if "Queue Offset" in text else None

    text = wait_until(printed, what="the message by its id")

    assert topic in text
    assert "find-me" in text


def test_tool_shows_the_progress_of_a_group_that_only_reads_and_commits(
    server: Server, admin: Admin, topic: str, group: str
) -> None:
    """As `dueline tail` does: such a group sends no heartbeats."""
    with Producer(server.name_server) as producer:
        producer.send_many([Outgoing(topic=topic, body=b"x", queue_id=0) for _ in range(3)])
    with Reader(server.name_server, topic, group=group, start="start") as reader:
        for _ in range(2):
            reader.receive()
        reader.commit()

    printed = admin("consumerProgress", "-g", group)

    assert "Diff Total: 1" in printed
