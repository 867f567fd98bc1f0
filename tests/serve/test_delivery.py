"""Broker and pipeline together, and what happens when one of them dies.

The tests of this module share one broker, so each reads only what it has sent itself.
"""

import os
import random
import signal
from pathlib import Path

import pytest
from tests.serve.conftest import (
    Served,
    outgoing,
    receive,
    send,
    served,
    session_members,
)
from tests.serve.reading import Arrival
from tests.waiting import wait_until

from dueline.flight.protocol import Answers, Cancel

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def send_some(serving: Served, topic: str, count: int) -> dict[str, int]:
    """Messages with delays up to four seconds; returns when each is due, by body."""
    choices = random.Random(topic)
    messages = [
        outgoing(f"{topic} {number}", topic=topic, delay_ms=choices.randint(1, 4_000))
        for number in range(count)
    ]
    return send(serving, *messages)


def check_promises(arrivals: list[Arrival], due_ms: dict[str, int]) -> None:
    """Each once, none early, and each due when its producer was told."""
    assert sorted(arrival.body for arrival in arrivals) == sorted(due_ms)
    for arrival in arrivals:
        assert arrival.message.due_ms == due_ms[arrival.body]
        assert arrival.came_ms >= arrival.message.store_ms >= due_ms[arrival.body]


def test_delayed_messages_come_once_in_order_and_never_early(serving: Served) -> None:
    due_ms = send_some(serving, "plain", 200)

    arrivals = receive(serving, 200, topic="plain")

    check_promises(arrivals, due_ms)
    times = [arrival.message.due_ms for arrival in arrivals]
    assert times == sorted(due_ms.values())


def test_a_cancelled_message_never_comes(serving: Served) -> None:
    send(
        serving,
        outgoing("stays 1", topic="kept", delay_ms=3_000),
        outgoing("goes", topic="kept", delay_ms=4_000, key="gone"),
        outgoing("stays 2", topic="kept", delay_ms=5_000),
    )
    with serving.client() as client:
        answers = client.call(Cancel(keys=("gone",)), Answers).answers

    arrivals = receive(serving, 2, topic="kept")

    assert answers == ("cancelled",)
    assert [arrival.body for arrival in arrivals] == ["stays 1", "stays 2"]
    assert serving.report().cancelled == 1


def test_a_killed_pipeline_is_started_again_and_goes_on(serving: Served) -> None:
    pid = serving.wait_until_ready().driver.pid
    assert pid is not None
    before_ms = send_some(serving, "before", 100)
    receive(serving, 20, topic="before")

    os.kill(pid, signal.SIGKILL)
    after_ms = send_some(serving, "after", 50)

    wait_until(lambda: serving.report().driver.start_count == 2, "another pipeline")
    wait_until(lambda: not session_members(pid), "the end of what it left behind")
    check_promises(receive(serving, 100, topic="before"), before_ms)
    check_promises(receive(serving, 50, topic="after"), after_ms)
    assert "Spark starting again (start 2)" in serving.output


def test_a_killed_broker_leaves_no_orphans_and_the_next_one_delivers(tmp_path: Path) -> None:
    with served(tmp_path / "data") as serving:
        pid = wait_until(lambda: serving.report().driver.pid, "a pipeline")
        due_ms = send_some(serving, "broker", 50)

        serving.stop(signal.SIGKILL)

        wait_until(lambda: not session_members(pid), "the orphans' end")
    with served(tmp_path / "data") as serving:
        due_ms |= send_some(serving, "broker", 1)  # the same body again: it must come twice
        arrivals = receive(serving, 51, topic="broker")

        assert serving.stop(signal.SIGTERM) == 0

    bodies = [arrival.body for arrival in arrivals]
    assert sorted(bodies) == sorted([*due_ms, "broker 0"])


def test_stopping_takes_the_pipeline_along(tmp_path: Path) -> None:
    with served(tmp_path / "data") as serving:
        pid = wait_until(lambda: serving.report().driver.pid, "a pipeline")

        assert serving.stop(signal.SIGTERM) == 0

        assert session_members(pid) == []


def test_what_falls_due_after_a_clean_stop_needs_no_pipeline(tmp_path: Path) -> None:
    with served(tmp_path / "data") as serving:
        serving.wait_until_ready()
        due_ms = send(serving, outgoing("soon", delay_ms=25_000))
        send(serving, outgoing("not soon", delay_ms=3_600_000))
        assert serving.stop() == 0

    with served(tmp_path / "data", "--no-spark") as serving:
        report = serving.report()
        check_promises(receive(serving, 1), due_ms)

    assert report.pending == 1, "what is due after the runway waits for the pipeline"
