"""`dueline restore BACKUP DIR`: make a data folder again from a backup, and check it.

Exit codes: 0 restored and sound, 1 restored, and opening it repairs something, 2 nothing was
restored, or what was is damaged.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dueline.commands.check import print_audit
from dueline.commands.examples import show_examples
from dueline.commands.meter import Meter
from dueline.commands.terminal import say, to_json
from dueline.times import show_time

if TYPE_CHECKING:
    from dueline.backup import Restored

__all__ = ["configure", "run"]

_WARNING: Final = (
    "Run one broker only: if the old one still runs, or another was started from this backup, each",
    "of them delivers every pending message. What was accepted, cancelled or consumed after that",
    "moment is not known here: cancelled messages come, and consumed ones come again.",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "backup", type=Path, help="a backup (DEST/20261116T120000Z), or DEST for the newest"
    )
    parser.add_argument("folder", type=Path, help="the new data folder; must be empty")
    parser.add_argument("--json", action="store_true", help="the result for programs")
    show_examples(
        parser,
        """
        dueline restore /backup /var/lib/dueline
        dueline restore /backup/20261116T120000Z /srv/dueline-copy
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Restore, and print what."""
    from dueline.backup import find_generation, restore  # loads Arrow

    meter = Meter(is_shown=sys.stderr.isatty())
    try:
        restored = restore(find_generation(args.backup), args.folder, progress=meter)
    finally:
        meter.clear()
    if args.json:
        say(*to_json(_plain(restored), indent=1))
    else:
        _print(restored)
    return restored.audit.exit_code


def _plain(restored: Restored) -> dict[str, object]:
    return {
        "folder": str(restored.folder),
        "backup": str(restored.generation),
        "cut_ms": restored.manifest.cut_ms,
        "source": restored.manifest.source,
        "check": restored.audit.to_json(),
    }


def _print(restored: Restored) -> None:
    print_audit(restored.audit)
    say(
        f"restored {len(restored.manifest.entries):,} files from {restored.generation}: everything "
        f"that {restored.manifest.source} had accepted by {show_time(restored.manifest.cut_ms)}"
    )
    say(*_WARNING)
