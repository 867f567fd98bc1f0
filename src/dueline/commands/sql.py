"""`dueline sql`: a question to Spark about what waits, what was delivered, and every outcome."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from typing import Any

from dueline.commands.bodies import body_fields, body_text
from dueline.commands.connection import add_broker_argument, broker_address
from dueline.commands.examples import show_examples
from dueline.commands.table import Cell, show_table
from dueline.commands.terminal import (
    add_json_argument,
    add_limit_argument,
    clear_status,
    say,
    say_json,
    show_status,
)
from dueline.errors import InvalidRequest

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "statement", help="in Spark's SQL, over the tables pending, messages and ledger"
    )
    add_json_argument(parser)
    add_broker_argument(parser)
    add_limit_argument(parser, 100, "the first so many rows")
    show_examples(
        parser,
        """
        dueline sql "select topic, count(*) from pending group by topic"
        dueline sql "select outcome, count(*), max(late_ms) from ledger group by outcome"
        dueline sql "select keys, late_ms from messages where topic = 'orders' and late_ms > 100"
        dueline sql "describe ledger"

        Spark is started for it, which takes some seconds. Of messages, say which topic.
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Print the rows."""
    if args.limit < 1:
        raise InvalidRequest(f"--limit: expected 1 or more, found {args.limit}")
    brokers = broker_address(args)
    is_shown = sys.stderr.isatty()
    if is_shown:
        show_status("starting Spark …", sys.stderr)
    try:
        from dueline.spark import sql  # Spark is loaded only by those who run it

        found = sql.answer_once(brokers, args.statement, row_count_max=args.limit + 1)
    finally:
        if is_shown:
            clear_status(sys.stderr)
    rows = found.slice(0, args.limit).to_pylist()
    if args.json:
        for row in rows:
            say_json(json_row(row))
        return 0
    show_table(found.column_names, [[cell(value) for value in row.values()] for row in rows])
    if found.num_rows > args.limit:
        say("", f"There are more rows; these are the first {args.limit:,} (--limit).")
    return 0


def json_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row for programs: no bytes are changed, times are in ms since 1970.

    >>> json_row({"body": b"\\xff", "n": 1})
    {'body_base64': '/w==', 'n': 1}
    """
    plain: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            plain |= {
                field.replace("body", name, 1): text for field, text in body_fields(value).items()
            }
        elif isinstance(value, datetime):
            plain[name] = int(value.timestamp() * 1_000)
        else:
            plain[name] = json.loads(json.dumps(value, default=str))
    return plain


def cell(value: Any) -> Cell:
    """A value for people.

    >>> [cell(value) for value in (None, 7, True, 0.5, b"order", ["a", 1])]
    [None, 7, 'true', '0.5', 'order', '["a", 1]']
    """
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return body_text(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    return json.dumps(value, default=str)
