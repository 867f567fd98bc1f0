import pytest

from dueline.errors import InvalidRequest
from dueline.web.moments import moment_ms, shift_ms

NOW_MS = 1_794_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW_MS),
        (" +90m ", NOW_MS + 5_400_000),
        ("-1d", NOW_MS - 86_400_000),
        ("1794000000001", NOW_MS + 1),
        ("2027-01-01T00:00:00Z", 1_798_761_600_000),
    ],
)
def test_a_moment_is_written_in_many_ways(text: str, expected: int) -> None:
    assert moment_ms(text, NOW_MS, name="x") == expected


def test_a_day_may_be_named() -> None:
    assert 0 < moment_ms("tomorrow 9:00", NOW_MS, name="x") - NOW_MS < 2 * 86_400_000


@pytest.mark.parametrize("text", ["", "soon", "+", "-later", "9" * 30, "2027-13-01"])
def test_what_is_no_moment_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^x: ") as caught:
        moment_ms(text, NOW_MS, name="x")

    assert caught.value.field == "x"


def test_a_shift_has_a_sign() -> None:
    found = [shift_ms(text, name="x") for text in ("5s", "+5s", "-5s")]

    assert found == [5_000, 5_000, -5_000]
