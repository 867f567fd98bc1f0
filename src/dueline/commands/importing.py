"""`dueline import SOURCE`: take over the store of an Apache RocketMQ broker that was stopped.

Exit codes: 0 everything was taken over (or had been before), 1 taken over, and something that
consumers might miss stayed behind (each is counted and named), 2 nothing can be done, with one
line that says why; what was taken before stays, and running the command again goes on there.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dueline.clock import Clock
from dueline.commands.examples import show_examples
from dueline.commands.meter import Meter
from dueline.commands.settings import add_settings_arguments, load_settings
from dueline.commands.terminal import say, to_json
from dueline.errors import InvalidRequest, Unavailable
from dueline.schedule import DEFAULT_LEVELS, DelayLevels
from dueline.times import show_time

if TYPE_CHECKING:
    from dueline.config import Config
    from dueline.takeover import Moved
    from dueline.takeover.moving import Destination

__all__ = ["configure", "run"]

_TOPICS_SHOWN: Final = 20
# Why a message stayed behind, and whether consumers might miss it.
REASONS: Final[dict[str, tuple[str, bool]]] = {
    "READ": ("read by every group of their topic", False),
    "NOT_ASKED": ("ordinary messages, not asked for (--pending-only)", False),
    "DELIVERED": ("delayed messages that were delivered already", False),
    "RECALLED": ("delayed messages that were recalled", False),
    "ENTERED_AGAIN": ("earlier entries of long delays", False),
    "DECIDED": ("half messages whose transactions were decided", False),
    "INTERNAL": ("RocketMQ's own records", False),
    "DELETED": ("of topics that were deleted", False),
    "REPLACED": ("not in their queue any more", False),
    "UNINDEXED": ("prepared or rolled back", False),
    "UNKNOWN_TARGET": ("with a topic or queue that Dueline cannot have", True),
    "TOO_LARGE": ("larger than the new store's segments or properties allow", True),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "source", type=Path, help="the stopped broker's storePathRootDir (~/store by default)"
    )
    parser.add_argument(
        "--commitlog", type=Path, metavar="DIR", help="its storePathCommitLog, if elsewhere"
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--pending-only", action="store_true", help="only delayed messages, topics and groups"
    )
    chosen.add_argument(
        "--all-messages",
        action="store_true",
        help="also ordinary messages that every group has read",
    )
    parser.add_argument(
        "--levels",
        default=DEFAULT_LEVELS,
        metavar="'1s 5s …'",
        help="its messageDelayLevel, for messages that are not in their consume queue",
    )
    parser.add_argument(
        "--skip-damaged", action="store_true", help="leave damaged records behind and go on"
    )
    parser.add_argument(
        "--assume-pending",
        action="store_true",
        help="without delayOffset.json: no delayed message was delivered",
    )
    parser.add_argument("--dry-run", action="store_true", help="look and count, write nothing")
    parser.add_argument("--json", action="store_true", help="the summary for programs")
    add_settings_arguments(parser, ("--data",))
    show_examples(
        parser,
        """
        dueline import ~/store --dry-run
        dueline import ~/store --data /var/lib/dueline
        dueline import /mnt/broker-a/store --pending-only --levels '1s 30s 5m 1h 1d'
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Take over; 1 if something was left that consumers might miss."""
    levels = _levels(args.levels)
    config = load_settings(args).config

    from dueline.takeover import Options, Source, take_over  # loads Arrow: --help need not wait

    options = Options(
        messages="none" if args.pending_only else "all" if args.all_messages else "unread",
        levels=levels,
        skip_damaged=args.skip_damaged,
        assume_pending=args.assume_pending,
        dry_run=args.dry_run,
    )
    meter = Meter(is_shown=sys.stderr.isatty())
    try:
        with Source(args.source.absolute(), commit_log=args.commitlog) as source:
            try:
                moved = take_over(source, _destination(config), options, progress=meter)
            finally:
                meter.clear()
            summary = _summary(moved, source=source, config=config, options=options)
    except OSError as error:
        raise Unavailable(f"{error.filename or args.source}: {error.strerror}") from error
    if args.json:
        say(*to_json(summary, indent=1))
    else:
        say(*_lines(summary))
    return 1 if summary["missed"] else 0


def _destination(config: Config) -> Destination:
    from dueline.server.process import store_options
    from dueline.server.remoting.listeners import primary_address
    from dueline.settings import parse_address
    from dueline.store import Files
    from dueline.takeover.moving import Destination

    options = store_options(config)
    if config.listen.remoting is not None:
        host, port = parse_address(config.listen.remoting)
        host = primary_address(config.listen.advertised or host)
        options = replace(options, host=host, port=port)
    return Destination(folder=config.folder, store=options, clock=Clock(), files=Files())


def _summary(moved: Moved, *, source: Any, config: Config, options: Any) -> dict[str, Any]:
    left = {
        name.lower(): count
        for name in REASONS
        if (count := next((n for kind, n in moved.kinds.items() if kind.name == name), 0))
    }
    damage = moved.survey.damage
    missed = {name: left[name] for name in left if REASONS[name.upper()][1]}
    if damage:
        missed["damaged_ranges"] = len(damage)
    kinds = {kind.name: count for kind, count in moved.kinds.items()}
    return {
        "source": str(source.path),
        "data": str(config.folder),
        "dry_run": options.dry_run,
        "messages": options.messages,
        "finished_before_ms": moved.finished_before_ms,
        "records": moved.survey.record_count,
        "pending": kinds.get("WAITING", 0),
        "pending_by_topic": dict(sorted(moved.waiting_by_topic.items())),
        "due_first_ms": moved.due_min_ms,
        "due_last_ms": moved.due_max_ms,
        "overdue": moved.overdue_count,
        "ordinary": kinds.get("VISIBLE", 0),
        "ordinary_by_topic": dict(sorted(moved.visible_by_topic.items())),
        "half": kinds.get("HALF", 0),
        "taken_before": moved.before_count,
        "topics": moved.topic_count,
        "groups": moved.group_count,
        "offsets": moved.offset_count,
        "offsets_kept": moved.kept_offset_count,
        "left": left,
        "internal_by_topic": dict(sorted(moved.internal_by_topic.items())),
        "damage": [[one.start, one.end, one.reason] for one in damage],
        "torn": [[one.start, one.end, one.reason] for one in moved.survey.torn],
        "missed": missed,
        "notes": _notes(moved, source),
    }


def _notes(moved: Moved, source: Any) -> list[str]:
    notes = []
    if source.was_killed:
        notes.append("the broker did not stop in order; what it had written is here")
    if not source.has_queues:
        notes.append("no consumequeue/: due times are store time + level by --levels")
    if source.table("consumerOffset.json", "offsetTable") is None:
        notes.append("no config/consumerOffset.json: groups start anew")
    if source.table("topics.json", "topicConfigTable") is None:
        notes.append("no config/topics.json: topics are made from their messages")
    revived = [n for n in moved.internal_by_topic if n.startswith("rmq_sys_REVIVE_LOG")]
    if revived:
        notes.append(
            "POP consumers: what was handed out and not acknowledged when the broker stopped is "
            "behind their offset and does not come again; stop them before the broker"
        )
    return notes


def _lines(summary: dict[str, Any]) -> list[str]:
    """The summary for people."""
    if summary["finished_before_ms"] is not None:
        when = show_time(summary["finished_before_ms"])
        return [f"{summary['source']} was taken over on {when}; nothing to do"]
    verb = "would take" if summary["dry_run"] else "took"
    lines = [f"{verb} over {summary['source']} into {summary['data']}"]
    overdue = f", of which {summary['overdue']:,} are overdue" if summary["overdue"] else ""
    lines.append(f"  pending delayed messages: {summary['pending']:,}{overdue}")
    if summary["pending"]:
        first, last = show_time(summary["due_first_ms"]), show_time(summary["due_last_ms"])
        lines.append(f"    due {first} to {last}")
        lines += _by_topic(summary["pending_by_topic"])
    if summary["messages"] != "none":
        lines.append(f"  ordinary messages: {summary['ordinary']:,}")
        lines += _by_topic(summary["ordinary_by_topic"])
        if summary["half"]:
            lines.append(f"  half messages of open transactions: {summary['half']:,}")
    lines.append(f"  topics: {summary['topics']:,}, consumer groups: {summary['groups']:,}")
    if summary["offsets_kept"]:
        lines.append(
            f"  {summary['offsets_kept']:,} offsets stayed: their groups have older messages to "
            "read here first and may then see some again"
        )
    if summary["taken_before"]:
        lines.append(f"  {summary['taken_before']:,} of them by an import that was interrupted")
    return lines + _left_lines(summary) + [f"note: {note}" for note in summary["notes"]]


def _left_lines(summary: dict[str, Any]) -> list[str]:
    lines = ["left behind"] if summary["left"] or summary["damage"] else []
    for name, count in summary["left"].items():
        reason, is_missed = REASONS[name.upper()]
        lines.append(f"  {count:>12,} {reason}{'  <- missed' if is_missed else ''}")
    for start, end, reason in summary["damage"]:
        lines.append(f"  damaged bytes {start} to {end}: {reason}  <- missed")
    for start, end, _ in summary["torn"]:
        lines.append(f"  torn bytes {start} to {end} at the end: never finished")
    return lines


def _by_topic(counts: dict[str, int]) -> list[str]:
    largest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"    {count:>12,} {topic}" for topic, count in largest[:_TOPICS_SHOWN]]
    if len(largest) > _TOPICS_SHOWN:
        rest = sum(count for _, count in largest[_TOPICS_SHOWN:])
        lines.append(f"    {rest:>12,} in {len(largest) - _TOPICS_SHOWN} more topics")
    return lines


def _levels(text: str) -> str:
    """A level table as it is compared.

    Raises:
        InvalidRequest: not one.
    """
    try:
        return str(DelayLevels.parse(text))
    except InvalidRequest as error:
        raise InvalidRequest(f"--levels: {error.message}") from error
