"""Arguments that say when."""

import argparse

import pytest

from dueline.commands.times import add_due_arguments, due_properties
from dueline.errors import InvalidRequest


def parsed(*words: str, is_required: bool = False) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_due_arguments(parser, is_required=is_required)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "properties"),
    [
        ((), {}),
        (("--delay", "1h 30m"), {"TIMER_DELAY_MS": "5400000"}),
        (("--at", "2100-01-01T00:00:00Z"), {"TIMER_DELIVER_MS": "4102444800000"}),
        (("--level", "3"), {"DELAY": "3"}),
    ],
)
def test_arguments_become_properties(words: tuple[str, ...], properties: dict[str, str]) -> None:
    assert due_properties(parsed(*words)) == properties


def test_one_way_to_say_when_is_enough() -> None:
    with pytest.raises(argparse.ArgumentError, match="not allowed with"):
        parsed("--delay", "1s", "--level", "3")


def test_levels_count_from_one() -> None:
    with pytest.raises(InvalidRequest, match="level: expected 1 or more, found 0"):
        due_properties(parsed("--level", "0"))


def test_the_past_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="expected a time to come"):
        due_properties(parsed("--at", "2001-01-01T00:00:00Z"))
