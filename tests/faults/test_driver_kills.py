"""kill -9 of the pipeline before, during and after a commit; a clock that is set while it runs."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.spark.conftest import START_MS, Broker
from tests.spark.test_delivery_process import StartDriver, start_driver
from tests.waiting import wait_until

from dueline.message import Message
from dueline.store import StoreOptions

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COUNT = 300
__all__ = ["start_driver"]


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    options = StoreOptions(commit_segment_size_bytes=1 << 22, delay_segment_size_bytes=1 << 22)
    broker = Broker(tmp_path / "store", "shard-a", options)
    yield broker
    broker.close()


@pytest.mark.parametrize(
    "moment", ["before", "during", pytest.param("after", marks=pytest.mark.soak)]
)
def test_a_pipeline_killed_at_its_commit_delivers_once(
    broker: Broker,
    start_driver: StartDriver,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    for number in range(COUNT):
        broker.put(f"{number}".encode(), delay_ms=1_000 + number % 7, queue_id=number % 2)
    kills = Kills()
    deliver = broker.store.deliver

    def deliver_and_die(*given: Any, **named: Any) -> Any:
        if moment == "before":
            kills.kill()
            raise RuntimeError("the pipeline died before this")
        if moment == "during":
            kills.kill()
        result = deliver(*given, **named)
        kills.kill()
        return result

    monkeypatch.setattr(broker.store, "deliver", deliver_and_die)
    kills.victim = start_driver(broker)
    wait_until(lambda: kills.count > 0, "the first commit")
    monkeypatch.setattr(broker.store, "deliver", deliver)
    start_driver(broker)
    wait_until(lambda: broker.store.pending_count() == 0, "everything carried over")
    assert broker.bodies() == []
    broker.advance(1_006)

    for queue in (0, 1):
        expected = sorted(
            (number for number in range(COUNT) if number % 2 == queue),
            key=lambda number: (number % 7, number),
        )
        assert broker.bodies(queue_id=queue) == [f"{number}".encode() for number in expected]


def test_a_clock_that_is_set_back_and_forth_makes_nothing_early_or_twice(
    broker: Broker,
    start_driver: StartDriver,
) -> None:
    start_driver(broker)
    steps_ms = [0, -3_600_000, 2_000, 7_200_000, -60_000, 500]
    promised: list[tuple[int, bytes]] = []
    for number, step_ms in enumerate(steps_ms):
        broker.now_ms += step_ms
        body = f"{number}".encode()
        message = Message(topic="orders", body=body, properties={"TIMER_DELAY_MS": "1000"})
        due_ms = broker.store.put(message).due_ms
        assert due_ms is not None
        promised.append((due_ms, body))
    wait_until(lambda: broker.store.pending_count() == 0, "everything carried over")
    now_ms = broker.store.clock.now_ms()
    assert now_ms >= START_MS + 3_602_000

    due_now = [body for due_ms, body in sorted(promised) if due_ms <= now_ms]
    assert broker.bodies() == due_now
    broker.now_ms = now_ms + 1_000
    assert broker.bodies() == [body for _, body in sorted(promised)]


class Kills:
    """Kills a process once, for good."""

    def __init__(self) -> None:
        self.victim: subprocess.Popen[bytes] | None = None
        self.count = 0

    def kill(self) -> None:
        if self.victim is not None and self.victim.poll() is None:
            self.victim.kill()
            self.victim.wait()
        self.count += 1
