"""Where files are kept that can be made anew at any time: a folder of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/dueline`, or below `~/.cache`; it may not exist.

    Raises:
        FileNotFoundError: the environment names no place for it.
    """
    if folder := environ.get("XDG_CACHE_HOME"):
        return Path(folder) / "dueline"
    if home := environ.get("HOME"):
        return Path(home) / ".cache" / "dueline"
    raise FileNotFoundError("neither XDG_CACHE_HOME nor HOME is set")
