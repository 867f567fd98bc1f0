"""`dueline topics pause|resume|rate|expiry|rules`: what a topic's delayed messages must keep to."""

from __future__ import annotations

import argparse
from typing import Final

from dueline.commands.actions import Actions
from dueline.commands.connection import add_broker_address_argument, connect
from dueline.commands.table import show_table
from dueline.commands.terminal import say_json
from dueline.errors import InvalidRequest
from dueline.flight.waiting import ListRules, RuleList, SetRule
from dueline.times import parse_duration_ms, show_span

__all__ = ["ACTIONS", "add_rule_actions", "run"]

ACTIONS: Final = ("pause", "resume", "rate", "expiry", "rules")


def add_rule_actions(actions: Actions) -> None:
    """Declare them."""
    for name, summary in (
        ("pause", "let none of a topic's delayed messages become visible"),
        ("resume", "let them become visible again, in due order"),
    ):
        action = actions.add(name, summary, f"dueline topics {name} reminders")
        action.add_argument("topic", metavar="TOPIC")
        add_broker_address_argument(action)
    rate = actions.add(
        "rate",
        "let at most so many delayed messages a second become visible",
        "dueline topics rate reminders 500\ndueline topics rate reminders off",
    )
    rate.add_argument("topic", metavar="TOPIC")
    rate.add_argument("value", metavar="N", help="messages a second, or off")
    add_broker_address_argument(rate)
    expiry = actions.add(
        "expiry",
        "deliver nothing that is later than this",
        "dueline topics expiry reminders 2h\ndueline topics expiry reminders off",
    )
    expiry.add_argument("topic", metavar="TOPIC")
    expiry.add_argument("value", metavar="DURATION", help="counted from the due time, or off")
    add_broker_address_argument(expiry)
    add_broker_address_argument(
        actions.add("rules", "list the topics with rules", "dueline topics rules")
    )


def run(args: argparse.Namespace) -> int:
    """Change a rule, or none, and show all."""
    args.broker, args.ca = getattr(args, "broker", None), getattr(args, "ca", None)
    with connect(args) as client:
        request = _request(args)
        found = client.ask(request, RuleList)
    if args.json:
        for rule in found.rules:
            say_json(rule.to_json())
        return 0
    rows = [
        (
            rule.topic,
            "paused" if rule.is_paused else "open",
            f"{rule.rate:,}/s" if rule.rate else "",
            show_span(rule.expiry_ms) if rule.expiry_ms else "",
            rule.pending,
            rule.held_back,
        )
        for rule in found.rules
    ]
    show_table(("TOPIC", "ROAD", "RATE", "EXPIRY", "PENDING", "HELD BACK"), rows)
    return 0


def _request(args: argparse.Namespace) -> SetRule | ListRules:
    if args.action == "rules":
        return ListRules()
    if args.action in ("pause", "resume"):
        return SetRule(topic=args.topic, is_paused=args.action == "pause")
    if args.action == "rate":
        return SetRule(topic=args.topic, rate=_rate(args.value))
    expiry_ms = 0 if args.value == "off" else parse_duration_ms(args.value)
    return SetRule(topic=args.topic, expiry_ms=expiry_ms)


def _rate(text: str) -> int:
    if text == "off":
        return 0
    if text.isascii() and text.isdigit() and int(text[:10]) > 0:
        return int(text[:10])
    raise InvalidRequest(f"rate: expected messages a second, or off, found {text!r}")
