import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.unit.commands.conftest import Run

from dueline.commands.catalogue import COMMANDS
from dueline.commands.completion import _SCRIPTS

BASH_ASKS = """
source {script}
COMP_WORDS=({words}) COMP_CWORD={last}
_dueline
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    program = BASH_ASKS.format(
        script=script, words=" ".join(f"'{word}'" for word in words), last=len(words) - 1
    )
    ran = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return ran.stdout.split()


def test_bash_completes_commands_flags_and_actions(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(run("completion", "bash").out)

    assert completed(script, "dueline", "") == list(COMMANDS)
    assert completed(script, "dueline", "ca") == ["cancel"]
    assert completed(script, "dueline", "send", "--d") == ["--delay"]
    assert set(completed(script, "dueline", "topics", "")) >= {"create", "delete", "--queues"}
    assert completed(script, "dueline", "completion", "z") == ["zsh"]


@pytest.mark.parametrize("shell", _SCRIPTS)
def test_every_shell_is_told_every_command_and_flag(run: Run, shell: str, tmp_path: Path) -> None:
    words = json.loads(run("completion", shell, "--json").out)
    text = run("completion", shell).out

    assert list(words) == list(COMMANDS)
    for name, some in words.items():
        assert name in text
        for word in some:
            assert (f"-l {word[2:]} " if shell == "fish" and word[:2] == "--" else word) in text
    if shutil.which(shell):
        script = tmp_path / "completion"
        script.write_text(text)
        assert subprocess.run([shell, "-n", str(script)], check=False).returncode == 0


def test_an_unknown_shell_is_refused(run: Run) -> None:
    assert run("completion", "tcsh").code == 2
