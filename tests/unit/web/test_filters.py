import pytest

from dueline.errors import InvalidRequest
from dueline.flight.waiting import PendingFilter
from dueline.web.filters import PendingQuery, pending_filter, shown_filter

NOW_MS = 1_000_000


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (PendingQuery(), PendingFilter()),
        (PendingQuery(topic="", key="", property="", due_from=""), PendingFilter()),
        (PendingQuery(key="a*"), PendingFilter(key_prefix="a")),
        (PendingQuery(key="*"), PendingFilter()),
        (PendingQuery(key="a*b"), PendingFilter(key="a*b")),
        (
            PendingQuery(property="region=a=b"),
            PendingFilter(property_name="region", property_value="a=b"),
        ),
        (
            PendingQuery(due_from="now", due_before="+1s"),
            PendingFilter(due_start_ms=NOW_MS, due_end_ms=NOW_MS + 1_000),
        ),
        (
            PendingQuery(topic="t", tag="g", text="x", where="size > 1"),
            PendingFilter(topic="t", tag="g", text="x", where="size > 1"),
        ),
    ],
)
def test_a_query_is_what_a_person_means(query: PendingQuery, expected: PendingFilter) -> None:
    assert pending_filter(query, NOW_MS) == expected


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (PendingQuery(property="region"), "property"),
        (PendingQuery(property="=eu"), "property"),
        (PendingQuery(due_from="whenever"), "due_from"),
        (PendingQuery(due_before="+soon"), "due_before"),
    ],
)
def test_what_makes_no_sense_is_named(query: PendingQuery, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        pending_filter(query, NOW_MS)

    assert caught.value.field == field


def test_a_filter_is_shown_in_a_few_words() -> None:
    assert shown_filter(None) == ""
    assert shown_filter(PendingFilter()) == "everything"
    found = PendingFilter(topic="t", property_name="region", property_value="eu")
    assert shown_filter(found) == "topic t, region eu"
