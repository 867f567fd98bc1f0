"""`dueline check DIR`: read a whole store and say what is damaged, missing or inconsistent.

Works on a stopped store and beside a running broker, and changes nothing. Exit codes: 0 sound,
1 opening the store repairs what was found and nothing is lost, 2 something is lost, stays wrong
when the store is opened, or cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from dueline.commands.examples import show_examples
from dueline.commands.meter import Meter
from dueline.commands.terminal import say, to_json
from dueline.errors import Unavailable
from dueline.times import show_time

if TYPE_CHECKING:
    from dueline.audit import Audit, Finding

__all__ = ["configure", "print_audit", "run"]

_LABELS: Final = {"note": "note", "repair": "repaired by opening", "loss": "LOST OR WRONG"}
_VERDICTS: Final = {
    "sound": "sound",
    "repairable": "opening it repairs what was found; nothing is lost",
    "damaged": "DAMAGED: something is lost, or stays wrong when it is opened",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("path", type=Path, help="a broker's data folder, or the store in it")
    parser.add_argument("--json", action="store_true", help="the result for programs")
    parser.add_argument("--quiet", action="store_true", help="no progress, also on a terminal")
    show_examples(
        parser,
        """
        dueline check /var/lib/dueline
        dueline check /backup/20261116T120000Z/data --json

        exit codes: 0 sound; 1 opening the store repairs it, nothing is lost;
                    2 something is lost, stays wrong, or cannot be read
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Check, and print what was found."""
    from dueline.audit import audit  # loads Arrow

    meter = Meter(is_shown=sys.stderr.isatty() and not args.quiet)
    started = monotonic()
    try:
        found = audit(args.path, progress=meter)
    except BrokenPipeError:
        raise  # about what we print, not about what we read
    except OSError as error:
        raise Unavailable(f"cannot read {args.path}: {error}", path=str(args.path)) from error
    finally:
        meter.clear()
    if args.json:
        say(*to_json(found.to_json(), indent=1))
    else:
        print_audit(found)
    text = f"{found.path}: {found.verdict}, checked in {monotonic() - started:.1f} s"
    say(text, file=sys.stderr)
    return found.exit_code


def print_audit(found: Audit) -> None:
    """The findings, the worst first, and what the store holds."""
    kept = sorted(found.findings.kept, key=lambda finding: -finding.severity)
    for finding in kept:
        _print_finding(finding)
    for severity, kind, count in found.findings.left_out():
        say(f"{_LABELS[severity.name.lower()]}: {kind}: and {count:,} more")
    counts = found.counts
    say(
        f"{counts['delay_records']:,} records in the delay log, {counts['commit_records']:,} in "
        f"the commit log, {counts['queues']:,} queues"
    )
    next_due = f", the next due {show_time(found.next_due_ms)}" if found.next_due_ms else ""
    say(
        f"{counts['pending']:,} of {counts['accepted_delayed']:,} delayed messages pending"
        f"{next_due}; {counts['at_gate']:,} carried over that wait for their time"
    )
    running = " (a broker is running; judged is what it had written)" if found.is_running else ""
    say(f"{found.path}: {_VERDICTS[found.verdict]}{running}")


def _print_finding(finding: Finding) -> None:
    label = _LABELS[finding.severity.name.lower()]
    say(f"{label}: {finding.kind}, {finding.subject}: {finding.text}")
    if finding.remedy:
        say(f"    {finding.remedy}")
