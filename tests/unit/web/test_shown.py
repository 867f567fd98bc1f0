import pytest

from dueline.web import shown


def test_times_beyond_the_calendar_are_shown_all_the_same() -> None:
    for ms in (-5, 0, 1 << 62):
        assert shown.iso(ms).endswith("Z")
        assert shown.utc(ms).endswith("UTC")


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1 << 20, "1.0 MiB"), (1 << 42, "4.0 TiB")],
)
def test_a_size_has_the_unit_that_suits_it(size_bytes: int, expected: str) -> None:
    assert shown.size(size_bytes) == expected


def test_a_preview_is_one_short_line() -> None:
    assert shown.preview(b"a\n\tb\xff") == "a b\\xff"
    assert len(shown.preview(b"x" * 10_000)) == 120


@pytest.mark.parametrize(
    ("unique_id", "expected"),
    [("", ""), ("a" * 13, "a" * 13), ("x" + "b" * 13, "…" + "b" * 12)],
)
def test_a_long_id_is_shown_by_its_end(unique_id: str, expected: str) -> None:
    assert shown.ending(unique_id) == expected
