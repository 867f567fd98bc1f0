"""A cursor comes back as the place that it was made of, whatever its length."""

from __future__ import annotations

import pytest

from dueline.broker.waiting.cursors import packed, unpacked
from dueline.errors import InvalidRequest


@pytest.mark.parametrize("length", range(9))
def test_a_cursor_of_any_length_comes_back(length: int) -> None:
    plain = "1ü34567890"[:length]

    assert unpacked(packed(plain)) == plain


@pytest.mark.parametrize("text", ["!", "a", "é", "a b", "=", "gA", "A" * 2_000])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor: expected one that an earlier answer had"):
        unpacked(text)
