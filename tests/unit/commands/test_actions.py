import argparse

import pytest

from dueline.commands.actions import Actions
from dueline.commands.terminal import add_json_argument


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], (None, False)),
        (["--json"], (None, True)),
        (["make"], ("make", False)),
        (["--json", "make"], ("make", True)),
        (["make", "--json"], ("make", True)),
    ],
)
def test_shared_flags_stand_before_an_action_or_behind_it(
    words: list[str], expected: tuple[str | None, bool]
) -> None:
    parser = argparse.ArgumentParser()
    Actions(parser, add_json_argument).add("make", "make it", "dueline x make")

    args = parser.parse_args(words)

    assert (args.action, args.json) == expected
