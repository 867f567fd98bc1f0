import io
import json
import os
import sys

import pytest
from tests.unit.commands.conftest import Run


class BecomesAnother(Exception):
    """Raised where the command would become another process."""


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_it_becomes_sparks_process_and_says_so_to_programs(
    run: Run, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    seen: list[list[str]] = []

    def become(path: str, command: list[str], environment: object) -> None:
        seen.append(command)
        raise BecomesAnother

    monkeypatch.setattr(os, "execve", become)
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with pytest.raises(BecomesAnother):
        run("cluster", *flags, "master", "--port", "7077")

    assert seen[0][-2:] == ["--port", "7077"]
    expected = [{"pid": os.getpid(), "role": "master", "command": seen[0]}] if flags else []
    assert [json.loads(line) for line in out.getvalue().splitlines()] == expected
