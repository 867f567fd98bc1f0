"""Examples at the end of `--help`: what a command is for is best seen in use."""

from __future__ import annotations

import argparse
import textwrap

__all__ = ["show_examples"]


def show_examples(parser: argparse.ArgumentParser, text: str) -> None:
    """Print `text` below the arguments, with its line breaks."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "examples:\n" + textwrap.indent(textwrap.dedent(text).strip(), "  ")
