"""The dispatcher: one module per command, errors as one line, exit codes."""

from __future__ import annotations

import argparse
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tests.golden.layout import STORE
from tests.waiting import PATIENCE_S

from dueline import __version__, cli
from dueline.commands.catalogue import COMMANDS, command
from dueline.errors import InvalidRequest


def test_every_command_is_a_module() -> None:
    for name, summary in COMMANDS.items():
        module = command(name)
        module.configure(argparse.ArgumentParser())
        assert callable(module.run)
        assert summary


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])

    assert caught.value.code == 0
    out = capsys.readouterr().out
    for name in COMMANDS:
        assert f"    {name}" in out


@pytest.mark.parametrize("words", [[], ["nonsense"], ["log"], ["log", "x", "--nonsense"]])
def test_bad_words_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)

    assert caught.value.code == 2
    assert "usage: dueline" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])

    assert capsys.readouterr().out == f"dueline {__version__}\n"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InvalidRequest("level: expected 1, found 0"), 2, "dueline log: level: expected 1"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_exit_codes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    text: str,
) -> None:
    def fail(args: argparse.Namespace) -> int:
        raise error

    fake = SimpleNamespace(configure=lambda parser: None, run=fail)
    monkeypatch.setattr(cli, "_command", lambda name: fake)

    assert cli.main(["log"]) == code
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("words", [["config"], ["log", str(STORE)]])
def test_reader_that_has_seen_enough_is_no_error(words: list[str]) -> None:
    """`dueline … | head`: the pipe is closed while there is more to say."""
    program = "import sys; from dueline.cli import main; sys.exit(main(sys.argv[1:]))"
    child = subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    errors = child.stderr.read()
    child.stderr.close()

    assert (child.wait(timeout=PATIENCE_S), errors) == (0, b"")


def test_printing_a_log_does_not_load_spark() -> None:
    program = (
        "import sys; from dueline.cli import main; main(['log', '/nonexistent']); "
        "sys.exit('pyspark' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
