"""`dueline config`: every setting with its value and where that comes from, as TOML."""

from __future__ import annotations

import argparse

from dueline.commands.examples import show_examples
from dueline.commands.settings import add_settings_arguments, load_settings
from dueline.commands.terminal import say, to_json
from dueline.config import Loaded, settings

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_settings_arguments(parser)
    parser.add_argument("--json", action="store_true", help="for programs")
    show_examples(
        parser,
        """
        dueline config
        dueline config > dueline.toml      # a file with all of them, to change
        DUELINE_STORE_FLUSH=async dueline config
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Print them."""
    loaded = load_settings(args)
    say(*(_as_json(loaded) if args.json else _as_toml(loaded)))
    return 0


def _as_toml(loaded: Loaded) -> list[str]:
    lines = []
    section = ""
    for setting in settings():
        if setting.section != section:
            section = setting.section
            lines += ["", f"[{section}]"]
        short = setting.name.rpartition(".")[2]
        value = setting.kind.show(setting.value_in(loaded.config))
        lines.append(f"{f'{short} = {value}':<44} # {loaded.origin_of(setting.name)}")
    return lines


def _as_json(loaded: Loaded) -> list[str]:
    rows = {
        setting.name: {
            "value": setting.value_in(loaded.config),
            "origin": loaded.origin_of(setting.name),
        }
        for setting in settings()
    }
    return to_json(rows, indent=1)
