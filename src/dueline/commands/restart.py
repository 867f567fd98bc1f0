"""`dueline restart`: other processes for a running `dueline serve`, which goes on.

For an upgrade of the installed files: the new broker is loaded before the old one closes. Exit
codes: 0 restarted, 1 the new processes could not be loaded and the old ones go on, 2 there is
nothing to restart.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path
from typing import Final

import msgspec

from dueline.commands.examples import show_examples
from dueline.commands.settings import add_settings_arguments, load_settings
from dueline.commands.terminal import add_json_argument, say, to_json
from dueline.errors import Unavailable
from dueline.server.folder import owner_of
from dueline.server.restarting import Note, read_note

__all__ = ["configure", "run"]

WAIT_S_MAX: Final = 900.0
_LOOK_AGAIN_S: Final = 0.05


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_settings_arguments(parser, ("--data",))
    add_json_argument(parser)
    show_examples(
        parser,
        """
        dueline restart
        dueline restart --data /var/lib/dueline

        exit codes: 0 restarted; 1 the new processes could not be loaded, the old ones go on;
                    2 there is nothing to restart
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Ask for it, and wait for the outcome."""
    folder = load_settings(args).config.folder
    pid = owner_of(folder)
    if pid is None:
        raise Unavailable(f"data folder {folder}: expected a running `dueline serve`, found none")
    note = read_note(folder)
    if note is None or note.pid != pid:
        raise Unavailable(
            f"process {pid} cannot be restarted in place: it is starting, or of an older version; "
            "stop it and start it again"
        )
    found = _restarted(folder, pid)
    say(*to_json(msgspec.to_builtins(found))) if args.json else say(found.message)
    return 0 if found.is_done else 1


def _restarted(folder: Path, pid: int) -> Note:
    asked_s = time.monotonic()
    try:
        os.kill(pid, signal.SIGHUP)
    except OSError as error:
        raise Unavailable(f"process {pid}: expected to signal it, found: {error}") from error
    while time.monotonic() - asked_s < WAIT_S_MAX:
        note = read_note(folder)
        if note is not None and note.pid == pid and note.began_s >= asked_s:
            return note
        if owner_of(folder) != pid:
            raise Unavailable(f"process {pid} has ended meanwhile; broker.log says why")
        time.sleep(_LOOK_AGAIN_S)
    raise Unavailable(f"process {pid} has not said within {WAIT_S_MAX:g} s how it went")
