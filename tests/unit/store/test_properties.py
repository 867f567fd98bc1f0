"""Properties of many records against the scalar codec."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.golden.layout import java_hash

from dueline.message import decode_properties, encode_properties
from dueline.store import properties

NAMES = st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "a", "KEY", "TAGSX", "ü"])
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=20)
MAPS = st.dictionaries(NAMES, VALUES, max_size=5)
# Also bytes that no codec of ours would write: empty entries, no separator, several of them.
TEXTS = st.one_of(
    MAPS.map(encode_properties),
    MAPS.map(encode_properties).map(lambda text: text + b"\x02"),
    st.lists(st.sampled_from([b"KEYS", b"\x01", b"\x02", b"a", b"TAGS"]), max_size=8).map(b"".join),
)


@given(st.lists(TEXTS, max_size=8), st.integers(0, 3))
def test_split_is_the_scalar_decode(texts: list[bytes], start: int) -> None:
    array = pa.array(texts, pa.binary()).slice(start)

    rows = properties.split(array).to_pylist()

    assert [dict(row) for row in rows] == [decode_properties(text) for text in texts[start:]]


@given(st.lists(MAPS.map(encode_properties), max_size=8), NAMES, st.integers(0, 3))
def test_values_pick_one_property(texts: list[bytes], name: str, start: int) -> None:
    array = pa.array(texts, pa.binary()).slice(start)

    found = properties.values(array, name).to_pylist()

    expected = [decode_properties(text).get(name) for text in texts[start:]]
    assert found == [None if value is None else value.encode() for value in expected]


@given(st.lists(MAPS, min_size=1, max_size=8), NAMES)
def test_pick_takes_one_name_of_each_map(maps: list[dict[str, str]], name: str) -> None:
    array = properties.split(pa.array([encode_properties(row) for row in maps], pa.binary()))

    found = properties.pick(array, name).to_pylist()

    assert found == [row.get(name) or None for row in maps]


@given(
    st.lists(
        st.tuples(st.one_of(st.none(), VALUES), st.one_of(st.none(), MAPS)), min_size=1, max_size=6
    ),
    st.booleans(),
)
@example(rows=[(None, None)], constant=False)
def test_merge_puts_columns_before_the_map(
    rows: list[tuple[str | None, dict[str, str] | None]], constant: bool
) -> None:
    columns: dict[str, object] = {"KEYS": pa.array([row[0] for row in rows], pa.string())}
    if constant:
        columns["TAGS"] = b"t"
    maps = pa.array(
        [None if row[1] is None else list(row[1].items()) for row in rows],
        pa.map_(pa.string(), pa.string()),
    )

    found = properties.merge(len(rows), columns, maps).to_pylist()

    for text, (keys, row) in zip(found, rows, strict=True):
        expected = {} if keys is None else {"KEYS": keys}
        if constant:
            expected["TAGS"] = "t"
        expected |= {name: value for name, value in (row or {}).items() if name not in columns}
        decoded = decode_properties(text)
        assert decoded == {name: value for name, value in expected.items() if value}
        assert list(decoded) == [name for name, value in expected.items() if value]
        assert not text.startswith(b"\x02")
        assert not text.endswith(b"\x02")


def test_merge_of_a_sliced_map_takes_its_own_rows() -> None:
    maps = pa.array([[("a", "1")], [("b", "2")], [("c", "3")]], pa.map_(pa.string(), pa.string()))

    assert properties.merge(1, {}, maps.slice(1, 1)).to_pylist() == [b"b\x012"]


def test_merge_of_nothing_is_empty() -> None:
    assert properties.merge(2, {}, None).to_pylist() == [b"", b""]
    assert properties.merge(2, {"TAGS": b"t"}, None).to_pylist() == [b"TAGS\x01t"] * 2


@given(
    st.lists(st.one_of(st.none(), st.text(st.characters(codec="ascii"), max_size=8)), max_size=9)
)
def test_tags_codes_are_javas(tags: list[str | None]) -> None:
    found = properties.tags_codes(pa.array(tags, pa.string()))

    assert found.tolist() == [java_hash(tag or "") for tag in tags]


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02 "), max_size=12)


@given(
    st.lists(
        st.tuples(WORDS, st.one_of(st.none(), st.lists(WORDS, max_size=4).map(" ".join))),
        max_size=8,
    )
)
def test_key_hashes_are_the_scalar_ones(rows: list[tuple[str, str | None]]) -> None:
    ids = pa.array([row[0] for row in rows], pa.string())
    keys = pa.array([row[1] for row in rows], pa.string())

    found = properties.key_hashes(ids, keys).to_pylist()

    assert found == [
        [
            properties.key_hash(unique_id),
            *(properties.key_hash(word) for word in (words or "").split(" ") if word),
        ]
        for unique_id, words in rows
    ]


@pytest.mark.parametrize("size", [1, 32, 127, 128, 129, 200])
def test_long_keys_hash_alike(size: int) -> None:
    key = "k" * size
    ids = pa.array([key, "short"], pa.string())

    found = properties.key_hashes(ids, pa.nulls(2, pa.string())).to_pylist()

    assert found == [[properties.key_hash(key)], [properties.key_hash("short")]]


@pytest.mark.parametrize("form", ["order-{}", "order-{:08d}", "{}", "user:{}:cart", "{:016X}"])
def test_numbered_keys_rarely_share_a_hash(form: str) -> None:
    keys = pa.array([form.format(number) for number in range(100_000)], pa.string())

    hashes = properties.key_hashes(keys, pa.nulls(len(keys), pa.string())).flatten()

    assert len(hashes.unique()) > 99_990


def test_text_replaces_what_is_not_utf8() -> None:
    assert properties.text(pa.array([b"a", None, b"\xff"], pa.binary())).to_pylist() == [
        "a",
        None,
        "\ufffd",
    ]


ODD = [
    b"UNIQ_KEY\x01u\x02KEYS\x01a b\x02TAGS\x01t",
    b"TAGS\x01t",
    b"KEYS\x01",
    b"KEYS",
    b"\x01x\x02A\x01y\x02A\x01z",
    b"UNIQ_KEYS\x01no\x02A_LONGER_NAME\x01" + b"x" * 30,
    b"A_LONGER_NAMES\x01no",
    b"\x02\x02TAGS\x01\x02TAGS\x01late",
]


@given(texts=st.lists(st.binary(max_size=40) | st.sampled_from(ODD), max_size=8))
def test_several_properties_are_those_picked_one_by_one(texts: list[bytes]) -> None:
    names = ("UNIQ_KEY", "KEYS", "TAGS", "A", "A_LONGER_NAME")
    array = pa.array(texts, pa.binary())

    found = [column.to_pylist() for column in properties.values_of(array, names)]

    expected = [[first_of(text, name) for text in texts] for name in names]
    assert found == expected


def first_of(text: bytes, name: str) -> bytes | None:
    """The plain-loop twin."""
    for entry in text.split(b"\x02"):
        if entry.startswith(name.encode() + b"\x01"):
            return entry[len(name) + 1 :] or None
    return None
