"""Rules as operators write them, and which one counts."""

from __future__ import annotations

import pytest

from dueline.broker.quotas.rules import NONE, Allowance, parse_rules
from dueline.errors import InvalidRequest


def test_the_most_special_rule_counts_alone() -> None:
    rules = parse_rules(
        {
            "user:*": "sends:1",
            "user:billing": "bytes:2MiB topics:3",
            "address:*": "sends:4",
            "address:10.0.0.0/8": "polls:5",
            "address:10.1.0.0/16": "polls:6",
            "address:10.1.0.7": "connections:7",
            "topic:orders": "pending:8",
        }
    )

    assert rules.of_user("billing") == Allowance(bytes=2 << 20, topics=3)
    assert rules.of_user("somebody") == Allowance(sends=1)
    assert rules.of_user(None) == NONE
    assert rules.of_address("10.1.0.7") == Allowance(connections=7)
    assert rules.of_address("10.1.0.8") == Allowance(polls=6)
    assert rules.of_address("10.2.0.8") == Allowance(polls=5)
    assert rules.of_address("192.0.2.1") == Allowance(sends=4)
    assert rules.of_topic("orders") == Allowance(pending=8)
    assert rules.of_topic("others") == NONE


def test_addresses_of_both_kinds_are_understood() -> None:
    rules = parse_rules({"address:2001:db8::/32": "sends:1", "address:0.0.0.0/0": "sends:2"})

    assert rules.of_address("2001:db8:1:2::3").sends == 1
    assert rules.of_address("2001:db8:1:2::/64").sends == 1, "a network that stands for many"
    assert rules.of_address("203.0.113.9").sends == 2
    assert rules.of_address("") == NONE


def test_no_rules_are_empty() -> None:
    assert parse_rules({}).is_empty
    assert not parse_rules({"topic:*": "sends:1"}).is_empty


@pytest.mark.parametrize(
    ("subject", "text", "words"),
    [
        ("orders", "sends:1", "expected user:NAME"),
        ("user:", "sends:1", "expected user:NAME"),
        ("group:g", "sends:1", "expected user:NAME"),
        ("user:a", "", "expected a bound"),
        ("user:a", "sends", "sends: expected a whole number"),
        ("user:a", "sends:0", "expected a whole number above 0"),
        ("user:a", "sends:-1", "expected a whole number"),
        ("user:a", "sends:1 sends:2", "each at most once"),
        ("user:a", "connections:1", "expected sends:N, bytes:N, topics:N"),
        ("topic:a", "topics:1", "expected sends:N, bytes:N, pending:N"),
        ("topic:a", "bytes:1MB", "MiB"),
        ("address:a.example", "sends:1", "expected an address"),
        ("address:10.0.0.1/8", "sends:1", "host bits"),
    ],
)
def test_what_cannot_be_is_refused(subject: str, text: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        parse_rules({subject: text})
