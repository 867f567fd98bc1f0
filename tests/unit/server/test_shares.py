from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueline.errors import LimitExceeded
from dueline.server.shares import Share, Shares, Tally


class Holders:
    """Who holds what, and who gave up."""

    def __init__(self, count_max: int) -> None:
        self.shares = Shares("waiting pulls", count_max)
        self.held: list[tuple[str, str, Share]] = []
        self.gone: list[tuple[str, str]] = []

    def take(self, peer: str, connection: str) -> bool:
        entry: list[tuple[str, str, Share]] = []

        def give_up() -> None:
            self.held.remove(entry[0])
            self.gone.append(entry[0][:2])

        try:
            share = self.shares.take(peer, connection, give_up)
        except LimitExceeded:
            return False
        entry.append((peer, connection, share))
        self.held.append(entry[0])
        return True

    def counts(self, place: int = 0) -> Counter[object]:
        return Counter(entry[place] for entry in self.held)


def test_one_peer_may_have_everything_while_nobody_else_wants_it() -> None:
    holders = Holders(100)

    assert all(holders.take("a", f"a{number % 3}") for number in range(100))

    assert not holders.gone


def test_whoever_has_the_most_gives_up_its_oldest_for_who_has_less() -> None:
    holders = Holders(10)
    for number in range(10):
        holders.take("a", "a1" if number % 3 else "a2")  # 6 and 4

    assert all(holders.take("b", "b1") for _ in range(5))

    assert holders.counts() == {"a": 5, "b": 5}
    assert not holders.take("b", "b1"), "it has as many as anybody"
    assert Counter(holders.gone) == {("a", "a1"): 3, ("a", "a2"): 2}
    assert holders.shares.count == len(holders.held) == 10


def test_connections_of_one_address_share_among_themselves() -> None:
    holders = Holders(25)
    for number in range(25):
        holders.take("nat", f"hostile-{number % 2}")

    assert all(holders.take("nat", "honest") for _ in range(8))

    assert holders.counts(1)["honest"] == 8
    assert not holders.take("nat", "hostile-0")


def test_what_cannot_be_given_up_is_kept() -> None:
    shares = Shares("calls", 2)
    kept = [shares.take("a", 1), shares.take("a", 1)]

    with pytest.raises(LimitExceeded, match="calls: expected at most 2"):
        shares.take("b", 1)

    kept[0].leave()
    kept[0].leave()
    shares.take("b", 1)
    assert (shares.count, shares.refused_count, shares.given_up_count) == (2, 1, 0)


@given(steps=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2), st.booleans())))
def test_counts_and_bounds_hold_in_any_order(steps: list[tuple[str, int, bool]]) -> None:
    holders = Holders(6)

    for peer, connection, leaves in steps:
        if leaves and holders.held:
            holders.held.pop(connection % len(holders.held))[2].leave()
            continue
        before = holders.counts()
        is_taken = holders.take(peer, f"{peer}{connection}")
        if not is_taken:
            assert before[peer] + 1 >= max(before.values())

    assert holders.shares.count == len(holders.held) <= 6


@given(steps=st.lists(st.tuples(st.sampled_from("abc"), st.booleans())))
def test_a_tally_agrees_with_a_counter(steps: list[tuple[str, bool]]) -> None:
    tally, model = Tally[str](), Counter[str]()

    for key, is_added in steps:
        if is_added:
            tally.add(key)
            model[key] += 1
        elif model[key]:
            tally.remove(key)
            model[key] -= 1
        if +model:
            assert model[tally.largest()] == max(model.values())
        assert all(tally.count(each) == model[each] for each in "abc")


def test_a_peer_with_a_quota_gets_no_more_while_there_is_enough() -> None:
    told: list[str] = []
    shares = Shares(
        "waiting pulls",
        100,
        quota=lambda peer: 2 if peer == "a" else None,
        on_limited=told.append,
    )
    first = shares.take("a", "1")
    shares.take("a", "2")

    with pytest.raises(LimitExceeded, match="waiting pulls of a: expected at most 2"):
        shares.take("a", "3")
    for number in range(10):
        shares.take("b", str(number))
    first.leave()
    shares.take("a", "3")

    assert told == ["address a"]
