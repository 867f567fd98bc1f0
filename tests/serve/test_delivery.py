"""Broker and pipeline together, and what happens when one of them dies."""

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.conftest import (
    READY_S_MAX,
    Served,
    outgoing,
    receive,
    send,
    served,
    session_members,
    wait_until,
)

from dueline.flight.control import ControlClient
from dueline.flight.protocol import Answers, Cancel

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture
def client(serving: Served) -> Iterator[ControlClient]:
    with serving.client() as client:
        yield client


def test_delayed_messages_come_once_and_never_early(tmp_path: Path) -> None:
    """And through everything that can die: the pipeline, then the broker itself."""
    choices = random.Random(7)
    due_ms: dict[str, int] = {}

    def send_some(client: ControlClient, name: str, count: int) -> None:
        messages = [
            outgoing(f"{name}-{number}", delay_ms=choices.randint(1, 8_000), queue_id=0)
            for number in range(count)
        ]
        due_ms.update(send(client, *messages))

    with served(tmp_path / "data") as serving:
        with serving.client() as client:
            send_some(client, "before Spark", 50)
            first = serving.wait_until_ready().driver.pid
            assert first is not None
            send_some(client, "with Spark", 100)
            receive(client, 60)
            os.kill(first, signal.SIGKILL)
            send_some(client, "after the pipeline", 50)
            wait_until(lambda: serving.report().driver.start_count == 2, "another pipeline")
            wait_until(lambda: not session_members(first), "the first pipeline's end")
            second = serving.wait_until_ready().driver.pid
            assert second is not None
            receive(client, 160)
            send_some(client, "before the kill", 50)
        serving.stop(signal.SIGKILL)
        wait_until(lambda: not session_members(second), "the orphans' end", seconds_max=READY_S_MAX)

    with served(tmp_path / "data") as serving, serving.client() as client:
        serving.wait_until_ready()
        arrivals = receive(client, 250)
        assert serving.stop(signal.SIGTERM) == 0

    bodies = [arrival.body for arrival in arrivals]
    assert sorted(bodies) == sorted(due_ms)
    assert [arrival.message.due_ms for arrival in arrivals] == [due_ms[body] for body in bodies]
    assert all(arrival.message.store_ms >= due_ms[arrival.body] for arrival in arrivals)


def test_a_cancelled_message_never_comes(serving: Served, client: ControlClient) -> None:
    send(
        client,
        outgoing("stays 1", delay_ms=3_000),
        outgoing("goes", delay_ms=4_000, key="gone"),
        outgoing("stays 2", delay_ms=5_000),
    )
    answers = client.call(Cancel(keys=("gone",)), Answers).answers

    arrivals = receive(client, 2)

    assert answers == ("cancelled",)
    assert [arrival.body for arrival in arrivals] == ["stays 1", "stays 2"]
    assert serving.report().cancelled == 1


def test_stopping_takes_the_pipeline_along(tmp_path: Path) -> None:
    with served(tmp_path / "data") as serving:
        pid = wait_until(lambda: serving.report().driver.pid, "a pipeline")

        assert serving.stop(signal.SIGTERM) == 0

        assert session_members(pid) == []
