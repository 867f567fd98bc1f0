"""`--where CONDITION`: what `cancel` and `reschedule` do to all that match, as one job."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from dueline.commands.terminal import clear_status, say, say_json, show_status
from dueline.errors import InvalidRequest
from dueline.flight import waiting
from dueline.flight.waiting import Job, PendingFilter, StartJob

if TYPE_CHECKING:
    from dueline.flight.operators import OperatorClient

__all__ = ["add_where_arguments", "change_matching", "check_names"]

_POLL_S: Final = 0.2


def add_where_arguments(parser: argparse.ArgumentParser) -> None:
    """`--where`, `--dry-run` and `--yes`."""
    parser.add_argument(
        "--where",
        metavar="CONDITION",
        help="all that match, such as \"topic = 'mail' and due < '2030-01-01'\"",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with --where: only say how many match"
    )
    parser.add_argument("--yes", action="store_true", help="with --where: do not ask")


def check_names(args: argparse.Namespace) -> None:
    """Raises:
    InvalidRequest: neither names nor a condition, or both.
    """
    if bool(args.keys) == (args.where is not None):
        raise InvalidRequest("expected ids or keys, or --where, found both or neither")


def change_matching(
    args: argparse.Namespace,
    client: OperatorClient,
    *,
    action: str,
    due_ms: int | None = None,
    shift_ms: int | None = None,
) -> int:
    """Count what matches, ask, and do it; 1 if some of it failed or it was stopped."""
    wanted = PendingFilter(where=args.where)
    topics = _counted(client, wanted)
    total = sum(topics.values())
    if args.dry_run:
        _tell_count(args, topics, total)
        return 0
    if not args.yes and not _is_confirmed(action, topics, total):
        say("nothing was changed")
        return 1
    order = StartJob(action=action, filter=wanted, due_ms=due_ms, shift_ms=shift_ms)
    job = client.ask(order, Job)
    job = _followed(client, job, is_shown=sys.stderr.isatty() and not args.json)
    _tell(args, job)
    return 0 if job.state == "done" and not job.answers.failed else 1


def _counted(client: OperatorClient, wanted: PendingFilter) -> Counter[str]:
    """How many match, by topic."""
    topics: Counter[str] = Counter()
    cursor: str | None = None
    while True:
        request = waiting.CountMatching(filter=wanted, cursor=cursor)
        part = client.ask(request, waiting.MatchingCount)
        topics.update(part.topics)
        cursor = part.cursor
        if cursor is None:
            return topics


def _tell_count(args: argparse.Namespace, topics: Counter[str], total: int) -> None:
    if args.json:
        say_json({"count": total, "topics": dict(sorted(topics.items()))})
        return
    say(f"{total:,} messages match")
    for topic, count in topics.most_common():
        say(f"  {topic}: {count:,}")


def _is_confirmed(action: str, topics: Counter[str], total: int) -> bool:
    if not sys.stdin.isatty():
        raise InvalidRequest(
            f"{total:,} messages match: expected --yes, or a terminal to ask at, found neither"
        )
    where = ", ".join(f"{topic} ({count:,})" for topic, count in topics.most_common(5))
    say(f"{action} {total:,} messages of {where or 'no topic'}? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _followed(client: OperatorClient, job: Job, *, is_shown: bool) -> Job:
    """Wait for a job's end; it goes on if this is interrupted."""
    while job.ended_ms is None:
        if is_shown:
            share = f" of {job.total:,}" if job.total is not None else ""
            show_status(f"job {job.number}: {job.matched:,}{share}", sys.stderr)
        time.sleep(_POLL_S)
        job = client.ask(waiting.FindJob(number=job.number), Job)
    if is_shown:
        clear_status(sys.stderr)
    return job


def _tell(args: argparse.Namespace, job: Job) -> None:
    answers = job.answers
    if args.json:
        say_json(job.to_json())
        return
    parts = [f"{answers.done:,} done"]
    for name, count in (
        ("too late", answers.too_late),
        ("unknown", answers.unknown),
        ("failed", answers.failed),
    ):
        if count:
            parts.append(f"{count:,} {name}")
    say(f"job {job.number} {job.state}: {', '.join(parts)}{f'; {job.error}' if job.error else ''}")
