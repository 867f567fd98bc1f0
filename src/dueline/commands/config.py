"""`dueline config`: every setting with its value and where that comes from, as TOML.

What looks like a secret is not shown unless that is asked for: the output ends up in tickets.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from dueline.commands.examples import show_examples
from dueline.commands.settings import add_settings_arguments, load_settings
from dueline.commands.terminal import say, to_json
from dueline.config import Loaded, settings
from dueline.settings import masked

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_settings_arguments(parser)
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--show-secrets", action="store_true", help="passwords and keys in delivery.conf as well"
    )
    show_examples(
        parser,
        """
        dueline config
        dueline config --show-secrets > dueline.toml    # a file with all of them, to change
        DUELINE_STORE_FLUSH=async dueline config
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Print them."""
    loaded = load_settings(args)
    shown = (lambda value: value) if args.show_secrets else masked
    say(*(_as_json(loaded, shown) if args.json else _as_toml(loaded, shown)))
    return 0


def _as_toml(loaded: Loaded, shown: Callable[[Any], Any]) -> list[str]:
    lines = []
    section = ""
    for setting in settings():
        if setting.section != section:
            section = setting.section
            lines += ["", f"[{section}]"]
        short = setting.name.rpartition(".")[2]
        value = setting.kind.show(shown(setting.value_in(loaded.config)))
        lines.append(f"{f'{short} = {value}':<44} # {loaded.origin_of(setting.name)}")
    return lines


def _as_json(loaded: Loaded, shown: Callable[[Any], Any]) -> list[str]:
    rows = {
        setting.name: {
            "value": shown(setting.value_in(loaded.config)),
            "origin": loaded.origin_of(setting.name),
        }
        for setting in settings()
    }
    return to_json(rows, indent=1)
