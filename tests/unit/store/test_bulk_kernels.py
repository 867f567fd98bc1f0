"""Texts that do not fit are noticed; that they are right is claimed in `test_bulk_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dueline import compiled
from dueline.message_rows import ROW_BODY_END, ROW_TEXT_END, ROW_TEXT_START, ROW_WIDTH
from dueline.store.bulk_rows import BULK_KERNELS
from dueline.store.packed import HEAD_SIZE, PLACE_WIDTH

pytest.importorskip("numba")

NO_BYTES = np.empty(0, dtype=np.uint8)
PREFIX = np.frombuffer(b"AB", dtype=np.uint8)
HEADS = np.array([[3, 0, 0, 0, 0, 5, 0]], dtype=np.int64)


@pytest.fixture(scope="module")
def kernels() -> Any:
    assert compiled.load([BULK_KERNELS])
    return compiled.ready(BULK_KERNELS)


def column(text: bytes, *offsets: int) -> tuple[Any, Any]:
    return np.frombuffer(text, dtype=np.uint8), np.array(offsets, dtype=np.int64)


def measured(
    kernels: Any, keys: tuple[Any, Any], body_end: int = 4, *, is_packed: bool = False
) -> tuple[int, Any, list[int]]:
    empty = NO_BYTES, np.zeros(2, dtype=np.int64)
    rows = np.zeros((1, ROW_WIDTH), dtype=np.int64)
    rows[0, ROW_BODY_END] = body_end
    sizes = np.zeros((2, 1), dtype=np.int64)
    dues = np.array([1_000], dtype=np.int64)
    packings = np.empty((1, PLACE_WIDTH), dtype=np.int64)
    total = kernels.measure(
        *(
            *empty,
            *keys,
            *empty,
            2,
            dues,
            HEADS,
            80,
            4,
            is_packed,
            rows,
            sizes[0],
            sizes[1],
            packings,
        )
    )
    return total, rows, sizes[:, 0].tolist()


def test_sizes_are_those_of_what_is_written(kernels: Any) -> None:
    total, rows, (text_size, size) = measured(kernels, column(b"ab c", 0, 4))

    text = b"UNIQ_KEY\x01AB000000000007\x02KEYS\x01ab c"
    rest = b"\x02TIMER_OUT_MS\x011000\x02REAL_TOPIC\x01topic\x02REAL_QID\x013"
    assert total == len(text)
    assert text_size == len(text + rest)
    assert size == 80 + 4 + 1 + len("rmq_sys_wheel_timer") + 2 + len(text + rest)
    out = np.zeros(total, dtype=np.uint8)
    empty = NO_BYTES, np.zeros(2, dtype=np.int64)
    assert kernels.write_texts(*empty, *column(b"ab c", 0, 4), *empty, PREFIX, 7, rows, out)
    assert out.tobytes() == text


def test_packed_records_have_their_own_size(kernels: Any) -> None:
    _, _, (text_size, size) = measured(kernels, column(b"ab c", 0, 4), is_packed=True)

    assert size == HEAD_SIZE + 4 + len(bytes.fromhex("AB000000000007")) + len(b"KEYS\x01ab c") + 5
    assert text_size > size // 2, "of the record that it stands for"


@pytest.mark.parametrize(
    "keys", [(b"abc", 0, 4), (b"abc", -1, 2), (b"abc", 2, 1), (b"a\x01c", 0, 3), (b"a\x02c", 0, 3)]
)
def test_text_that_is_not_there_or_has_a_separator_is_not_measured(
    kernels: Any, keys: tuple[Any, ...]
) -> None:
    assert measured(kernels, column(*keys))[0] == -1


@pytest.mark.parametrize("body_end", [-1, 5])
def test_body_that_is_not_there_is_not_measured(kernels: Any, body_end: int) -> None:
    assert measured(kernels, column(b"", 0, 0), body_end)[0] == -1


def test_text_without_room_is_not_written(kernels: Any) -> None:
    empty = NO_BYTES, np.zeros(2, dtype=np.int64)
    rows = np.zeros((1, ROW_WIDTH), dtype=np.int64)
    rows[0, ROW_TEXT_START], rows[0, ROW_TEXT_END] = 0, 23
    out = np.zeros(22, dtype=np.uint8)

    assert not kernels.write_texts(*empty, *empty, *empty, PREFIX, 7, rows, out)
    assert not out.any()
