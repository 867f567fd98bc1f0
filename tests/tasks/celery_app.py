"""The tasks of the Celery tests: its own first steps, one that tries again, one with notes."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from tests.tasks.notes import note

import dueline.celery  # noqa: F401 - makes dueline:// known

app = Celery(
    "tasks",
    broker=os.environ.get("TASKS_BROKER"),
    backend=os.environ.get("TASKS_RESULTS"),
)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)
if (app.conf.broker_url or "").startswith("dueline:"):
    app.conf.broker_transport_options = {"invisible": os.environ.get("TASKS_INVISIBLE", "5s")}


@app.task  # type: ignore[untyped-decorator]
def add(x: int, y: int) -> int:
    return x + y


@app.task  # type: ignore[untyped-decorator]
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task  # type: ignore[untyped-decorator]
def take_note(name: str) -> None:
    note(name)


@app.task(bind=True, max_retries=2)  # type: ignore[untyped-decorator]
def try_thrice(self: Any, name: str) -> None:
    note(name)
    if self.request.retries < 2:
        raise self.retry(countdown=1)
