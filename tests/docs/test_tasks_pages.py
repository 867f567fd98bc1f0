"""The pages for Celery and dramatiq: what they send waits in the broker and is changed there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import programs, section
from tests.remoting.serving import RunningBroker
from tests.waiting import PATIENCE_S

from dueline.client import Producer

pytestmark = pytest.mark.slow


def run(folder: Path, program: str) -> list[str]:
    """In a process of its own, beside the module of tasks, as a reader would."""
    words = [sys.executable, "-c", program]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_tasks_of_celery_wait_and_are_changed(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "broker") as broker:
        tasks, sends, changes = (
            text.replace("127.0.0.1:9876", broker.name_server)
            for text in programs(section("celery.md"))
        )
        (tmp_path / "tasks.py").write_text(tasks)
        three = "[close_order.apply_async((n,), countdown=9e3) for n in 'abc']"
        names = "from datetime import UTC, datetime\nfrom tasks import *"
        begin = f"{names}\nfirst, second, third = {three}\n"

        end = "print(first.id, second.id, third.id)"
        first, second, third = run(tmp_path, f"{begin}{sends}\n{changes}{end}")

        with Producer(broker.name_server) as producer:
            found = {key: producer.find(key)[0] for key in (first, second, third)}
            count = producer.pending("celery").count
    assert found[first].state.value == "pending"
    assert found[third].state.value == "cancelled"
    assert found[second].due_ms < found[first].due_ms
    assert count >= 3  # one that was moved and two that were left alone


def test_messages_of_dramatiq_wait(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "broker") as broker:
        shop, send = (
            text.replace("127.0.0.1:9876", broker.name_server)
            for text in programs(section("dramatiq.md"))
        )
        (tmp_path / "shop.py").write_text(shop)

        run(tmp_path, f"from shop import *\n{send}")

        with Producer(broker.name_server) as producer:
            assert producer.pending("default").count == 1
