"""A pipeline that never becomes ready: what needs it waits, and what does not comes on time."""

import os
import signal
from pathlib import Path

import pytest
from tests.serve.conftest import Served, outgoing, receive, send, served
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

TRANSFORM = """\
def same(due):
    return due
"""


def halted(serving: Served, start_count: int) -> int:
    """Stop the pipeline's processes in the middle of their start; returns the first one's id."""

    def starting() -> int | None:
        driver = serving.report().driver
        return driver.pid if driver.start_count == start_count else None

    pid = wait_until(starting, "the pipeline's process")
    os.killpg(pid, signal.SIGSTOP)
    return pid


def check_arrivals(serving: Served, topic: str, delays_ms: tuple[int, ...]) -> None:
    due_ms = send(
        serving,
        *(outgoing(f"{topic} {ms}", topic=topic, delay_ms=ms) for ms in delays_ms),
    )
    arrivals = receive(serving, len(delays_ms), topic=topic)

    assert [arrival.body for arrival in arrivals] == sorted(due_ms, key=lambda body: due_ms[body])
    for arrival in arrivals:
        assert arrival.came_ms >= arrival.message.store_ms >= due_ms[arrival.body]


def test_without_a_transform_nothing_waits_for_the_pipeline(tmp_path: Path) -> None:
    with served(tmp_path / "data") as serving:
        pid = halted(serving, 1)
        check_arrivals(serving, "starting", (2_500, 20, 1_200, 700, 4_000))
        assert serving.report().driver.status == "starting"

        os.killpg(pid, signal.SIGKILL)
        halted(serving, 2)
        check_arrivals(serving, "again", (1_500, 600))

        report = serving.report()
        assert (report.driver.status, report.pending) == ("starting", 0)
        assert report.delivered == 7
        assert serving.stop() == 0


def test_with_a_transform_messages_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keeping.py").write_text(TRANSFORM)
    monkeypatch.chdir(tmp_path)  # where it is found
    with served(tmp_path / "data", "--transform", "keeping:same") as serving:
        halted(serving, 1)
        send(serving, outgoing("short", delay_ms=20), outgoing("long", delay_ms=600))

        wait_until(
            lambda: serving.report().overdue == 2 or serving.report().delivered, "due messages"
        )

        report = serving.report()
        assert (report.overdue, report.pending, report.delivered) == (2, 2, 0)
        assert serving.stop() == 0
