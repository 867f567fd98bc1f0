"""Where queue offsets begin and where holes stay, from what records say of themselves."""

from __future__ import annotations

import numpy as np
import pytest

from dueline.store.holes import first_offset


@pytest.mark.parametrize(
    ("claims", "saved", "first"),
    [
        ([5, 6, 7], (0, 3), 5),  # they agree with each other: what was saved is older
        ([5], (3, 5), 5),
        ([4], (3, 5), 4),
        ([5 ^ 1 << 30], (3, 6), 5),  # alone, and nowhere near
        ([1, 6], (5, 7), 5),  # 5 became 1; the other one says the same as the range
        ([9], None, 9),
        ([-1], (3, 5), None),  # not shown yet
    ],
)
def test_first_offset(claims: list[int], saved: tuple[int, int] | None, first: int | None) -> None:
    assert first_offset(np.array(claims), is_damaged=False, saved=saved) == first
