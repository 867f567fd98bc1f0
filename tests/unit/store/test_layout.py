"""The fields of a record are where docs/format says, one at a time and in arrays."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from dueline.store import layout
from dueline.store.kernels import HEADER_DTYPE, body_starts, born_extra, headers

PLACES = {
    "queue_offset": layout.QUEUE_OFFSET_AT,
    "position": layout.POSITION_AT,
    "sys_flag": layout.SYS_FLAG_AT,
    "born_ms": layout.BORN_MS_AT,
    "born_host": layout.BORN_HOST_AT,
    "store_ms": layout.STORE_MS_AT,
    "store_host": layout.STORE_HOST_AT,
    "reconsume_times": layout.RECONSUME_TIMES_AT,
    "mark": layout.MARK_AT,
    "body_size": layout.BODY_SIZE_AT,
}


@pytest.mark.parametrize("name", PLACES)
def test_arrays_and_offsets_agree(name: str) -> None:
    fields = HEADER_DTYPE.fields
    assert fields is not None

    assert fields[name][1] == PLACES[name]


def header(born: int, store: int) -> bytes:
    """A header made by hand, with a different number in each field."""
    sys_flag = (0x10 if born == 20 else 0) | (0x20 if store == 20 else 0)
    first = struct.pack(">IIIiiqqiq", 1, 2, 3, 4, 5, 6, 7, sys_flag, 8)
    middle = b"b" * born + struct.pack(">q", 9) + b"s" * store
    return first + middle + struct.pack(">iQI", 10, 11, 12)


@pytest.mark.parametrize("store", [8, 20])
@pytest.mark.parametrize("born", [8, 20])
def test_fields_are_found_behind_hosts_of_any_size(born: int, store: int) -> None:
    data = header(born, store)

    found = layout.header(*layout.host_sizes(layout.sys_flag_of(data))).unpack(data)

    assert found[:7] == (1, 2, 3, 4, 5, 6, 7)
    assert found[8:] == (8, b"b" * born, 9, b"s" * store, 10, 11, 12)
    assert layout.store_ms_of(data[: layout.STORE_MS_END]) == 9
    assert int.from_bytes(data[layout.QUEUE_OFFSET], "big") == 6
    assert layout.with_queue_offset(data, 99)[:28] == data[:20] + (99).to_bytes(8, "big")
    assert layout.with_queue_offset(data, 99)[28:] == data[28:]
    assert layout.SIZE_MAGIC.unpack_from(data) == (1, 2)
    assert layout.SIZE_MAGIC_POSITION.unpack_from(data) == (1, 2, 7)


def test_arrays_find_fields_behind_hosts_of_any_size() -> None:
    rows = [header(born, store) for born in (8, 20) for store in (8, 20)]
    starts = np.cumsum([0, *map(len, rows)])[:-1].astype(np.int64)
    data = np.frombuffer(b"".join(rows), dtype=np.uint8)

    found = headers(data, starts)

    for name, value in (("store_ms", 9), ("reconsume_times", 10), ("mark", 11), ("body_size", 12)):
        assert found[name].tolist() == [value] * 4
    assert (body_starts(found, starts) - starts).tolist() == [len(row) for row in rows]
    assert born_extra(found).tolist() == [0, 0, 12, 12]
