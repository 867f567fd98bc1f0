"""Properties of many records at once: the array form of `dueline.message`'s property codec.

`split` turns stored property strings into an Arrow map, `values` picks one property of each row,
`merge` makes stored strings from a map and named columns. Entries without a name or a value are
skipped, as the scalar codec does. Also here: tags codes and key hashes of many rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline.message import string_hash
from dueline.store import kernels
from dueline.store.kernels import Int64s

__all__ = [
    "indexed",
    "key_hash",
    "key_hashes",
    "merge",
    "pick",
    "split",
    "tags_codes",
    "text",
    "values",
    "values_of",
]

_NAME_VALUE: Final = 1
_SEPARATOR: Final = 2
_WORD: Final = 8
# Far from a power of two: of 2^32 - 5 the powers of 256 repeat but for a small factor, and every
# other one of a million numbered keys ("order-17") had the hash of another.
HASH_PRIME: Final = 4_093_082_899
_HASH_WIDTH_MAX: Final = 128
_HASH_WEIGHTS: Final = np.array(
    [pow(256, place, HASH_PRIME) for place in range(_HASH_WIDTH_MAX)], dtype=np.float64
)


def key_hash(key: str) -> int:
    """The 32 bits under which the key index keeps a key: its bytes as a number, modulo a prime.

    Chosen because both forms are quick: one C call here, one matrix product for many keys.
    """
    return int.from_bytes(key.encode("utf-8", "surrogateescape"), "little") % HASH_PRIME


def split(properties: pa.BinaryArray) -> pa.MapArray:
    """A map<string, string> per row."""
    data, offsets = kernels.buffer_of(properties)
    starts, ends, rows = _entries(data, offsets)
    names_end, found = _next_of(np.flatnonzero(data == _NAME_VALUE), starts, ends)
    keep = found & (names_end > starts) & (names_end + 1 < ends)
    if not bool(keep.all()):
        starts, ends, names_end, rows = starts[keep], ends[keep], names_end[keep], rows[keep]
    counts = np.bincount(rows, minlength=len(properties))
    return pa.MapArray.from_arrays(
        pa.array(kernels.offsets_of(counts).astype(np.int32)),
        text(kernels.slices(data, starts, names_end - starts)),
        text(kernels.slices(data, names_end + 1, ends - names_end - 1)),
    )


def pick(maps: pa.MapArray, name: str) -> pa.StringArray:
    """One property of each row of a whole map array that `split` made; null where it is missing."""
    at = np.flatnonzero(pc.equal(maps.keys, name).to_numpy(zero_copy_only=False))
    offsets = np.asarray(maps.offsets, dtype=np.int64)
    rows = np.searchsorted(offsets, at, side="right") - 1
    picked = np.full(len(maps), -1, dtype=np.int64)
    picked[rows[::-1]] = at[::-1]  # of several, the first
    if bool((picked >= 0).all()):
        return maps.items.take(pa.array(picked))
    return maps.items.take(pa.array(picked, mask=picked < 0))


def values(properties: pa.BinaryArray, name: str) -> pa.BinaryArray:
    """One property of each row as bytes; null where a row does not have it."""
    return values_of(properties, (name,))[0]


def values_of(properties: pa.BinaryArray, names: Sequence[str]) -> list[pa.BinaryArray]:
    """Several properties of each row, in the order of the names; the rows are walked once."""
    data, offsets = kernels.buffer_of(properties)
    starts, ends, rows = _entries(data, offsets)
    heads = _first_words(data, starts)
    return [
        _picked(data, offsets, (starts, ends, rows), heads, name.encode() + b"\x01")
        for name in names
    ]


def _first_words(data: npt.NDArray[np.uint8], starts: Int64s) -> npt.NDArray[np.uint64]:
    """The eight bytes from each start on, as one number; zeros behind the end of the data."""
    wide = np.concatenate([data, np.zeros(_WORD, dtype=np.uint8)])
    words = kernels.windows(wide, _WORD)[starts]
    result: npt.NDArray[np.uint64] = words.view(np.uint64).reshape(len(starts))
    return result


def _picked(
    data: npt.NDArray[np.uint8],
    offsets: Int64s,
    entries: tuple[Int64s, Int64s, npt.NDArray[np.intp]],
    heads: npt.NDArray[np.uint64],
    head: bytes,
) -> pa.BinaryArray:
    """What follows `head` in the first entry of each row that begins with it."""
    starts, ends, rows = entries
    word = np.frombuffer(head[:_WORD].ljust(_WORD, b"\0"), dtype=np.uint64)[0]
    mask = np.frombuffer(b"\xff" * min(len(head), _WORD) + bytes(_WORD), dtype=np.uint64, count=1)[
        0
    ]
    at = np.flatnonzero(heads & mask == word)
    at = at[starts[at] + len(head) <= ends[at]]
    if len(head) > _WORD:
        rest = kernels.windows(data, len(head) - _WORD)[starts[at] + _WORD]
        at = at[(rest == np.frombuffer(head[_WORD:], dtype=np.uint8)).all(axis=1)]
    own = rows[at]
    if len(own) > 1:
        is_first = np.append(True, own[1:] != own[:-1])
        at, own = at[is_first], own[is_first]
    places, sizes = offsets[:-1].copy(), np.zeros(len(offsets) - 1, dtype=np.int64)
    places[own] = starts[at] + len(head)
    sizes[own] = ends[at] - places[own]
    array = kernels.slices(data, places, sizes)
    if bool((sizes > 0).all()):
        return array
    return pc.if_else(pa.array(sizes > 0), array, pa.scalar(None, pa.binary()))


def merge(
    count: int,
    columns: Mapping[str, Any],
    properties: pa.MapArray | None,
    *,
    without: Iterable[str] = (),
) -> pa.BinaryArray:
    """Stored property strings: the named columns first, then what the map has beyond them.

    Columns are string or binary arrays (null: not there) or plain `bytes` for all rows. A map entry
    whose name is also a column, or one of `without`, is left out.
    """
    parts = []
    for name, column in columns.items():
        head = name.encode() + b"\x01"
        if isinstance(column, bytes):
            parts.append(pa.scalar(b"\x02" + head + column, pa.binary()))
        else:
            entry = pc.binary_join_element_wise(
                b"\x02" + head, column.cast(pa.binary()), b"", null_handling="emit_null"
            )
            parts.append(pc.fill_null(entry, b""))
    if properties is not None:
        parts.append(_joined_map(properties, {*columns, *without}))
    if not parts:
        return pa.array([b""] * count, pa.binary())
    joined = kernels.join(*parts) if len(parts) > 1 else parts[0]
    if isinstance(joined, pa.Scalar):
        joined = pa.repeat(joined, count)
    data, offsets = kernels.buffer_of(joined)
    lead = np.minimum(np.diff(offsets), 1)  # every entry brought its separator: drop the first
    return kernels.slices(data, offsets[:-1] + lead, np.diff(offsets) - lead)


def _joined_map(properties: pa.MapArray, taken: set[str]) -> pa.BinaryArray:
    offsets = np.asarray(properties.offsets, dtype=np.int64)
    names = properties.keys.cast(pa.binary())
    items = properties.items.cast(pa.binary())
    # Null rows and sliced arrays: count the entries of each row that are really there.
    lengths = np.where(properties.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    rows = np.repeat(np.arange(len(properties)), lengths)
    within = np.arange(int(lengths.sum())) - np.repeat(kernels.offsets_of(lengths)[:-1], lengths)
    at = pa.array(np.repeat(offsets[:-1], lengths) + within)
    names, items = names.take(at), items.take(at)
    drop = pc.or_(
        pc.is_in(names, pa.array([name.encode() for name in taken], pa.binary())),
        pc.or_kleene(pc.is_null(items), pc.equal(pc.binary_length(items), 0)),
    )
    keep = pc.invert(pc.fill_null(drop, True))
    entries = kernels.join(b"\x02", names.filter(keep), b"\x01", items.filter(keep))
    counts = np.bincount(rows[keep.to_numpy(zero_copy_only=False)], minlength=len(properties))
    lists = pa.ListArray.from_arrays(pa.array(kernels.offsets_of(counts).astype(np.int32)), entries)
    return pc.binary_join(lists, b"")


def tags_codes(tags: pa.Array) -> Int64s:
    """The tag hash of each row, 0 for null or empty; each distinct tag is hashed once."""
    if tags.null_count == len(tags):
        return np.zeros(len(tags), dtype=np.int64)
    encoded = tags.dictionary_encode()
    distinct = [_tag_hash(value) for value in encoded.dictionary.to_pylist()]
    codes = np.array([*distinct, 0], dtype=np.int64)
    indices = pc.fill_null(encoded.indices, len(distinct)).to_numpy()
    result: Int64s = codes[indices]
    return result


def _tag_hash(value: bytes | str) -> int:
    tag = value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
    return string_hash(tag) if tag else 0


def indexed(texts: pa.BinaryArray) -> tuple[Int64s, pa.ListArray]:
    """What is indexed of records with these property strings: tags codes and key hashes."""
    unique_ids, keys, tags = values_of(texts, ("UNIQ_KEY", "KEYS", "TAGS"))
    return tags_codes(tags), key_hashes(unique_ids, keys)


def key_hashes(unique_ids: pa.Array, keys: pa.Array) -> pa.ListArray:
    """Hashes under which each row is found: its unique id and every word of its keys."""
    ids = _hashes(unique_ids)
    if keys.null_count == len(keys):
        counts = np.ones(len(ids), dtype=np.int64)
        return _hash_lists(counts, ids)
    words = pc.split_pattern(pc.fill_null(keys.cast(pa.binary()), b""), b" ")
    flat = words.flatten()
    rows = np.repeat(np.arange(len(keys)), pc.list_value_length(words).to_numpy())
    real = pc.greater(pc.binary_length(flat), 0).to_numpy(zero_copy_only=False)
    all_rows = np.concatenate([np.arange(len(keys)), rows[real]])
    hashes = np.concatenate([ids, _hashes(flat.filter(pa.array(real)))])
    order = np.argsort(all_rows, kind="stable")
    return _hash_lists(np.bincount(all_rows, minlength=len(keys)), hashes[order])


def _hash_lists(counts: npt.NDArray[Any], hashes: npt.NDArray[np.uint32]) -> pa.ListArray:
    return pa.ListArray.from_arrays(
        pa.array(kernels.offsets_of(counts).astype(np.int32)), pa.array(hashes, pa.uint32())
    )


def _hashes(array: pa.Array) -> npt.NDArray[np.uint32]:
    data, offsets = kernels.buffer_of(pc.fill_null(array.cast(pa.binary()), b""))
    starts, sizes = offsets[:-1], np.diff(offsets)
    result = np.zeros(len(sizes), dtype=np.uint32)
    width = int(sizes.max(initial=0))
    if width <= _HASH_WIDTH_MAX:
        rows = kernels.padded(data, starts, sizes, width).astype(np.float64)
        # Exact: a product is below 2^40 and there are at most 128 of them.
        # Not by `@`: its threads keep both cores busy for a while after each call.
        sums: npt.NDArray[np.float64] = np.einsum("ij,j->i", rows, _HASH_WEIGHTS[:width])
        return (sums.astype(np.uint64) % np.uint64(HASH_PRIME)).astype(np.uint32)
    view = data.data
    for row, (start, end) in enumerate(zip(starts.tolist(), offsets[1:].tolist(), strict=True)):
        result[row] = int.from_bytes(view[start:end], "little") % HASH_PRIME
    return result


def text(array: pa.BinaryArray) -> pa.StringArray:
    """Bytes as strings; bytes that are not UTF-8 become replacement characters."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [
            None if value is None else value.decode("utf-8", "replace")
            for value in array.to_pylist()
        ]
        return pa.array(decoded, pa.string())


def _entries(
    data: npt.NDArray[np.uint8], offsets: Int64s
) -> tuple[Int64s, Int64s, npt.NDArray[np.intp]]:
    """Start, end and row of every non-empty entry."""
    separators = np.flatnonzero(data == _SEPARATOR)
    separators = separators[(separators >= offsets[0]) & (separators < offsets[-1])]
    # A separator ends the entry before it; a row's end ends its last one.
    starts = np.sort(np.concatenate([offsets[:-1], separators + 1]), kind="stable")
    ends = np.sort(np.concatenate([offsets[1:], separators]), kind="stable")
    counts = np.diff(np.searchsorted(separators, offsets)) + 1
    rows = np.repeat(np.arange(len(counts)), counts)
    keep = ends > starts
    if bool(keep.all()):
        return starts, ends, rows
    return starts[keep], ends[keep], rows[keep]


def _next_of(marks: Int64s, starts: Int64s, ends: Int64s) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """The first mark in [start, end) of each row, and whether there is one."""
    if not len(marks):
        return ends, np.zeros(len(starts), dtype=np.bool_)
    index = np.searchsorted(marks, starts)
    found = marks[np.minimum(index, len(marks) - 1)]
    return found, (index < len(marks)) & (found < ends)
