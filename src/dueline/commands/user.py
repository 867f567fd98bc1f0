"""`dueline user`: the users of a broker: list, add, change, turn secrets over, delete, take over.

A secret never stands on a command line, where a process list and a shell's history would show it:
it is made by the broker and printed once, or read from a file, from standard input or by a prompt.
"""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dueline.commands.actions import Actions
from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.table import show_table
from dueline.commands.terminal import add_json_argument, say, say_json
from dueline.errors import InvalidRequest, NotFound
from dueline.times import parse_duration_ms, show_time

if TYPE_CHECKING:
    from dueline.flight.operators import OperatorClient
    from dueline.flight.users import UserEntry

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = Actions(parser, add_json_argument, add_broker_argument)
    actions.add("list", "list users (also without an action)", "dueline user list")
    show = actions.add("show", "show a user and its policies", "dueline user show billing")
    show.add_argument("name", metavar="NAME")
    add = actions.add(
        "add",
        "make a user; the secret is made too and printed once, unless you have one",
        "dueline user add billing\ndueline user add reports --token\n"
        "dueline user add admin2 --super --secret-file secret.txt",
    )
    add.add_argument("name", metavar="NAME")
    add.add_argument("--super", action="store_true", default=False, help="may do everything")
    add.add_argument(
        "--token",
        action="store_true",
        default=False,
        help="for Flight and HTTP only: of the secret the broker keeps a hash",
    )
    _add_secret_arguments(add)
    update = actions.add(
        "update",
        "enable, disable, or make a user super or normal",
        "dueline user update billing --disable",
    )
    update.add_argument("name", metavar="NAME")
    _add_choice(update, "is_enabled", "--enable", "--disable")
    _add_choice(update, "is_super", "--super", "--normal")
    rotate = actions.add(
        "rotate",
        "give a user a new secret; the old one may stay valid for a while",
        "dueline user rotate billing --keep 7d",
    )
    rotate.add_argument("name", metavar="NAME")
    rotate.add_argument(
        "--keep", default="0s", metavar="TIME", help="how long the old one is valid (default: 0s)"
    )
    _add_secret_arguments(rotate)
    delete = actions.add("delete", "delete a user and its policies", "dueline user delete billing")
    delete.add_argument("name", metavar="NAME")
    take_over = actions.add(
        "import",
        "make the users of a RocketMQ 4.x broker's plain_acl.yml",
        "dueline user import conf/plain_acl.yml",
    )
    take_over.add_argument("file", type=Path, metavar="FILE")
    show_examples(
        parser,
        """
        dueline user
        dueline user add billing
        dueline user rotate billing --keep 7d
        dueline user update billing --disable
        dueline user import conf/plain_acl.yml
        """,
    )


def _add_secret_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--secret-file", type=Path, default=None, metavar="FILE", help="read the secret from a file"
    )
    group.add_argument(
        "--secret-stdin", action="store_true", default=False, help="read it from standard input"
    )
    group.add_argument("--prompt", action="store_true", default=False, help="ask for it")


def _add_choice(parser: argparse.ArgumentParser, name: str, yes: str, no: str) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(yes, dest=name, action="store_true", default=None)
    group.add_argument(no, dest=name, action="store_false", default=None)


def run(args: argparse.Namespace) -> int:
    """Do it."""
    verbs: dict[str, Callable[[OperatorClient, argparse.Namespace], int]] = {
        "show": _show,
        "add": _add,
        "update": _update,
        "rotate": _rotate,
        "delete": _delete,
        "import": _import,
    }
    with connect(args) as client:
        return verbs.get(args.action or "list", _list)(client, args)


def _list(client: OperatorClient, args: argparse.Namespace) -> int:
    found = _users(client)
    if args.json:
        for user in found:
            say_json(user.to_json())
        return 0
    rows = [
        (
            user.name,
            user.type,
            "enabled" if user.is_enabled else "disabled",
            "token" if user.is_token else "secret",
            len(user.policies),
        )
        for user in found
    ]
    show_table(("USER", "TYPE", "STATUS", "KIND", "POLICIES"), rows)
    return 0


def _users(client: OperatorClient, part: str = "") -> tuple[UserEntry, ...]:
    from dueline.flight.users import ListUsers, UserList

    return client.ask(ListUsers(part=part), UserList).users


def _show(client: OperatorClient, args: argparse.Namespace) -> int:
    user = next((each for each in _users(client, args.name) if each.name == args.name), None)
    if user is None:
        raise NotFound(f"user {args.name}: expected a user, found none of this name")
    if args.json:
        say_json(user.to_json())
        return 0
    status = "enabled" if user.is_enabled else "disabled"
    say(f"user {user.name}: {user.type}, {status}, {'token' if user.is_token else 'secret'}")
    if user.old_secret_until_ms is not None:
        say(f"the secret before is valid until {show_time(user.old_secret_until_ms)}")
    rows = [
        (each.decision, each.resource, ",".join(each.actions), ",".join(each.sources), each.type)
        for each in user.policies
    ]
    show_table(("DECISION", "RESOURCE", "ACTIONS", "SOURCES", "TYPE"), rows)
    return 0


def _add(client: OperatorClient, args: argparse.Namespace) -> int:
    from dueline.flight.users import AddUser, UserSecret

    secret = _secret(args)
    made = client.ask(
        AddUser(name=args.name, secret=secret, is_super=args.super, is_token=args.token),
        UserSecret,
    )
    _tell_secret(made.name, made.secret if secret is None else None, args)
    return 0


def _rotate(client: OperatorClient, args: argparse.Namespace) -> int:
    from dueline.flight.users import RotateUser, UserSecret

    secret = _secret(args)
    keep_ms = parse_duration_ms(args.keep)
    made = client.ask(RotateUser(name=args.name, secret=secret, keep_ms=keep_ms), UserSecret)
    _tell_secret(made.name, made.secret if secret is None else None, args)
    return 0


def _tell_secret(name: str, secret: str | None, args: argparse.Namespace) -> None:
    """Print a secret that was made here, this once; one that was given is known."""
    if args.json:
        say_json({"name": name, **({"secret": secret} if secret is not None else {})})
        return
    say(f"user {name}: done")
    if secret is not None:
        say(f"secret: {secret}", "It is not shown again. As a token: NAME:SECRET.")


def _secret(args: argparse.Namespace) -> str | None:
    """The secret that was given; None: the broker makes one."""
    if args.secret_file is not None:
        try:
            return str(args.secret_file.read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(
                f"--secret-file: expected a file that can be read, found {args.secret_file}: "
                f"{error}"
            ) from error
    if args.secret_stdin:
        return sys.stdin.readline().strip()
    if args.prompt:
        return getpass.getpass("Secret: ")
    return None


def _update(client: OperatorClient, args: argparse.Namespace) -> int:
    from dueline.flight.users import UpdateUser, UserEntry

    if args.is_enabled is None and args.is_super is None:
        raise InvalidRequest(
            "user update: expected --enable, --disable, --super or --normal, found none"
        )
    user = client.ask(
        UpdateUser(name=args.name, is_enabled=args.is_enabled, is_super=args.is_super), UserEntry
    )
    if args.json:
        say_json(user.to_json())
    else:
        say(f"user {user.name}: {user.type}, {'enabled' if user.is_enabled else 'disabled'}")
    return 0


def _delete(client: OperatorClient, args: argparse.Namespace) -> int:
    from dueline.flight.users import DeleteUser, UserDeleted

    client.ask(DeleteUser(name=args.name), UserDeleted)
    if args.json:
        say_json({"name": args.name, "is_deleted": True})
    else:
        say(f"user {args.name} is deleted")
    return 0


def _import(client: OperatorClient, args: argparse.Namespace) -> int:
    """Make every user of the file, or none if it cannot be read; those that are there stay."""
    from dueline.flight.users import AddUser, UserPolicy, UserSecret
    from dueline.takeover.plain_acl import read_plain_acl

    found = read_plain_acl(args.file)
    for note in found.notes:
        say(f"note: {note}", file=sys.stderr)
    known = {user.name for user in _users(client)}
    for account in found.accounts:
        is_new = account.name not in known
        if is_new:
            policies = tuple(
                UserPolicy(
                    resource=each.resource,
                    actions=each.actions,
                    decision=each.decision,
                    type=each.type,
                )
                for each in account.policies
            )
            client.ask(
                AddUser(
                    name=account.name,
                    secret=account.secret,
                    is_super=account.is_super,
                    policies=policies,
                ),
                UserSecret,
            )
        if args.json:
            say_json({"name": account.name, "is_new": is_new})
        else:
            say(f"user {account.name}: {'made' if is_new else 'is there already, left as it is'}")
    return 0
