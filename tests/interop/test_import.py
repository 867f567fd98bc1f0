"""`dueline import` of stores that real Apache brokers wrote for real clients.

The broker is stopped, or killed; the store is taken over; Dueline serves it; a real consumer goes
on where it was and gets what waits, none of it early.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.interop.apache import LEVELS, Apache
from tests.interop.clients import Client
from tests.interop.processes import Event, Process
from tests.remoting.serving import SMALL, RunningBroker
from tests.waiting import PATIENCE_S

from dueline.broker import BrokerOptions
from dueline.broker.transactions import TransactionOptions
from dueline.client import Producer
from dueline.clock import system_time_ms

DELAYS_MS = [int(text[:-1]) * {"s": 1_000, "h": 3_600_000}[text[-1]] for text in LEVELS.split()]
TOPIC = "moved"
GROUP = "mover"


def take_over(apache: Apache, data: Path, *options: str) -> dict[str, Any]:
    """Run the command as a user would; its summary."""
    sizes = {
        "commit_segment_size": f"{SMALL.commit_segment_size_bytes}B",
        "delay_segment_size": f"{SMALL.delay_segment_size_bytes}B",
        "queue_file_units": SMALL.queue_file_units,
    }
    settings = [f"--set=store.{name}={value}" for name, value in sizes.items()]
    done = subprocess.run(
        [sys.executable, "-m", "dueline", "import", str(apache.store), "--json", *settings,
         "--data", str(data), "--levels", LEVELS, *options],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def by_id(events: list[Event]) -> dict[str, Event]:
    found = {event["id"]: event for event in events}
    assert len(found) == len(events), "received twice"
    return found


def check_received(found: dict[str, Event], sent: dict[str, Event], levels: list[int]) -> None:
    """Everything as it was sent, and not early; message i was sent with `levels[i % n]`."""
    for unique_id, one in sent.items():
        event = found[unique_id]
        level = levels[one["index"] % len(levels)]
        assert event["body"].rstrip(".").endswith(f"-{one['index']}")
        assert event["queue"] == one["queue"]
        assert event["topic"] == TOPIC
        assert event["at"] >= event["bornAt"] + (DELAYS_MS[level - 1] if level else 0)


def leave(consumer: Process) -> None:
    """Let a consumer go in order, so that it says how far it has read."""
    consumer.end_input()
    consumer.finish()


def test_stopped_broker_is_taken_over(tmp_path: Path) -> None:
    with Apache.start("apache49", tmp_path / "apache") as apache:
        client = Client(kind="java49", name_server=apache.name_server, folder=tmp_path)
        read = by_id(client.send(topic=TOPIC, count=8, body="read"))
        with client.start("consume", topic=TOPIC, group=GROUP) as consumer:
            assert set(by_id(consumer.wait_events("received", 8))) == set(read)
            leave(consumer)
        # Large enough to be compressed.
        levels = [0, 8, 10, 0, 18]
        sent = by_id(
            client.send(topic=TOPIC, count=20, level=",".join(map(str, levels)), body="sent",
                        tag="t", key="k", body_size=6_000)
        )  # fmt: skip
        apache.stop_broker()

        summary = take_over(apache, tmp_path / "data")

    # On a slow machine some were due before the broker had stopped; nothing is counted twice.
    assert summary["pending"] + summary["ordinary"] == 20
    assert summary["pending_by_topic"][TOPIC] >= 4
    assert summary["due_last_ms"] > system_time_ms() + 7_000_000
    assert not summary["missed"]
    with RunningBroker(tmp_path / "data") as broker:
        client = Client(kind="java49", name_server=broker.name_server, folder=tmp_path)
        with Producer(broker.name_server) as producer:
            new = producer.send(TOPIC, b"new", queue_id=1)
        with client.start("consume", topic=TOPIC, group=GROUP) as consumer:
            found = by_id(consumer.wait_events("received", 17))
        assert broker.store.pending_count() == 4

    del found[new.id]
    soon = {one: event for one, event in sent.items() if levels[event["index"] % 5] != 18}
    assert set(found) == set(soon)
    check_received(found, soon, levels)
    for unique_id, event in found.items():
        assert (event["tags"], event["keys"], len(event["body"])) == ("t", "k", 6_000)
        if levels[soon[unique_id]["index"] % 5] == 0:
            assert event["queueOffset"] == soon[unique_id]["queueOffset"], "offsets stay"


def test_killed_broker_is_taken_over(tmp_path: Path) -> None:
    """What it had delivered in its last seconds, and not noted, does not come again."""
    with Apache.start("apache49", tmp_path / "apache") as apache:
        client = Client(kind="java49", name_server=apache.name_server, folder=tmp_path)
        sent = by_id(client.send(topic=TOPIC, count=8, level="1,10"))
        soon = {one: event for one, event in sent.items() if event["index"] % 2 == 0}
        with client.start("consume", topic=TOPIC, group=GROUP) as consumer:
            consumer.wait_events("received", 4, of=lambda one: one["id"] in soon)
            apache.kill_broker()
            seen = by_id(consumer.events("received"))
            consumer.kill()

        summary = take_over(apache, tmp_path / "data", "--assume-pending")

    assert set(soon) <= set(seen)
    # How far the group had read is noted every few seconds: some may count as read, or none.
    read_count = summary["left"].get("read", 0)
    assert summary["pending"] + summary["ordinary"] + read_count == 8, summary
    assert summary["left"]["delivered"] >= 4
    with RunningBroker(tmp_path / "data") as broker:
        client = Client(kind="java49", name_server=broker.name_server, folder=tmp_path)
        with client.start("consume", topic=TOPIC, group=GROUP) as consumer:
            # The group's offsets were noted every five seconds: it may see some again, once.
            consumer.wait_events("ready")
            missing = set(sent) - set(seen)
            if missing:
                consumer.wait_events("received", len(missing), of=lambda one: one["id"] in missing)
            found = by_id(consumer.events("received"))

    check_received({**seen, **found}, sent, [1, 10])


@pytest.mark.soak
def test_timer_and_transactions_of_a_5x_broker_are_taken_over(tmp_path: Path) -> None:
    with Apache.start("apache5", tmp_path / "apache") as apache:
        client = Client(kind="java5", name_server=apache.name_server, folder=tmp_path)
        soon = by_id(client.send(topic=TOPIC, count=3, delay_ms=1_500, body="soon"))
        with client.start("consume", topic=TOPIC, group=GROUP) as consumer:
            assert set(by_id(consumer.wait_events("received", 3))) == set(soon)
            leave(consumer)
        (recalled,) = client.send(topic=TOPIC, delay_ms=120_000, body="recalled")
        client.run("recall", topic=TOPIC, handle=recalled["handle"])
        due_ms = system_time_ms() + 20_000
        timed = by_id(client.send(topic=TOPIC, count=4, deliver_ms=due_ms, body="timed"))
        with client.start("transact", topic=TOPIC, group="deciders", outcome="unknown",
                          check="unknown", body="open") as producer:  # fmt: skip
            (half,) = producer.wait_events("sent")
        apache.kill_broker()

        summary = take_over(apache, tmp_path / "data")

    # How far the group had read is noted every five seconds.
    assert 4 <= summary["pending"] + summary["ordinary"] <= 4 + 3, summary
    assert summary["left"]["recalled"] == 1
    assert summary["half"] == 1
    eager = TransactionOptions(first_ask_ms=1_000, ask_interval_ms=2_000)
    with RunningBroker(tmp_path / "data", rules=BrokerOptions(transactions=eager)) as broker:
        client = Client(kind="java5", name_server=broker.name_server, folder=tmp_path)
        with (
            client.start("consume", topic=TOPIC, group=GROUP) as consumer,
            # A producer knows no broker, and cannot be asked, before it has sent something.
            client.start("transact", topic=TOPIC, group="deciders", check="commit") as producer,
        ):
            (other,) = producer.wait_events("sent")
            wanted = {*timed, half["id"]}
            consumer.wait_events("received", 5, of=lambda event: event["id"] in wanted)
            found = by_id(consumer.events("received"))

    assert recalled["id"] not in found
    assert set(found) <= {*wanted, *soon, other["id"]}
    for unique_id in timed:
        assert found[unique_id]["at"] >= due_ms
        assert found[unique_id]["queue"] == timed[unique_id]["queue"]
