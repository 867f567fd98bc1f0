"""`dueline backup DEST`: copy a broker's data, running or stopped, into a new generation.

Exit codes: 0 the copy is made and sound, 1 it is made and opening it repairs something, 2 it could
not be made, or what was copied is damaged (the copy is kept, and no older one is removed).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dueline.clock import Clock
from dueline.commands.check import print_audit
from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.meter import Meter
from dueline.commands.terminal import say, to_json
from dueline.errors import InvalidRequest
from dueline.times import show_time

if TYPE_CHECKING:
    from dueline.backup import Result

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("dest", type=Path, help="a folder for backups, best on another disk")
    add_broker_argument(parser)
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="the data folder of a broker that is stopped"
    )
    parser.add_argument(
        "--keep", type=int, default=0, metavar="N", help="remove all but the newest N backups"
    )
    parser.add_argument("--list", action="store_true", help="show what backups are there")
    parser.add_argument("--no-check", action="store_true", help="do not read the copy again")
    parser.add_argument("--json", action="store_true", help="the result for programs")
    show_examples(
        parser,
        """
        dueline backup /backup --keep 7
        dueline backup /backup --broker 10.0.0.5:8815
        dueline backup /backup --data /var/lib/dueline
        dueline backup /backup --list
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Make a backup, and print what it holds."""
    from dueline.backup import BrokerSource, FolderSource, Vault, back_up  # loads Arrow

    if args.keep < 0 or (args.data is not None and args.broker is not None):
        raise InvalidRequest("expected --keep 0 or more, and either --broker or --data")
    if args.list:
        return _list(args.dest, as_json=args.json)
    vault = Vault(args.dest)
    meter = Meter(is_shown=sys.stderr.isatty())
    try:
        if args.data is not None:
            source: BrokerSource | FolderSource = FolderSource(args.data, now_ms=Clock().now_ms())
        else:
            source = BrokerSource(connect(args))
        try:
            result = back_up(
                source, vault, keep=args.keep, is_checked=not args.no_check, progress=meter
            )
        finally:
            meter.clear()
            source.close()
    finally:
        vault.close()
    _print(result, as_json=args.json)
    return result.audit.exit_code if result.audit is not None else 0


def _print(result: Result, *, as_json: bool) -> None:
    manifest = result.manifest
    if as_json:
        plain = {
            "folder": str(result.folder),
            "cut_ms": manifest.cut_ms,
            "file_count": len(manifest.entries),
            "copied_bytes": result.copied_bytes,
            "linked_bytes": result.linked_bytes,
            "removed": [str(path) for path in result.removed],
            "check": None if result.audit is None else result.audit.to_json(),
        }
        say(*to_json(plain, indent=1))
        return
    if result.audit is not None:
        print_audit(result.audit)
    say(
        f"{result.folder}: everything up to {show_time(manifest.cut_ms)}, "
        f"{len(manifest.entries):,} files; {result.copied_bytes:,} bytes copied, "
        f"{result.linked_bytes:,} known from before"
    )
    for path in result.removed:
        say(f"removed {path}")


def _list(dest: Path, *, as_json: bool) -> int:
    from dueline.backup import Manifest, find_generation, generations_of

    find_generation(dest)  # says so if there is none
    rows = [(path, Manifest.load(path)) for path in generations_of(dest)]
    if as_json:
        plain = [
            {"folder": str(path), "cut_ms": one.cut_ms, "source": one.source, "facts": one.facts}
            for path, one in rows
        ]
        say(*to_json(plain, indent=1))
        return 0
    for path, one in rows:
        pending = f"{one.facts['pending']:,} pending" if "pending" in one.facts else "not checked"
        say(f"{path.name}  up to {show_time(one.cut_ms)}  {pending}  from {one.source}")
    return 0
