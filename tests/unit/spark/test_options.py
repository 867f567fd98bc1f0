"""Options of the data source: what is taken, and that mistakes are named."""

import pytest

from dueline.errors import InvalidRequest
from dueline.spark.options import Options


def test_names_may_be_in_any_case_and_values_have_kinds() -> None:
    options = Options.parse(
        {
            "Brokers": "a:1, [::1]:2",
            "AHEAD": "1m30s",
            "row_count_max": "7",
            "checkpointLocation": "/somewhere",
            "missing": "drop",
        }
    )

    assert options.brokers == ("a:1", "[::1]:2")
    assert options.ahead_ms == 90_000
    assert options.row_count_max == 7
    assert options.missing == "drop"
    assert "body" in options.columns


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "brokers"),
        ({"brokers": ""}, "brokers"),
        ({"brokers": "a"}, "host:port"),
        ({"brokers": "a:0"}, "host:port"),
        ({"brokers": "a:70000"}, "host:port"),
        ({"brokers": "a:1,a:1"}, "different"),
        ({"brokers": "a:1", "aheadd": "5s"}, "option aheadd: expected one of action, ahead"),
        ({"brokers": "a:1", "ahead": "5"}, "option ahead: duration"),
        ({"brokers": "a:1", "columns": "tags,record"}, "option columns: expected some of origin"),
        ({"brokers": "a:1", "columns": ""}, "option columns"),
        ({"brokers": "a:1", "row_count_max": "0"}, "above 0"),
        ({"brokers": "a:1", "row_count_max": "-1"}, "above 0"),
        ({"brokers": "a:1", "transport": "Files"}, "auto or flight or files"),
        ({"brokers": "a:1", "missing": "true"}, "error or drop"),
    ],
)
def test_mistakes_are_named(given: dict[str, str], found: str) -> None:
    with pytest.raises(InvalidRequest, match=found):
        Options.parse(given)
