"""The actors of the dramatiq tests: one that takes notes, some that fail."""

from __future__ import annotations

import os

import dramatiq
from tests.tasks.notes import note

from dueline.dramatiq import DuelineBroker

broker = DuelineBroker(
    os.environ.get("TASKS_BROKER", "127.0.0.1:9876"),
    invisible=os.environ.get("TASKS_INVISIBLE", "5s"),
)
dramatiq.set_broker(broker)


@dramatiq.actor
def take_note(name: str) -> None:
    note(name)


@dramatiq.actor(max_retries=2, min_backoff=1_000, max_backoff=1_000)
def fail_always(name: str) -> None:
    note(name)
    raise ValueError("as it was asked to")


@dramatiq.actor
def count_words(text: str) -> int:
    """Dramatiq's own first example, without the network."""
    count = len(text.split(" "))
    note(f"words-{count}")
    return count
