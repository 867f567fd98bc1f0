import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueline.errors import InvalidRequest
from dueline.settings import (
    ADDRESS,
    COUNT,
    DURATION,
    FLAG,
    OPTIONAL_TEXT,
    RATIO,
    SIZE,
    TABLE,
    TEXT,
    Kind,
    choice,
    parse_address,
)

PRINTABLE = st.text(min_size=1).filter(str.isprintable)


def shown_and_read(kind: Kind, value: Any) -> Any:
    """What TOML makes of the written form, read again."""
    return kind.read(tomllib.loads(f"x = {kind.show(value)}")["x"], where="x")


@given(st.integers(min_value=0, max_value=10**15))
def test_durations_and_sizes_are_read_as_they_are_written(value: int) -> None:
    assert shown_and_read(DURATION, value) == value
    assert shown_and_read(SIZE, value) == value


@given(PRINTABLE)
def test_texts_are_read_as_they_are_written(value: str) -> None:
    assert shown_and_read(TEXT, value) == value


@given(st.dictionaries(PRINTABLE, PRINTABLE))
def test_tables_are_read_as_they_are_written(value: dict[str, str]) -> None:
    assert shown_and_read(TABLE, value) == value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (DURATION, "1m30s", 90_000),
        (DURATION, "500ms", 500),
        (SIZE, "64MiB", 64 * 1024 * 1024),
        (SIZE, "10B", 10),
        (COUNT, "12", 12),
        (RATIO, "0.25", 0.25),
        (FLAG, "false", False),
        (ADDRESS, "[::1]:8815", "[::1]:8815"),
        (OPTIONAL_TEXT, "", None),
        (TABLE, "a=1,b=x=y", {"a": "1", "b": "x=y"}),
        (choice("sync", "async"), "async", "async"),
    ],
)
def test_text_is_understood(kind: Kind, text: str, value: Any) -> None:
    assert kind.parse(text, where="x") == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DURATION, "30"),
        (DURATION, "half an hour"),
        (SIZE, "64"),
        (SIZE, "64MB"),
        (COUNT, "0"),
        (COUNT, "-1"),
        (COUNT, "1e3"),
        (RATIO, "1.1"),
        (RATIO, "nan"),
        (FLAG, "yes"),
        (ADDRESS, "localhost"),
        (ADDRESS, "localhost:65536"),
        (TEXT, ""),
        (choice("sync", "async"), "maybe"),
    ],
)
def test_bad_text_is_refused_with_what_was_expected(kind: Kind, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        kind.parse(text, where="environment X")

    assert caught.value.message == f"environment X: expected {kind.expected}, found {text!r}"


@pytest.mark.parametrize(
    ("kind", "value"),
    [(DURATION, 30), (SIZE, 64), (COUNT, "12"), (COUNT, True), (FLAG, 1), (TEXT, 5), (TABLE, [])],
)
def test_toml_values_of_another_type_are_refused(kind: Kind, value: Any) -> None:
    with pytest.raises(InvalidRequest, match="expected"):
        kind.read(value, where="x")


def test_address_is_host_and_port() -> None:
    assert parse_address("broker-1:8815") == ("broker-1", 8815)


@pytest.mark.parametrize("text", ["spark.ssl.keyPassword", "=hunter2", "a=b,hunter2"])
def test_what_may_be_a_password_is_not_repeated_in_an_error(text: str) -> None:
    with pytest.raises(InvalidRequest, match="expected a table") as refused:
        TABLE.parse(text, where="environment DUELINE_DELIVERY_CONF")
    with pytest.raises(InvalidRequest, match="expected a table") as refused_too:
        TABLE.read([text], where="file")

    assert text not in str(refused.value)
    assert text not in str(refused_too.value)
