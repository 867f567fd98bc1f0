"""Settings on the command line: `--config`, `--set`, and flags for the common ones."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from dueline.config import Loaded, load
from dueline.errors import InvalidRequest

__all__ = ["add_settings_arguments", "load_settings"]

FLAGS: Final[Mapping[str, tuple[str, str, str]]] = {
    "--data": ("data", "DIR", "folder of everything that the broker writes"),
    "--flight": ("listen.flight", "HOST:PORT", "where to listen; port 0 takes a free one"),
    "--name-server": (
        "listen.name_server",
        "HOST:PORT",
        "name server for RocketMQ clients, or off",
    ),
    "--remoting": ("listen.remoting", "HOST:PORT", "broker for RocketMQ 4.x clients, or off"),
    "--grpc": ("listen.grpc", "HOST:PORT", "port of RocketMQ 5.x clients (8081), or off"),
    "--http": ("listen.http", "HOST:PORT", "pages, HTTP API and metrics (8080), or off"),
    "--master": ("delivery.master", "URL", "Spark master, such as local[4] or spark://…"),
    "--transform": ("delivery.transform", "MODULE:FUNCTION", "applied to messages when due"),
    "--checkpoint": ("delivery.checkpoint", "DIR", "for transforms that keep state"),
    "--ahead": ("delivery.ahead", "DURATION", "how long before its due time a message may move"),
    "--log-level": ("log_level", "LEVEL", "debug, info, warning or error"),
}
"""Flags with the setting that each stands for."""


def add_settings_arguments(parser: argparse.ArgumentParser, flags: Iterable[str] = FLAGS) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="TOML file (default: $DUELINE_CONFIG, else dueline.toml if it is there)",
    )
    for flag in flags:
        name, metavar, text = FLAGS[flag]
        parser.add_argument(flag, dest=f"setting {name}", metavar=metavar, help=text)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="NAME=VALUE",
        help="any setting; `dueline config` lists them",
    )


def load_settings(args: argparse.Namespace, overrides: Mapping[str, str] | None = None) -> Loaded:
    """The settings from file, environment and command line."""
    flags: dict[str, str] = {}
    for text in args.settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidRequest(f"--set: expected name=value, found {text!r}")
        flags[name] = value
    for name, _, _ in FLAGS.values():
        value = getattr(args, f"setting {name}", None)
        if value is not None:
            flags[name] = value
    file = args.config
    if file is None and os.environ.get("DUELINE_CONFIG"):
        file = Path(os.environ["DUELINE_CONFIG"])
    return load(file=file, environ=os.environ, flags={**flags, **(overrides or {})})
