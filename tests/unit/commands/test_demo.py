from datetime import timedelta

import pytest
from tests.unit.commands.conftest import Run

from dueline.commands.demo import Plan


def test_a_plan_has_levels_and_delays_within_its_bound() -> None:
    messages = list(Plan(count=300, delay_ms_max=10_000, seed=1).messages())

    levels = [message.delay_level for message in messages]
    delays = [each.delay for each in messages if isinstance(each.delay, timedelta)]
    assert len(messages) == 300
    assert {level for level in levels if level} == {1, 2, 3}
    assert (sum(level is not None for level in levels), len(delays)) == (100, 200)
    assert timedelta(seconds=1) <= min(delays) < max(delays) <= timedelta(seconds=10)
    assert len({message.body for message in messages}) == 300


def test_the_same_seed_gives_the_same_plan() -> None:
    def plan(seed: int) -> list[object]:
        return list(Plan(count=30, delay_ms_max=40_000, seed=seed).messages())

    assert plan(1) == plan(1)
    assert plan(1) != plan(2)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--count", "0"), "count: expected 1 or more"),
        (("--within", "2h"), "within: expected 1s to 60s, found 2h"),
        (("--within", "x"), "duration: expected"),
    ],
)
def test_mistakes_are_told_before_anything_is_started(
    run: Run, words: tuple[str, ...], text: str
) -> None:
    ran = run("demo", *words)

    assert ran.code == 2
    assert text in ran.err
    assert ran.out == ""
