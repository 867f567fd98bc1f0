"""The tables behind the numbers of headers."""

from __future__ import annotations

import pytest
from hpack.table import HeaderTable as Theirs

from dueline.wire.http2.faults import Fault
from dueline.wire.http2.header_table import HeaderTable, size_of


def test_the_static_table_is_the_standards() -> None:
    table = HeaderTable(4_096)

    for number, (name, value) in enumerate(Theirs.STATIC_TABLE, start=1):
        assert table.get(number) == (name.decode(), value.decode())
    for number in (0, 62, -1):
        with pytest.raises(Fault, match="expected a number from 1 to 61"):
            table.get(number)


def test_the_oldest_go_when_there_is_no_room() -> None:
    fields = [("name", f"value {number}") for number in range(5)]
    table = HeaderTable(3 * size_of(fields[0]))
    for field in fields:
        table.add(field)

    assert [table.get(number) for number in (62, 63, 64)] == fields[:1:-1]
    with pytest.raises(Fault):
        table.get(65)

    table.resize(size_of(fields[0]))
    assert table.get(62) == fields[-1]
    with pytest.raises(Fault):
        table.get(63)
    table.add(("large", "x" * 1_000))  # empties the table, and is not kept
    with pytest.raises(Fault):
        table.get(62)


def test_a_table_does_not_grow_beyond_what_was_allowed() -> None:
    with pytest.raises(Fault, match="at most 100 bytes, found 101"):
        HeaderTable(100).resize(101)
