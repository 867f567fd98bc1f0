"""Receipts against a plain model, in random histories with restarts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.broker.inflight.world import World

from dueline.broker.inflight import Holding


class Model:
    """What should be: a dictionary of who is visible when, beside the real thing."""

    holding = Holding(invisible_ms=10_000, attempt_max=1_000)

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.visible_ms: dict[str, int] = {}
        self.order: dict[str, str] = {}
        self.done: set[str] = set()
        self.newest: dict[str, str] = {}
        self.taken: list[tuple[str, str]] = []

    def send(self, queue_id: int, key: str) -> None:
        body = str(len(self.visible_ms))
        self.world.send(body, queue_id=queue_id, **({"__SHARDINGKEY": key} if key else {}))
        self.visible_ms[body] = 0
        self.order[body] = f"{queue_id}{key}" if key else ""

    def take(self, count: int, _: str) -> None:
        now_ms = self.world.clock.now_ms()
        for held in self.world.take(count, holding=self.holding).messages:
            body = held.record.body.decode()
            assert body not in self.done
            assert self.visible_ms[body] <= now_ms
            assert self.before(body) <= self.done
            self.visible_ms[body] = now_ms + 10_000
            self.newest[body] = held.receipt
            self.taken.append((body, held.receipt))

    def before(self, body: str) -> set[str]:
        """The earlier messages of its message group."""
        own = self.order[body]
        return {each for each in self.order if own and self.order[each] == own and each != body} & {
            each for each in self.order if int(each) < int(body)
        }

    def finish(self, number: int, _: str) -> None:
        for body, receipt in self.chosen(number):
            self.world.finish(receipt)
            self.done.add(body)

    def change(self, number: int, _: str) -> None:
        for body, receipt in self.chosen(number):
            self.newest[body] = self.world.inflight.extend("g", "t", receipt, 500)
            self.visible_ms[body] = self.world.clock.now_ms() + 500

    def chosen(self, number: int) -> list[tuple[str, str]]:
        """One receipt that was given out, if it is still the newest of an unfinished message."""
        some = self.taken[number % len(self.taken) :][:1] if self.taken else []
        return [
            (body, receipt)
            for body, receipt in some
            if self.newest[body] == receipt and body not in self.done
        ]

    def wait(self, milliseconds: int, _: str) -> None:
        self.world.clock.advance(milliseconds)

    def restart(self, _: int, __: str) -> None:
        self.world.restart()

    def drain(self) -> None:
        for _ in range(len(self.visible_ms) + 1):  # message groups come out one by one
            self.world.clock.advance(10_000)
            self.take(100, "")
            for number in range(len(self.taken)):
                self.finish(number, "")


def _step(name: str, numbers: st.SearchStrategy[int], *texts: str) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), numbers, st.sampled_from(texts or ("",)))


Step = tuple[str, int, str]
STEPS = st.lists(
    st.one_of(
        _step("send", st.integers(0, 1), "", "x", "y"),
        _step("take", st.integers(1, 4)),
        _step("finish", st.integers(0, 30)),
        _step("change", st.integers(0, 30)),
        _step("wait", st.integers(1, 12_000)),
        _step("restart", st.just(0)),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_random_histories_lose_and_repeat_nothing(
    steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = Model(tmp_path_factory.mktemp("pop"))

    for name, number, text in steps:
        getattr(model, name)(number, text)
    model.drain()

    assert model.done == set(model.visible_ms)
    model.world.store.close()
