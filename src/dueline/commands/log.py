"""`dueline log PATH`: print the records of a store, Dueline's or RocketMQ's, without touching it.

Works on a whole store, on a folder of segments and on one segment file, also beside a running
broker.
Exit codes: 0 all sound, 1 damage was found (its ranges and reasons are printed), 2 cannot be read.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dueline.clock import Clock
from dueline.commands.examples import show_examples
from dueline.commands.record_lines import as_json, as_lines
from dueline.commands.terminal import say, to_json
from dueline.errors import InvalidRequest, Unavailable
from dueline.message import decode_properties
from dueline.store import control
from dueline.store.inspection import DAMAGE, RECORD, Entry, LogFiles, entries, find_logs
from dueline.store.outcomes import Outcomes

__all__ = ["configure", "run"]

WRITER_PATIENCE_S: Final = 1.0
_LOOK_AGAIN_S: Final = 0.02
_LOG_NAMES: Final = {"commit": "commitlog", "delay": "delaylog"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("path", type=Path, help="a store, a folder of segments, or one segment")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--limit", type=int, metavar="N", help="stop after so many records per log")
    parser.add_argument("--topic", help="of this topic only, also what waits to go there")
    parser.add_argument(
        "--from", dest="start", type=int, default=0, metavar="POS", help="from this position on"
    )
    parser.add_argument("--log", choices=tuple(_LOG_NAMES), help="only this log of a store")
    parser.add_argument(
        "--gaps", action="store_true", help="also blanks at segment ends and gaps of compaction"
    )
    show_examples(
        parser,
        """
        dueline log data/store --limit 20
        dueline log data/store --log delay --topic orders
        dueline log /var/rocketmq/store/commitlog/00000000000000000000 --json
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Print; 1 if anything is damaged."""
    if args.start < 0 or (args.limit is not None and args.limit < 0):
        raise InvalidRequest("--from and --limit: expected 0 or more")
    try:
        logs = find_logs(args.path)
        wanted = [log for log in logs if args.log in (None, _short_name(log))]
        if not wanted:
            raise InvalidRequest(
                f"{args.path}: expected a {args.log} log, "
                f"found {', '.join(_short_name(log) for log in logs)}"
            )
        return max(_print_log(log, args) for log in wanted)
    except BrokenPipeError:
        raise  # about what we print, not about what we read
    except OSError as error:
        raise Unavailable(f"cannot read {args.path}: {error}", path=str(args.path)) from error


def _short_name(log: LogFiles) -> str:
    return next((short for short, name in _LOG_NAMES.items() if name == log.name), log.name)


def _print_log(log: LogFiles, args: argparse.Namespace) -> int:
    outcomes = Outcomes(log.root)
    now_ms = Clock().now_ms()
    if not args.json:
        count = len(log.segments)
        say(f"{_short_name(log)} log: {count} segment{'' if count == 1 else 's'}")
    record_count = damage_count = 0
    for entry in _chosen(log, args):
        record_count += entry.kind == RECORD
        damage_count += entry.kind == DAMAGE
        if args.json:
            say(*to_json(as_json(entry, _short_name(log), outcomes)))
        else:
            say(*as_lines(entry, outcomes, now_ms))
        if record_count == args.limit:
            break
    if not args.json:
        damage = f"{damage_count} damaged ranges" if damage_count else "no damage"
        say(f"{record_count} record{'' if record_count == 1 else 's'}, {damage}")
    return 1 if damage_count else 0


def _chosen(log: LogFiles, args: argparse.Namespace) -> Iterator[Entry]:
    if args.limit == 0:
        return
    for entry in entries(log, start=args.start, patience=_Patience()):
        if entry.kind == DAMAGE or (
            _is_of_topic(entry, args.topic) if entry.kind == RECORD else args.gaps
        ):
            yield entry


def _is_of_topic(entry: Entry, topic: str | None) -> bool:
    if topic is None or entry.record is None:
        return True
    if control.is_control(entry.record):
        return False
    if entry.record.topic == topic.encode():
        return True
    return decode_properties(entry.record.properties).get("REAL_TOPIC") == topic


class _Patience:
    """Look again for a moment at a tail that may be in the middle of being written."""

    def __init__(self) -> None:
        self._deadline: float | None = None

    def __call__(self) -> bool:
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + WRITER_PATIENCE_S
        if now >= self._deadline:
            return False
        time.sleep(_LOOK_AGAIN_S)
        return True
