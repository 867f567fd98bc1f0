"""`dueline grant`: what users may do, and may not: list, add, delete policies."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dueline.commands.actions import Actions
from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.table import show_table
from dueline.commands.terminal import add_json_argument, say, say_json

if TYPE_CHECKING:
    from dueline.flight.operators import OperatorClient

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = Actions(parser, add_json_argument, add_broker_argument)
    actions.add("list", "list all policies (also without an action)", "dueline grant list")
    add = actions.add(
        "add",
        "let a user do something, or forbid it; a policy on the same resource is replaced",
        "dueline grant add billing Topic:orders Pub,Sub\n"
        "dueline grant add billing 'Group:readers*' Sub --source 10.0.0.0/8\n"
        "dueline grant add billing Topic:payments All --deny",
    )
    add.add_argument("name", metavar="USER")
    add.add_argument(
        "resource", metavar="RESOURCE", help="Topic:NAME, Group:NAME, Cluster:NAME, or *"
    )
    add.add_argument(
        "actions", metavar="ACTIONS", help="Pub, Sub, Create, Update, Delete, Get, List, All"
    )
    add.add_argument("--deny", action="store_true", default=False, help="forbid instead")
    add.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="only from this address or range; may be repeated",
    )
    delete = actions.add(
        "delete",
        "take a policy away, or all of a user's",
        "dueline grant delete billing Topic:orders\ndueline grant delete billing",
    )
    delete.add_argument("name", metavar="USER")
    delete.add_argument("resource", metavar="RESOURCE", nargs="?", default=None)
    show_examples(
        parser,
        """
        dueline grant
        dueline grant add billing Topic:orders Pub,Sub
        dueline grant delete billing Topic:orders
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Do it."""
    with connect(args) as client:
        if args.action == "add":
            _add(client, args)
        elif args.action == "delete":
            _delete(client, args)
        else:
            _list(client, args)
    return 0


def _add(client: OperatorClient, args: argparse.Namespace) -> None:
    from dueline.flight.users import Grant, UserEntry, UserPolicy

    policy = UserPolicy(
        resource=args.resource,
        actions=tuple(args.actions.split(",")),
        decision="Deny" if args.deny else "Allow",
        sources=tuple(args.source),
    )
    user = client.ask(Grant(name=args.name, policies=(policy,)), UserEntry)
    if args.json:
        say_json(user.to_json())
    else:
        say(f"user {user.name} has {len(user.policies)} policies")


def _delete(client: OperatorClient, args: argparse.Namespace) -> None:
    from dueline.flight.users import Revoke, Revoked

    count = client.ask(Revoke(name=args.name, resource=args.resource), Revoked).count
    if args.json:
        say_json({"name": args.name, "revoked": count})
    else:
        say(f"user {args.name}: {count} policies taken away")


def _list(client: OperatorClient, args: argparse.Namespace) -> None:
    from dueline.flight.users import ListUsers, UserList

    found = [
        (user.name, policy)
        for user in client.ask(ListUsers(), UserList).users
        for policy in user.policies
    ]
    if args.json:
        for name, policy in found:
            say_json({"user": name, **policy.to_json()})
        return
    rows = [
        (name, each.decision, each.resource, ",".join(each.actions), ",".join(each.sources))
        for name, each in found
    ]
    show_table(("USER", "DECISION", "RESOURCE", "ACTIONS", "SOURCES"), rows)
