"""The machinery of typed headers."""

import dataclasses

import pytest

from dueline.errors import InvalidRequest
from dueline.wire.header import Header, Long, header, wire


@header
class Sample(Header):
    """One field of each kind."""

    group_name: str
    count: int
    position: Long
    is_last: bool = False
    remark: str | None = None
    limit: int | None = None
    odd: str = wire("ODD_Name", default="x")


LEAST = {"groupName": "g", "count": "1", "position": "2"}


def test_fields_travel_in_camel_case_and_have_types() -> None:
    decoded = Sample.decode({**LEAST, "isLast": "true", "limit": "-5", "ODD_Name": "y"})

    assert decoded == Sample(
        group_name="g", count=1, position=2, is_last=True, limit=-5, odd="y", remark=None
    )


def test_header_is_written_as_strings_without_what_is_absent() -> None:
    encoded = Sample(group_name="g", count=1, position=-(1 << 63)).encode()

    assert encoded == {
        "groupName": "g",
        "count": "1",
        "position": "-9223372036854775808",
        "isLast": "false",
        "ODD_Name": "x",
    }


def test_unknown_names_are_ignored() -> None:
    assert Sample.decode({**LEAST, "bname": "b"}) == Sample(group_name="g", count=1, position=2)


@pytest.mark.parametrize("name", LEAST)
def test_missing_field_is_named(name: str) -> None:
    ext = {key: value for key, value in LEAST.items() if key != name}

    with pytest.raises(InvalidRequest, match=f"Sample: {name}: expected a value") as caught:
        Sample.decode(ext)

    assert caught.value.field == name


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1_0", "0x1", "1.0", "one", "--1", "+", "-", "\u00b2", "9" * 5000, "true"],
)
def test_what_is_no_integer_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="count: expected an integer of 32 bits"):
        Sample.decode({**LEAST, "count": text})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-1", -1),
        ("+7", 7),
        ("007", 7),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
    ],
)
def test_integers_that_java_reads(text: str, value: int) -> None:
    assert Sample.decode({**LEAST, "count": text}).count == value


@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "9999999999999"])
def test_integer_has_thirty_two_bits(text: str) -> None:
    with pytest.raises(InvalidRequest, match="32 bits"):
        Sample.decode({**LEAST, "count": text})


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809"])
def test_long_has_sixty_four_bits(text: str) -> None:
    with pytest.raises(InvalidRequest, match="64 bits"):
        Sample.decode({**LEAST, "position": text})


@pytest.mark.parametrize(
    ("text", "value"), [("TRUE", True), ("False", False), ("1", True), ("0", False)]
)
def test_booleans_of_other_clients(text: str, value: bool) -> None:
    assert Sample.decode({**LEAST, "isLast": text}).is_last is value


def test_other_words_are_no_booleans() -> None:
    with pytest.raises(InvalidRequest, match="isLast: expected true or false, found 'yes'"):
        Sample.decode({**LEAST, "isLast": "yes"})


@pytest.mark.parametrize(
    "change", [{"count": 1 << 31}, {"position": 1 << 63}, {"count": "1"}, {"group_name": 5}]
)
def test_value_that_does_not_fit_is_not_written(change: dict[str, int]) -> None:
    wrong = dataclasses.replace(Sample.decode(LEAST), **change)  # type: ignore[arg-type]

    with pytest.raises(InvalidRequest, match="Sample"):
        wrong.encode()
    with pytest.raises(InvalidRequest, match="Sample"):
        wrong.check()


def test_header_cannot_be_changed() -> None:
    decoded = Sample.decode(LEAST)

    with pytest.raises(dataclasses.FrozenInstanceError):
        decoded.count = 5  # type: ignore[misc]
