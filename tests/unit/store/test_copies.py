"""Compiled copies beside interpreted ones: the same bytes, and the same rows set aside."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.store.making import Wall, open_store, routed, take_window

from dueline import compiled
from dueline.message import Message, pack_host
from dueline.store import Store, restore
from dueline.store.carrying import carried
from dueline.store.copies import COPY_KERNELS, copied

pytest.importorskip("numba")

WORDS = st.text(
    st.characters(blacklist_characters="\x01\x02", blacklist_categories=["Cs"]), max_size=20
)
PROPERTIES = st.dictionaries(
    st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "TAG", "KEYS2", "a", "XTAGS"]),
    st.one_of(WORDS.filter(bool), st.sampled_from(["a b  c", " ", "x" * 300, "red"])),
)
MESSAGES = st.tuples(
    st.binary(max_size=60), PROPERTIES, st.sampled_from(["t", "orders", "x" * 127]), st.booleans()
)


@pytest.fixture(scope="module")
def kernels() -> Any:
    assert compiled.load([COPY_KERNELS])
    return compiled.ready(COPY_KERNELS)


def filled(folder: Path, messages: list[tuple[bytes, dict[str, str], str, bool]]) -> Store:
    store = open_store(folder, Wall())
    for number, (body, properties, topic, is_wide) in enumerate(messages):
        store.put(
            Message(
                topic=topic,
                body=body,
                queue_id=number % 3,
                properties={**properties, "TIMER_DELAY_MS": str(1_000 + number % 4)},
                born_host=pack_host("::1" if is_wide else "10.1.2.3", 99),
            )
        )
    return store


def by_origin(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return sorted(
        (row for batch in batches for row in batch.to_pylist()), key=lambda row: row["origin"]
    )


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None
)
@given(messages=st.lists(MESSAGES, max_size=8), data=st.data())
def test_both_ways_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, kernels: Any, messages: list[Any], data: st.DataObject
) -> None:
    store = filled(tmp_path_factory.mktemp("store"), messages)
    window = take_window(store)
    count = window.num_rows
    topics = st.sampled_from(["t", "elsewhere", "x" * 127, "no topic!", "", None])
    queue_ids = st.sampled_from([0, 1, 1023, -1, 70_000, None])
    rows = routed(
        window,
        topic=data.draw(st.lists(topics, min_size=count, max_size=count)),
        queue_id=data.draw(st.lists(queue_ids, min_size=count, max_size=count)),
    )

    found = by_origin(list(carried(window, rows)))
    with compiled.switched_off():
        expected = by_origin(list(carried(window, rows)))

    assert found == expected
    store.close()


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4),
    cut=st.one_of(st.none(), st.integers(0, 400)),
)
def test_damage_is_left_to_the_other_way_whatever_it_is(
    tmp_path_factory: pytest.TempPathFactory,
    kernels: Any,
    changes: list[tuple[int, int]],
    cut: int | None,
) -> None:
    store = filled(
        tmp_path_factory.mktemp("store"),
        [(b"body", {"TAGS": "a", "KEYS": "k l"}, "t", False)] * 3,
    )
    window = take_window(store)
    sound = window.column("record").to_pylist()
    changed = bytearray(sound[1])
    for place, value in changes:
        changed[place % len(changed)] = value
    record = bytes(changed[:cut])
    at = window.schema.get_field_index("record")
    cells = pa.array([sound[0], record, sound[2]], pa.binary())
    window = window.set_column(at, window.schema.field(at), cells)

    copies, rest = copied(kernels, window, routed(window))

    assert copies is not None
    assert rest.tolist() == restore.damaged(window).tolist()
    expected = restore.deliveries(window.filter(pa.array(~rest)))
    assert copies.to_pylist() == expected.to_pylist()
    store.close()
