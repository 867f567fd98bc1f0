"""Tables of messages: encoded as single ones would be, refused as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.layout import parse
from tests.unit.store.making import (
    SMALL,
    START_MS,
    Wall,
    carry_over,
    open_store,
    read_all,
    take_window,
)

from dueline.errors import InvalidRequest, LimitExceeded
from dueline.message import Message, UniqueIds, pack_host
from dueline.schedule import DelayLevels
from dueline.store import StoreOptions, bulk, restore
from dueline.store.draft import Rules
from dueline.store.properties import key_hash

HOST = pack_host("127.0.0.1", 10911)
RULES = Rules(levels=DelayLevels.parse("1s 5s 10s"), delay_max_ms=86_400_000, body_size_max=1000)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02 "), max_size=10)
WHEN_NAMES = {
    "deliver_at_ms": "TIMER_DELIVER_MS",
    "delay_ms": "TIMER_DELAY_MS",
    "delay_level": "DELAY",
}
ASKED = {"TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC"}


def encode(host: bytes = HOST, **columns: Any) -> bulk.Bulk:
    ids = UniqueIds(host=HOST, start_ms=START_MS)
    return bulk.encode(pa.table(columns), now_ms=START_MS, rules=RULES, ids=ids, store_host=host)


def texts(rows: bulk.Bulk) -> list[dict[str, str]]:
    ends = rows.starts + rows.sizes
    return [
        parse(rows.data[start:end].tobytes())["map"]
        for start, end in zip(rows.starts, ends, strict=True)
    ]


@settings(max_examples=20)  # each opens two stores
@given(
    st.lists(
        st.tuples(
            st.binary(max_size=20),
            st.one_of(
                st.tuples(st.just("delay_ms"), st.integers(1, 100_000)),
                st.tuples(st.just("deliver_at_ms"), st.integers(START_MS + 1, START_MS + 9999)),
                st.tuples(st.just("delay_level"), st.integers(1, 9)),
            ),
            st.one_of(st.none(), st.lists(WORDS, max_size=3).map(" ".join)),
            st.one_of(st.none(), WORDS),
            st.dictionaries(st.sampled_from(["a", "b", "c"]), WORDS, max_size=3),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_table_is_restored_as_single_messages_are(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("stores")
    wall = Wall()
    columns: dict[str, list[Any]] = {name: [] for name in (
        "topic", "body", "queue_id", "deliver_at_ms", "delay_ms", "delay_level", "keys", "tags",
        "properties", "unique_id")}  # fmt: skip
    singles = []
    for number, (body, (when, value), keys, tags, extra, queue_id) in enumerate(rows):
        cells = {"topic": f"t{number % 2}", "body": body, "queue_id": queue_id, when: value,
                 "keys": keys, "tags": tags, "properties": list(extra.items()),
                 "unique_id": f"id-{number}"}  # fmt: skip
        for name, column in columns.items():
            column.append(cells.get(name))
        named = {"KEYS": keys, "TAGS": tags, "UNIQ_KEY": f"id-{number}", **extra}
        properties = {name: text for name, text in named.items() if text}
        properties[WHEN_NAMES[when]] = str(value)
        singles.append(
            Message(
                topic=f"t{number % 2}",
                body=body,
                queue_id=queue_id,
                properties=properties,
                born_ms=START_MS,
            )
        )
    kinds = {"topic": pa.string(), "body": pa.binary(), "keys": pa.string(), "tags": pa.string(),
             "unique_id": pa.string(), "properties": pa.map_(pa.string(), pa.string())}  # fmt: skip
    table = pa.table({name: pa.array(cells, kinds.get(name, pa.int64()))
                      for name, cells in columns.items()})  # fmt: skip

    with open_store(folder / "one", wall) as one, open_store(folder / "many", wall) as many:
        one.put_all(singles)
        many.put_many(table)
        restored = [restore.messages(take_window(store)).to_pylist() for store in (one, many)]

    assert len(restored[0]) == len(rows)
    for single, row in zip(*restored, strict=True):
        for message in (single, row):
            message["properties"] = {
                name: value for name, value in message["properties"] if name not in ASKED
            }
        assert single == row


def test_rows_are_found_by_their_keys() -> None:
    rows = encode(topic=["t", "t"], body=[b"", b""], keys=["a b", None], unique_id=["x", "y"])

    assert rows.key_hashes.to_pylist() == [
        [key_hash("x"), key_hash("a"), key_hash("b")],
        [key_hash("y")],
    ]


def test_wide_store_host_is_kept_whole(tmp_path: Path) -> None:
    options = StoreOptions(
        commit_segment_size_bytes=16_384, delay_segment_size_bytes=16_384, host="2001:db8::5"
    )
    wall = Wall()
    with open_store(tmp_path, wall, options) as store:
        store.put_many(pa.table({"topic": ["t"], "body": [b"b"], "delay_ms": [5]}))
        window = take_window(store)
        assert not restore.damaged(window).any()
        assert (
            parse(window.column("record")[0].as_py())["store_host"]
            == pack_host("2001:db8::5", 0)[:16]
        )
        carry_over(store)
        wall.advance(5)
        store.open_gate()

        (record,) = read_all(store, "t")

    assert record.store_host == pack_host("2001:db8::5", 10911)
    assert record.body == b"b"


def test_map_may_hold_keys_tags_and_id() -> None:
    maps = pa.array(
        [[("KEYS", "k1 k2"), ("TAGS", "g"), ("UNIQ_KEY", "mine")], None],
        pa.map_(pa.string(), pa.string()),
    )

    rows = encode(topic=["t", "t"], body=[b"", b""], properties=maps)

    first, second = texts(rows)
    assert (first["KEYS"], first["TAGS"], first["UNIQ_KEY"]) == ("k1 k2", "g", "mine")
    assert "KEYS" not in second
    assert rows.key_hashes.to_pylist()[0] == [key_hash(key) for key in ("mine", "k1", "k2")]


def test_columns_go_before_the_map() -> None:
    maps = pa.array([[("KEYS", "map"), ("own", "x")]], pa.map_(pa.string(), pa.string()))

    (found,) = texts(encode(topic=["t"], body=[b""], keys=["column"], properties=maps))

    assert (found["KEYS"], found["own"]) == ("column", "x")


@pytest.mark.parametrize("level", [None, 2])
def test_map_does_not_say_when_and_where(level: int | None) -> None:
    """Properties of a message that was delivered before may be used again as they are."""
    names = ["DELAY", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_OUT_MS",
             "REAL_TOPIC", "REAL_QID"]  # fmt: skip
    maps = pa.array([[(name, "7") for name in names]], pa.map_(pa.string(), pa.string()))

    (found,) = texts(
        encode(topic=["t"], body=[b""], properties=maps, delay_level=pa.array([level], pa.int32()))
    )

    del found["UNIQ_KEY"]
    expected = {"REAL_TOPIC": "t", "REAL_QID": "0"}
    when = {"TIMER_OUT_MS": str(START_MS)} if level is None else {"DELAY": str(level)}
    assert found == {**expected, **when}


def test_empty_unique_id_is_made() -> None:
    rows = encode(topic=["t"] * 3, body=[b""] * 3, unique_id=["", None, "own"])

    made = [value.decode() for value in rows.unique_ids.to_pylist()]
    assert [len(one) for one in made] == [32, 32, 3]
    assert len(set(made)) == 3
    assert [found["UNIQ_KEY"] for found in texts(rows)] == made


def test_levels_are_clamped_and_zero_is_at_once() -> None:
    rows = encode(topic=["t"] * 4, body=[b""] * 4, delay_level=[99, 3, 0, -1])

    assert rows.level.tolist() == [3, 3, 0, 0]
    assert rows.due_ms.tolist()[2:] == [START_MS, START_MS]


def test_past_times_are_due_at_once() -> None:
    rows = encode(topic=["t"] * 2, body=[b""] * 2, deliver_at_ms=[1, START_MS - 1])

    assert rows.due_ms.tolist() == [START_MS, START_MS]


def test_empty_table_is_accepted(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        result = store.put_many(pa.table({"topic": pa.array([], pa.string()), "body": []}))

    assert (result.count, result.first_seq) == (0, 0)


def test_columns_are_cast(tmp_path: Path) -> None:
    table = pa.table(
        {
            "topic": pa.array(["t"], pa.large_string()),
            "body": pa.array(["text"], pa.string()),
            "delay_ms": pa.array([5], pa.int32()),
        }
    )
    with open_store(tmp_path, Wall()) as store:
        store.put_many(table)

        (row,) = restore.messages(take_window(store)).to_pylist()

    assert (row["body"], row["due_ms"]) == (b"text", START_MS + 5)


def test_chunked_and_sliced_tables_keep_their_rows(tmp_path: Path) -> None:
    part = pa.table(
        {
            "topic": ["t"] * 4,
            "body": [b"0", b"1", b"2", b"3"],
            "delay_ms": [4, 3, 2, 1],
            "properties": pa.array(
                [[("n", str(number))] for number in range(4)], pa.map_(pa.string(), pa.string())
            ),
        }
    )
    table = pa.concat_tables([part.slice(1, 2), part.slice(3)])
    with open_store(tmp_path, Wall()) as store:
        store.put_many(table)

        rows = restore.messages(take_window(store)).to_pylist()

    assert [(row["body"], dict(row["properties"])["n"]) for row in rows] == [
        (b"3", "3"),
        (b"2", "2"),
        (b"1", "1"),
    ]


BAD: dict[str, tuple[dict[str, Any], type[Exception], dict[str, Any]]] = {
    "no body": ({"topic": ["t"]}, InvalidRequest, {"field": "columns"}),
    "unknown column": ({"topic": ["t"], "body": [b""], "x": [1]}, InvalidRequest, {}),
    "null topic": ({"topic": ["t", None], "body": [b"", b""]}, InvalidRequest, {"row": 1}),
    "null body": ({"topic": ["t", "t"], "body": [b"", None]}, InvalidRequest, {"row": 1}),
    "bad topic": ({"topic": ["t", "a b"], "body": [b"", b""]}, InvalidRequest, {"row": 1}),
    "control topic": (
        {"topic": ["t", "DUELINE_SYS_CONTROL"], "body": [b"", b""]}, InvalidRequest, {"row": 1},
    ),
    "line feed": ({"topic": ["t\n"], "body": [b""]}, InvalidRequest, {"row": 0}),
    "long topic": ({"topic": ["t" * 128], "body": [b""]}, InvalidRequest, {"row": 0}),
    "queue": (
        {"topic": ["t", "t"], "body": [b"", b""], "queue_id": [0, 65_536]},
        InvalidRequest, {"row": 1},
    ),
    "body size": (
        {"topic": ["t", "t"], "body": [b"", bytes(1001)]}, LimitExceeded, {"row": 1, "limit": 1000},
    ),
    "two times": (
        {"topic": ["t"], "body": [b""], "delay_ms": [1], "delay_level": [1]},
        InvalidRequest, {"row": 0},
    ),
    "too late": (
        {"topic": ["t", "t"], "body": [b"", b""], "delay_ms": [1, 86_400_001]},
        LimitExceeded, {"row": 1, "found": 86_400_001},
    ),
    "far too late": (
        {"topic": ["t"], "body": [b""], "deliver_at_ms": [(1 << 63) - 1]}, LimitExceeded, {},
    ),
    "separator in keys": (
        {"topic": ["t"], "body": [b""], "keys": ["a\x02b"]}, InvalidRequest, {"field": "KEYS"},
    ),
    "separator in tags": (
        {"topic": ["t"], "body": [b""], "tags": ["\x01"]}, InvalidRequest, {"field": "TAGS"},
    ),
    "separator in id": (
        {"topic": ["t"], "body": [b""], "unique_id": ["a\x02b"]}, InvalidRequest,
        {"field": "unique_id"},
    ),
    "separator in map": (
        {"topic": ["t"], "body": [b""], "properties": pa.array(
            [[("a", "b\x02c")]], pa.map_(pa.string(), pa.string()))},
        InvalidRequest, {"field": "properties"},
    ),
    "long properties": (
        {"topic": ["t"], "body": [b""], "keys": ["k" * 32_768]}, InvalidRequest, {"row": 0},
    ),
    "kind": ({"topic": ["t"], "body": [b""], "delay_ms": ["soon"]}, InvalidRequest,
             {"field": "delay_ms"}),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_row_refuses_the_table(tmp_path: Path, name: str) -> None:
    columns, kind, facts = BAD[name]
    options = StoreOptions(
        commit_segment_size_bytes=SMALL.commit_segment_size_bytes,
        delay_segment_size_bytes=SMALL.delay_segment_size_bytes,
        body_size_max=1000,
        delay_max_ms=86_400_000,
    )
    with open_store(tmp_path, Wall(), options) as store:
        with pytest.raises(kind) as caught:
            store.put_many(pa.table(columns))

        assert store.pending_count() == 0
        assert store.stats()["delay_log"]["end"] == 0
    for fact, value in facts.items():
        assert getattr(caught.value, fact) == value
