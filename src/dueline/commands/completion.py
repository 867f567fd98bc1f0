"""`dueline completion SHELL`: a script that makes a shell complete commands and flags.

The words are written into the script, so that a shell does not start Python for each key. Make
them anew for each version.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from dueline.commands.catalogue import COMMANDS, parser_of
from dueline.commands.examples import show_examples
from dueline.commands.terminal import say, to_json

__all__ = ["configure", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """What may stand behind a command: a flag or one of a few words."""

    text: str
    summary: str
    takes_value: bool = False


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="for which shell")
    parser.add_argument("--json", action="store_true", help="the words for programs, by command")
    show_examples(
        parser,
        """
        dueline completion bash > ~/.local/share/bash-completion/completions/dueline
        dueline completion zsh > ~/.zsh/_dueline      # a folder that is in $fpath
        dueline completion fish > ~/.config/fish/completions/dueline.fish
        source <(dueline completion bash)             # in ~/.bashrc; never older than dueline
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    words = {name: _words(parser_of(name)) for name in COMMANDS}
    if args.json:
        plain = {name: [word.text for word in some] for name, some in words.items()}
        say(*to_json(plain, indent=1))
    else:
        say(*_SCRIPTS[args.shell](words))
    return 0


def _words(parser: argparse.ArgumentParser) -> list[_Word]:
    """The flags of a command and of its actions, and the words it takes in their place."""
    found: dict[str, _Word] = {}
    for action in parser._actions:
        for flag in action.option_strings:
            if flag.startswith("--"):
                summary = _summary(action.help)
                word = _Word(text=flag, summary=summary, takes_value=action.nargs != 0)
                found.setdefault(flag, word)
        if not action.option_strings and action.choices:
            for choice in action.choices:
                found.setdefault(choice, _Word(text=choice, summary=_summary(action.help)))
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                found = {word.text: word for word in _words(each)} | found
    return list(found.values())


def _summary(text: str | None) -> str:
    return " ".join((text or "").split())


Words = dict[str, list[_Word]]


def _bash(words: Words) -> Iterable[str]:
    yield "_dueline() {"
    yield '    local known=""'
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f"        known={shlex.quote(' '.join(words))}"
    yield '    else case "${COMP_WORDS[1]}" in'
    for name, some in words.items():
        yield f"        {name}) known={shlex.quote(' '.join(word.text for word in some))} ;;"
    yield "    esac; fi"
    yield '    COMPREPLY=($(compgen -W "$known" -- "${COMP_WORDS[COMP_CWORD]}"))'
    yield "}"
    yield "complete -o default -F _dueline dueline"


def _zsh(words: Words) -> Iterable[str]:
    yield "#compdef dueline"
    yield "_dueline() {"
    yield "    local -a known"
    yield "    if (( CURRENT == 2 )); then"
    commands = " ".join(_described(name, COMMANDS[name]) for name in words)
    yield f"        known=({commands})"
    yield "        _describe command known"
    yield "        return"
    yield "    fi"
    yield "    case $words[2] in"
    for name, some in words.items():
        flags = " ".join(_described(word.text, word.summary) for word in some)
        yield f"        {name}) known=({flags}) ;;"
    yield "    esac"
    yield "    _describe -o option known || _files"
    yield "}"
    # Found in $fpath the file is the function's body, to be called at once; else it was sourced.
    yield 'if [[ $funcstack[1] == _dueline ]]; then _dueline "$@"'
    yield "else compdef _dueline dueline; fi"


def _described(word: str, summary: str) -> str:
    return shlex.quote(f"{word}:{summary}")


def _fish(words: Words) -> Iterable[str]:
    for name, some in words.items():
        first = f"-n __fish_use_subcommand -a {name} -d {shlex.quote(COMMANDS[name])}"
        yield f"complete -c dueline -f {first}"
        seen = f"complete -c dueline -n '__fish_seen_subcommand_from {name}'"
        for word in some:
            kind = f"-l {word.text[2:]}" if word.text.startswith("--") else f"-a {word.text}"
            value = " -r" if word.takes_value else ""
            yield f"{seen} {kind}{value} -d {shlex.quote(word.summary)}"


_SCRIPTS: Final[dict[str, Callable[[Words], Iterable[str]]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
