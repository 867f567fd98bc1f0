import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dueline.broker.distribution import Distribution

BOUNDS = (0, 1, 5, 20)
VALUES = st.lists(st.integers(0, 40), max_size=50)


def expected(values: list[int]) -> list[int]:
    """Up to each bound and above the one before; the rest last."""
    lows = (-1, *BOUNDS)
    highs = (*BOUNDS, 10**9)
    return [
        len([value for value in values if low < value <= high])
        for low, high in zip(lows, highs, strict=True)
    ]


@given(VALUES, VALUES)
def test_values_are_counted_in_their_classes(singles: list[int], many: list[int]) -> None:
    found = Distribution(BOUNDS)

    for value in singles:
        found.add(value)
    added = found.add_all(np.array(many, dtype=np.int64))

    assert added.tolist() == expected(many)
    assert found.counts.tolist() == expected(singles + many)
    assert found.total == sum(singles + many)
