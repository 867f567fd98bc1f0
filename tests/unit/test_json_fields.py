"""Values of JSON by their type; what is of another one is named by its place."""

from collections.abc import Callable
from typing import Any

import pytest

from dueline.errors import InvalidRequest
from dueline.json_fields import JsonPath, camel_case, read_bool, read_float, read_int, read_text


@pytest.mark.parametrize("value", [0, -(1 << 63), (1 << 63) - 1, "-17", "9223372036854775807"])
def test_integers_are_of_64_bits_and_may_be_text(value: object) -> None:
    assert read_int(value, "n") == int(str(value))


@pytest.mark.parametrize(
    ("read", "wrong"),
    [
        *((read_int, each) for each in (True, 1.0, 1 << 63, "1_0", " 1", "", "9" * 30, None)),
        *((read_float, each) for each in (True, "1.5", None)),
        *((read_bool, each) for each in (0, "true", None)),
        *((read_text, each) for each in (b"x", 7, None)),
    ],
)
def test_values_of_another_type_are_refused(
    read: Callable[[Any, JsonPath], object], wrong: object
) -> None:
    with pytest.raises(InvalidRequest, match=r"^settings: expected"):
        read(wrong, "settings")


def test_a_number_without_fraction_is_a_float_too() -> None:
    assert [read_float(value, "n") for value in (2, 2.5)] == [2.0, 2.5]


def test_the_place_is_that_of_the_value() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_bool("yes", ((("body", "queues"), 3), "isOrdered"))

    assert caught.value.field == "body.queues[3].isOrdered"
    assert caught.value.message.endswith("expected true or false, found 'yes'")


def test_camel_case_keeps_single_words() -> None:
    assert [camel_case("topic"), camel_case("max_msg_nums")] == ["topic", "maxMsgNums"]
