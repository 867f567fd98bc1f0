"""`dueline cluster master` and `worker`: Spark's own standalone cluster, without a Spark download.

It becomes Spark's process (`dueline.spark.standalone`): signals, output and exit code are Spark's.
"""

from __future__ import annotations

import argparse
import os
import sys

from dueline.commands.examples import show_examples
from dueline.commands.terminal import say_json

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="before the role: first a JSON object with the process and its command",
    )
    parser.add_argument("role", choices=("master", "worker"), help="what to start")
    parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="ARGUMENTS",
        help="Spark's own: --host, --port, --webui-port, --cores, --memory, the master's URL",
    )
    show_examples(
        parser,
        """
        dueline cluster master --host 10.0.0.9 --port 7077
        dueline cluster worker spark://10.0.0.9:7077 --cores 8 --memory 8g
        dueline deliver --broker 10.0.0.5:8815 --master spark://10.0.0.9:7077
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Become the process; returns only if it cannot be started."""
    from dueline.spark.standalone import process_of  # some hundred milliseconds

    command, environment = process_of(args.role, args.arguments, os.environ)
    if args.json:
        say_json({"pid": os.getpid(), "role": args.role, "command": command})
    sys.stdout.flush()
    os.execve(command[0], command, environment)
