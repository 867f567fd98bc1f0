"""Our Python client against whichever server is selected, and together with Java's."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta

import pytest
from tests.interop.clients import Client
from tests.interop.servers import Server
from tests.waiting import PATIENCE_S, wait_until

from dueline.client import Consumer, Outgoing, Producer, Received
from dueline.clock import system_time_ms


def test_sent_in_every_way_and_received_once_each(server: Server, topic: str, group: str) -> None:
    seen: list[Received] = []
    start_ms = system_time_ms()
    with (
        Producer(server.name_server) as producer,
        Consumer(server.name_server, topic, group, seen.append),
    ):
        sent = [
            producer.send(topic, b"one", tag="a", keys=["k"]),
            producer.send(topic, b"level", delay_level=1),
            *producer.send_many([Outgoing(topic=topic, body=b"%d" % i) for i in range(20)]),
        ]
        wait_until(lambda: len(seen) >= len(sent), what="all messages")
        level_ms = system_time_ms()

    assert sorted(each.id for each in seen) == sorted(each.id for each in sent)
    assert level_ms >= start_ms + server.level_ms(1)


def test_any_delay_and_cancel(server: Server, topic: str, group: str) -> None:
    if not server.is_5x:
        pytest.skip(f"{server.name} has no arbitrary delivery times")
    seen: list[tuple[bytes, int]] = []
    with (
        Producer(server.name_server) as producer,
        Consumer(
            server.name_server,
            topic,
            group,
            lambda message: seen.append((message.body, system_time_ms())),
        ),
    ):
        start_ms = system_time_ms()
        cancelled = producer.send(topic, b"no", delay=timedelta(seconds=10))
        producer.send(topic, b"yes", delay=timedelta(seconds=3))
        producer.send(topic, b"last", delay=timedelta(seconds=12))
        assert producer.cancel(cancelled)
        wait_until(lambda: len(seen) >= 2, what="both messages")

    assert [body for body, _ in seen] == [b"yes", b"last"]
    assert seen[0][1] >= start_ms + 3_000
    assert seen[1][1] >= start_ms + 12_000


def test_refused_message_comes_again(server: Server, topic: str, group: str) -> None:
    attempts: list[int] = []

    def handle(message: Received) -> None:
        attempts.append(message.attempt)
        if message.attempt == 0:
            raise ValueError("not yet")

    with (
        Producer(server.name_server) as producer,
        Consumer(server.name_server, topic, group, handle),
    ):
        producer.send(topic, b"refused")
        wait_until(lambda: 1 in attempts, what="the second attempt")

    assert attempts == [0, 1]


def test_python_to_java_and_back(server: Server, java: Client, topic: str, group: str) -> None:
    seen: list[Received] = []
    with (
        java.start("consume", topic=topic, group=f"{group}-java") as consumer,
        Producer(server.name_server) as producer,
        Consumer(server.name_server, topic, f"{group}-python", seen.append),
    ):
        consumer.wait_events("ready")
        mine = producer.send(topic, b"from python" * 1000, tag="t", keys=["k"], delay_level=1)
        (theirs,) = java.send(topic=topic, body="from java", body_size=20_000)
        received = consumer.wait_events("received", 2)
        wait_until(lambda: len(seen) >= 2, what="both messages in Python")

    assert {event["id"] for event in received} == {mine.id, theirs["id"]}
    bodies = {message.id: message.body for message in seen}
    assert bodies[mine.id] == b"from python" * 1000
    assert bodies[theirs["id"]].startswith(b"from java-0...")
    assert len(bodies[theirs["id"]]) == 20_000


def test_commands_send_and_tail(server: Server, topic: str, group: str) -> None:
    words = ("--name-server", server.name_server)
    sent = run_command("send", topic, "message {n}", "--count", "3", "--level", "1", *words)
    tail = run_command(
        *("tail", topic, "--group", group, "--from", "start", "--count", "3", "--json"),
        *("--timeout", "60s", *words),
    )
    rest = run_command("send", topic, "last", "--key", "k", *words)
    last = run_command("tail", topic, "--group", group, "--count", "1", "--timeout", "60s", *words)

    arrived = [json.loads(line) for line in tail.splitlines()]
    assert sorted(each["body"] for each in arrived) == [f"message {n}" for n in (1, 2, 3)]
    assert {each["properties"]["UNIQ_KEY"] for each in arrived} == {
        line.split()[0] for line in sent.splitlines()
    }
    assert all(each["due_ms"] == each["born_ms"] + server.level_ms(1) for each in arrived)
    assert [each for each in arrived if each["late_ms"] < 0] == []
    assert rest.endswith("  visible now\n")
    assert last.endswith("  not delayed  key=k  last\n")


def run_command(*words: str) -> str:
    """Run `dueline WORDS…`; gives what it printed."""
    return subprocess.run(
        [sys.executable, "-m", "dueline", *words],
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    ).stdout
