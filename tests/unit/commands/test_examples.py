import pytest
from tests.unit.commands.conftest import Run

from dueline.commands.catalogue import COMMANDS

OURS = sorted(set(COMMANDS) - {"log"})


@pytest.mark.parametrize("command", OURS)
def test_help_ends_with_examples(run: Run, command: str) -> None:
    ran = run(command, "--help")

    assert ran.code == 0
    assert f"examples:\n  dueline {command}" in ran.out
