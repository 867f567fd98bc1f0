"""Conditions as text: what they mean, and that nonsense is refused with a reason."""

from __future__ import annotations

import pytest

from dueline.broker.waiting.conditions import (
    All,
    Compare,
    Contains,
    Either,
    IsIn,
    IsNull,
    Like,
    Not,
)
from dueline.broker.waiting.where import DEPTH_MAX, TOKEN_COUNT_MAX, parse_where
from dueline.errors import InvalidRequest


def test_comparisons_are_read() -> None:
    assert parse_where("topic = 'it''s'") == Compare(column="topic", sign="=", value="it's")
    assert parse_where("QUEUE_ID != -3") == Compare(column="queue", sign="<>", value=-3)
    assert parse_where("due<'2027-01-01T10:00:00Z'") == Compare(
        column="due", sign="<", value=1_798_797_600_000
    )
    assert parse_where("due >= 17") == Compare(column="due", sign=">=", value=17)
    assert parse_where("key like 'a%'") == Like(column="key", pattern="a%")
    assert parse_where("size in (1, 2)") == IsIn(column="size", values=(1, 2))
    assert parse_where("body contains 'x'") == Contains(column="body", text="x")
    assert parse_where("property('a b') is null") == IsNull(column="property", detail="a b")
    assert parse_where("tag is not null") == Not(part=IsNull(column="tag"))
    assert parse_where("tag not like '_'") == Not(part=Like(column="tag", pattern="_"))


def test_and_binds_closer_than_or_and_not_closest() -> None:
    a, b, c = (Compare(column="tag", sign="=", value=each) for each in "abc")

    found = parse_where("not tag = 'a' and tag = 'b' or tag = 'c'")
    other = parse_where("not (tag = 'a' and (tag = 'b' OR tag = 'c'))")

    assert found == Either(parts=(All(parts=(Not(part=a), b)), c))
    assert other == Not(part=All(parts=(a, Either(parts=(b, c)))))


def test_between_has_both_ends() -> None:
    low, high = (Compare(column="size", sign=s, value=v) for s, v in ((">=", 1), ("<=", 5)))

    assert parse_where("size between 1 and 5") == All(parts=(low, high))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a column .* found the end"),
        ("topic", "expected a comparison"),
        ("topic =", "expected text in quotes at character 8, found the end"),
        ("topic = orders", "expected text in quotes"),
        ("size = 'x'", "expected a whole number"),
        ("size like 'x'", "expected a comparison of size"),
        ("size = 1.5", "expected a column, a value or a sign"),
        ("size = 1234567890123456789", "expected a whole number"),
        ("due < 'soon'", "at character 7: time: expected a date"),
        ("colour = 'red'", "expected a column"),
        ("topic = 'a' topic = 'b'", "expected AND, OR or the end"),
        ("(topic = 'a'", r"expected \)"),
        ("topic in ()", "expected text in quotes"),
        ("topic = 'a", "expected a column, a value or a sign"),
        ("topic ; 'a'", "expected a column, a value or a sign"),
        ("property = 'a'", r"expected \("),
        ("not " * (DEPTH_MAX + 1) + "topic = 'a'", "at most 64 levels"),
        ("(" * (DEPTH_MAX + 1), "at most 64 levels"),
        ("tag = 'a' or " * TOKEN_COUNT_MAX + "tag = 'a'", "expected at most"),
    ],
)
def test_nonsense_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        parse_where(text)
