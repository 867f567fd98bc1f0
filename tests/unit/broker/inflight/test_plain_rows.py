"""Parts one behind the other."""

from __future__ import annotations

import pytest

from dueline.broker.inflight.plain_rows import joined


@pytest.mark.parametrize("parts", [[b"a"], [b"", b"abc", b"", b"de"]])
def test_parts_end_where_the_next_begin(parts: list[bytes]) -> None:
    data, ends = joined(parts)

    starts = [0, *ends.tolist()]
    assert [data[start:end].tobytes() for start, end in zip(starts, ends, strict=False)] == parts
