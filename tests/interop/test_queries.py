"""Messages are found by key and by both ids."""

from __future__ import annotations

import pytest
from tests.interop.clients import Client
from tests.interop.processes import Event
from tests.waiting import wait_until


def test_message_is_found_by_its_key(java: Client, topic: str) -> None:
    sent = java.send(topic=topic, count=2, key="order-7", body="keyed")
    java.send(topic=topic, key="order-8", body="other")

    found = _wait_found(java, topic=topic, key="order-7", count=2)

    assert sorted(e["body"] for e in found) == ["keyed-0", "keyed-1"]
    assert sorted(e["id"] for e in found) == sorted(e["id"] for e in sent)


@pytest.mark.parametrize("name", ["id", "offsetId"])
def test_message_is_found_by_its_id(java: Client, topic: str, name: str) -> None:
    (sent,) = java.send(topic=topic, body="by id")

    (found,) = _wait_found(java, topic=topic, id=sent[name], count=1)

    assert found["body"] == "by id-0"
    assert found["queueOffset"] == sent["queueOffset"]


def _wait_found(java: Client, *, count: int, **options: object) -> list[Event]:
    """The index is written a moment after the message: ask until all are there."""

    def found() -> list[Event] | None:
        with java.start("query", **options) as process:
            process.finish()
            events = process.events("found")
        return events if len(events) >= count else None

    return wait_until(found, what=f"{count} messages for {options}")
