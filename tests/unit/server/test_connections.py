import logging
from dataclasses import dataclass, field

import pytest

from dueline.server.connections import Connections, Place


@dataclass
class Fake:
    """A connection that notes that it was closed."""

    active_s: float = 0.0
    closed: list[str] = field(default_factory=list)

    def close_soon(self) -> None:
        self.closed.append("closed")


@dataclass
class Time:
    now_s: float = 100.0

    def __call__(self) -> float:
        self.now_s += 0.1  # each look finds it later
        return self.now_s


def enter(budget: Connections, peer: str, count: int, time: Time) -> list[tuple[Fake, Place]]:
    made = []
    for _ in range(count):
        fake = Fake(time.now_s)
        place = budget.enter(peer, fake)
        assert place is not None
        made.append((fake, place))
    return made


def test_there_is_room_until_there_is_none_and_again_after_a_leave() -> None:
    time = Time()
    budget = Connections(3, clock_s=time)
    made = enter(budget, "a", 3, time)

    assert budget.enter("a", Fake(time.now_s)) is None
    made[0][1].leave()
    made[0][1].leave()  # once is enough

    assert budget.enter("a", Fake(time.now_s)) is not None
    assert budget.enter("a", Fake(time.now_s)) is None
    assert (budget.file_count, budget.refused_count, budget.closed_count) == (3, 2, 0)


def test_the_longest_silent_goes_first_and_only_if_it_is_silent() -> None:
    time = Time()
    budget = Connections(4, clock_s=time)
    made = enter(budget, "a", 4, time)
    made[2][0].active_s = time.now_s - 60
    made[1][0].active_s = time.now_s - 6

    assert budget.enter("a", Fake(time.now_s)) is not None

    assert [len(fake.closed) for fake, _ in made] == [0, 1, 1, 0]
    assert enter(budget, "a", 1, time)
    assert budget.enter("a", Fake(time.now_s)) is None


def test_whoever_has_the_most_makes_room_for_who_has_less() -> None:
    time = Time()
    budget = Connections(10, clock_s=time)
    many = enter(budget, "a", 9, time)
    few = enter(budget, "b", 1, time)

    few += enter(budget, "b", 4, time)

    assert sum(len(fake.closed) for fake, _ in many) == 4
    assert not any(fake.closed for fake, _ in few)
    assert budget.enter("b", Fake(time.now_s)) is None, "it has its share"
    assert budget.enter("a", Fake(time.now_s)) is None
    assert len(enter(budget, "c", 1, time)) == 1
    assert budget.file_count == 10


def test_a_connection_of_several_files_counts_so() -> None:
    time = Time()
    budget = Connections(7, clock_s=time)
    enter(budget, "a", 3, time)

    assert budget.enter("b", Fake(time.now_s), file_count=3) is not None
    assert budget.enter("c", Fake(time.now_s), file_count=3) is None  # nobody has more than three

    budget.note_other(1)
    assert budget.enter("c", Fake(time.now_s)) is not None  # one of those who have three goes
    assert budget.file_count <= 7


def test_refusals_are_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    budget = Connections(1, clock_s=time)
    enter(budget, "a", 1, time)

    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            assert budget.enter("a", Fake(time.now_s)) is None

    assert len(caplog.records) == 1
    assert "at most 1 open files" in caplog.text


def test_a_peer_with_a_quota_gets_no_more_while_there_is_room_for_others() -> None:
    budget = Connections(100, quota=lambda peer: 2 if peer == "a" else None)
    places = [budget.enter("a", Fake()) for _ in range(3)]

    assert [place is not None for place in places] == [True, True, False]
    assert budget.refused_count == 1
    assert all(budget.enter("b", Fake()) for _ in range(10))

    assert places[0] is not None
    places[0].leave()
    assert budget.enter("a", Fake()) is not None
