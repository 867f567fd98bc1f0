"""Rows of tasks against the window that they came from: each gets its own record."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.store.making import Wall, delayed, open_store, read_all, routed

from dueline.broker.pipeline import views
from dueline.broker.pipeline.carry_over import carry_over
from dueline.broker.pipeline.plans import Plans
from dueline.broker.pipeline.staging import Staging, known_schema
from dueline.errors import InvalidRequest, NotFound
from dueline.store import Corner, Store
from dueline.store import record as records
from dueline.store.schema import MESSAGE_SCHEMA, SCHEDULE_SCHEMA, routed_schema

ALL = Corner(due_ms=1 << 60, seq=1 << 40, end=1 << 40)
COUNT = 20


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Store:
    store = open_store(tmp_path, wall)
    for number in range(COUNT):
        store.put(delayed(1_000 + number * 7 % COUNT, b"%d" % number))
    return store


def sent(store: Store) -> pa.RecordBatch:
    """The rows of a window, as a pipeline without a transform sends them."""
    return routed(store.read_window(store.window(ALL)))


def bodies_by_origin(batches: list[pa.RecordBatch]) -> dict[int, bytes]:
    return {
        row["origin"]: records.decode(row["record"]).body
        for batch in batches
        for row in batch.to_pylist()
    }


@pytest.mark.parametrize("part_rows", [1, 3, 1_000])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_rows_in_any_order_and_number_get_their_own_records(
    store: Store, monkeypatch: pytest.MonkeyPatch, seed: int | None, part_rows: int
) -> None:
    monkeypatch.setattr(views, "CHUNK_ROWS", part_rows)
    rows = sent(store)
    chosen = np.arange(COUNT)
    if seed is not None:
        chosen = np.random.default_rng(seed).permutation(COUNT)[: COUNT - 3 * seed]
    rows = rows.take(pa.array(chosen))

    found = list(carry_over(store, store.window(ALL), [rows.slice(0, 4), rows.slice(4)]))

    origins = rows["origin"].to_pylist()
    assert bodies_by_origin(found) == {origin: b"%d" % origin for origin in origins}


def test_no_rows_no_deliveries(store: Store) -> None:
    assert list(carry_over(store, store.window(ALL), [])) == []


def committed(store: Store, *stages: pa.RecordBatch) -> None:
    staging = Staging(store.clock)
    plans = Plans(store, staging)
    plan = plans.plan(ALL, slice_count_max=1, slice_row_count_min=1)
    plans.read(plan.name, 0, run="run", batch=0)
    tokens = [f"token-{number}" for number in range(len(stages))]
    for token, rows in zip(tokens, stages, strict=True):
        staging.keep(token, known_schema(rows.schema), [rows])
    plans.commit(run="run", batch=0, tokens=tokens, is_transformed=True)


def test_a_commit_copies_what_was_sent_and_takes_what_was_changed(store: Store, wall: Wall) -> None:
    window = store.read_window(store.window(ALL))
    rows = routed(window, tags=["new"] * COUNT)

    committed(store, rows.slice(0, 5), rows.slice(5, 10))
    wall.advance(60_000)
    store.open_gate()

    found = {record.seq: record for record in read_all(store) if record.seq is not None}
    assert sorted(found) == sorted(rows["origin"].to_pylist()[:15])
    for seq, record in found.items():
        assert record.body == b"%d" % seq
        assert b"TAGS\x01new" in record.properties
    assert store.pending_count() == 0


def test_one_batch_has_rows_of_one_kind(store: Store) -> None:
    window = store.read_window(store.window(ALL))

    with pytest.raises(InvalidRequest, match="token-1"):
        committed(
            store,
            routed(window).slice(0, 5),
            routed(window, tags=["new"] * COUNT).slice(5, 5),
        )

    assert store.pending_count() == COUNT


def test_rows_of_another_window_change_nothing(store: Store) -> None:
    rows = sent(store)
    store.cancel_seqs(np.arange(3))

    with pytest.raises(InvalidRequest, match="that this batch has read"):
        committed(store, rows)

    assert store.pending_count() == COUNT - 3


def test_only_columns_of_a_message_in_their_order_can_be_staged() -> None:
    for changed in ((), ("tags",), ("body", "properties"), tuple(MESSAGE_SCHEMA.names)):
        schema = routed_schema(changed)
        assert known_schema(schema.with_metadata({"a": "b"})).metadata is None
        assert known_schema(schema).equals(schema)
    assert known_schema(SCHEDULE_SCHEMA) is SCHEDULE_SCHEMA
    tagged = routed_schema(["tags"])
    for other in (
        routed_schema().append(pa.field("record", pa.binary())),
        pa.schema([tagged.field("tags"), *routed_schema()]),
        pa.schema([*routed_schema(), pa.field("tags", pa.binary())]),
        pa.schema([*tagged, tagged.field("tags")]),
        pa.schema(list(routed_schema())[:-1]),
        MESSAGE_SCHEMA,
    ):
        with pytest.raises(InvalidRequest, match="staged rows"):
            known_schema(other)


def test_unknown_tokens_are_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        Staging(store.clock).take_routed(["no token"])
