"""What holds for every command."""

import pytest

from dueline.commands.catalogue import COMMANDS, parser_of


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_name_the_command(name: str) -> None:
    help_text = parser_of(name).format_help()

    _, _, examples = help_text.partition("examples:\n")
    assert f"dueline {name}" in examples
