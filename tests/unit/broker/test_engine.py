from collections.abc import Iterator
from pathlib import Path

import pytest

from dueline.broker.engine import Engine
from dueline.clock import Clock
from dueline.message import Message
from dueline.store import ReadStatus, Store, StoreOptions
from dueline.store import record as records
from dueline.store.restore import deliveries

OPTIONS = StoreOptions(commit_segment_size_bytes=1 << 18, delay_segment_size_bytes=1 << 18)


class Broker:
    """An engine whose writer writes at once, on a clock that is moved by hand."""

    def __init__(self, path: Path) -> None:
        self.now_ms = 1_000_000
        self.store = Store.open(path, OPTIONS, clock=Clock(lambda: self.now_ms))
        self.engine = Engine(self.store)

    def send(self, *bodies: str, **properties: str) -> None:
        messages = [Message(topic="t", body=b.encode(), properties=properties) for b in bodies]
        self.store.put_all(messages)

    def carry(self) -> None:
        corner = self.store.next_corner(until_ms=self.now_ms + 10_000, row_count_max=100)
        self.store.deliver([deliveries(self.store.read_window(self.store.window(corner)))])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    broker.store.close()


def test_a_reader_at_the_end_is_woken_and_then_finds_the_message(broker: Broker) -> None:
    woken: list[int] = []
    waiting = broker.engine.pull("t", 0, 0, wake=lambda: woken.append(1))
    assert waiting.result.status is ReadStatus.AT_END
    assert waiting.watch is not None

    broker.send("a", "b")

    assert woken == [1]
    found = broker.engine.pull("t", 0, 0, wake=lambda: woken.append(2))
    assert [records.decode(view).body for view in found.result.records] == [b"a", b"b"]
    assert found.watch is None


def test_a_delayed_message_wakes_its_reader_when_it_is_due_and_not_before(broker: Broker) -> None:
    woken: list[int] = []
    broker.send("a", TIMER_DELAY_MS="1000")
    broker.engine.pull("t", 0, 0, wake=lambda: woken.append(broker.now_ms))

    broker.carry()
    broker.now_ms += 999
    broker.store.open_gate()
    assert woken == []
    broker.now_ms += 1
    broker.store.open_gate()

    assert woken == [1_001_000]


def test_a_message_that_comes_between_reading_and_watching_is_not_missed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = broker.engine.watch

    def late_watch(*arguments: object) -> object:
        broker.send("just now")
        return watch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(broker.engine, "watch", late_watch)

    pulled = broker.engine.pull("t", 0, 0, wake=lambda: None)

    assert pulled.result.status is ReadStatus.FOUND
    assert broker.engine.figures().waiting_reader_count == 0


def test_a_reader_beyond_the_end_does_not_wait(broker: Broker) -> None:
    pulled = broker.engine.pull("t", 0, 5, wake=lambda: None)

    assert (pulled.result.status, pulled.watch) == (ReadStatus.BEYOND_END, None)


def test_a_stopping_broker_refuses_and_lets_readers_go(broker: Broker) -> None:
    woken: list[int] = []
    broker.engine.pull("t", 0, 0, wake=lambda: woken.append(1))

    broker.engine.refuse()

    assert woken == [1]
    assert not broker.engine.is_accepting
    assert broker.engine.pull("t", 0, 0, wake=lambda: None).watch is None
    broker.engine.watch("t", 0, lambda: woken.append(2))
    assert woken == [1, 2]


def test_the_next_due_may_be_at_the_gate_already(broker: Broker) -> None:
    broker.send("x", TIMER_DELAY_MS="1000")
    broker.carry()
    broker.send("y", TIMER_DELAY_MS="2000")

    figures = broker.engine.figures()

    assert (figures.next_due_ms, figures.pending_count, figures.at_gate_count) == (1_001_000, 1, 1)
