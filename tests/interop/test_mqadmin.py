"""RocketMQ's administration tool sees a topic, its progress and its consumers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop import toolchain
from tests.interop.clients import Client
from tests.interop.mqadmin import mqadmin
from tests.interop.servers import Server
from tests.interop.waiting import wait_until


@pytest.fixture(autouse=True)
def _tool() -> None:
    toolchain.build("apache5")


def test_cluster_list_names_the_broker(server: Server, tmp_path: Path) -> None:
    printed = mqadmin(server.name_server, tmp_path, "clusterList")

    assert server.broker in printed


def test_topic_made_with_the_tool_can_be_used(server: Server, tmp_path: Path, group: str) -> None:
    topic = f"made-{group}"

    printed = mqadmin(
        server.name_server, tmp_path, "updateTopic", "-b", server.broker, "-t", topic, "-r", "3",
        "-w", "3",
    )  # fmt: skip

    assert "success" in printed
    route = wait_until(lambda: server.route(topic), what="the route")
    assert route.queue_datas[0].write_queue_nums == 3
    assert topic in mqadmin(server.name_server, tmp_path, "topicList")


def test_tool_counts_messages_and_progress(
    server: Server, tmp_path: Path, topic: str, group: str
) -> None:
    client = Client(kind="java49", name_server=server.name_server, folder=tmp_path)
    with client.start("consume", topic=topic, group=group) as consumer:
        consumer.wait_events("ready")
        client.send(topic=topic, count=8)
        consumer.wait_events("received", 8)
        connections = mqadmin(server.name_server, tmp_path, "consumerConnection", "-g", group)
        consumer.end_input()
        consumer.finish()

    status = mqadmin(server.name_server, tmp_path, "topicStatus", "-t", topic)
    progress = mqadmin(server.name_server, tmp_path, "consumerProgress", "-g", group)

    assert "CONSUME_PASSIVELY" in connections
    assert topic in connections
    # A line per queue: broker, queue, first offset, next offset, when.
    spans = [line.split()[1:4] for line in status.splitlines() if line.startswith("broker-a")]
    assert sorted(spans) == [[str(queue), "0", "2"] for queue in range(4)]
    assert "Consume Diff Total: 0" in progress or "Diff Total: 0" in progress


def test_tool_finds_a_message(server: Server, tmp_path: Path, topic: str) -> None:
    client = Client(kind="java49", name_server=server.name_server, folder=tmp_path)
    (sent,) = client.send(topic=topic, key="find-me", body="found")

    def printed() -> str | None:
        text = mqadmin(
            server.name_server, tmp_path, "queryMsgByUniqueKey", "-t", topic, "-i", sent["id"]
        )
        return text if "Queue Offset" in text else None

    text = wait_until(printed, what="the message by its id")

    assert topic in text
    assert "find-me" in text
