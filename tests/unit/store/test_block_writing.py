"""Rows become the very records, entries and answers that messages one by one become."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.unit.store.making import SMALL, START_MS, QuickFiles
from tests.unit.store.row_making import rows_of

from dueline import compiled
from dueline.errors import BrokerError, StoreClosed, Unavailable
from dueline.message import HOST_UNKNOWN, Message, pack_host
from dueline.store import Store
from dueline.store.block import BLOCK_KERNELS
from dueline.store.block_writing import RowsResult
from dueline.store.writing import PutResult
from dueline.testing import FaultyFiles, ManualClock

pytest.importorskip("numba")

TOPICS = ("t", "topic-two")
HOSTS = (HOST_UNKNOWN, pack_host("10.0.0.7", 4711), pack_host("fe80::1", 4711))


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    assert compiled.load([BLOCK_KERNELS])


_TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1)
_DELAYS = st.sampled_from(
    [
        {},
        {},
        {"DELAY": "1"},
        {"DELAY": "18"},
        {"TIMER_DELAY_SEC": "30"},
        {"TIMER_DELAY_MS": "0"},
        {"TIMER_DELAY_MS": "1"},
        {"TIMER_DELIVER_MS": str(START_MS)},
        {"TIMER_DELIVER_MS": str(START_MS + 1)},
        {"TIMER_DELIVER_MS": "7"},
    ]
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    properties = {
        **draw(st.dictionaries(_TEXT.map(lambda name: f"x{name}"), _TEXT, max_size=2)),
        "UNIQ_KEY": draw(st.text("0123456789ABCDEF", min_size=1, max_size=40)),
        **draw(st.sampled_from([{}, {"TAGS": "a"}, {"TAGS": "tag-b"}])),
        **draw(_DELAYS),
        **draw(st.sampled_from([{}, {"KEYS": "k1"}, {"KEYS": " k1  größe-2 "}, {"KEYS": " "}])),
    }
    return Message(
        topic=draw(st.sampled_from(TOPICS)),
        body=draw(st.binary(max_size=300)),
        queue_id=draw(st.integers(0, 2)),
        properties=properties,
        flag=draw(st.sampled_from([0, 7, -7, (1 << 31) - 1])),
        sys_flag=draw(st.sampled_from([0, 1, 0x30, 0x300])),
        born_ms=draw(st.integers(0, 1 << 60)),
        born_host=draw(st.sampled_from(HOSTS)),
        reconsume_times=draw(st.integers(0, 3)),
    )


def opened(folder: Path, host: str, files: Any = None) -> Store:
    options = replace(
        SMALL, host=host, levels="1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    )
    clock = ManualClock(START_MS)
    return Store.open(folder, options, clock=clock, files=files or QuickFiles())


def everything(store: Store) -> dict[str, Any]:
    """All that a store has: both logs, what consumers read, what waits."""
    core = store._core
    logs = {}
    for log in (core.commit, core.delay):
        for base in log.bases:
            logs[log.folder.name, base] = bytes(log.read(base, max(log.end - base, 0)))
    queues = {
        queue.name: (queue.start, queue.end, queue.read(queue.start, 10_000).tolist())
        for queue in core.queues
    }
    units = core.timeline.open.units()
    waiting = {
        name: getattr(units, name).tolist() for name in ("due_ms", "seq", "position", "size")
    }
    topics = [core.timeline.topics.names[number] for number in units.topic.tolist()]
    return {
        "logs": logs,
        "queues": queues,
        "waiting": (waiting, topics, units.queue_id.tolist()),
        "keys": [_keys(core.commit_keys), _keys(core.delay_keys)],
        "delay queues": {name: end for name, end in core.delay_queues.items() if end},
        "numbers": (core.next_seq, core.segments, core.accepted_ms, core.index_ms),
    }


def _keys(index: Any) -> list[tuple[int, int]]:
    hashes, positions = index._open.sorted() if len(index._open) else ([], [])
    return sorted(zip(list(hashes), list(positions), strict=True))


def listed(result: RowsResult) -> list[tuple[int, int, int | None]]:
    return [
        (offset, position, due or None)
        for offset, position, due in zip(
            result.offsets.tolist(), result.positions.tolist(), result.dues.tolist(), strict=True
        )
    ]


GROUPS = st.lists(
    st.lists(st.lists(messages(), min_size=1, max_size=5), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)


@given(GROUPS, st.sampled_from(["127.0.0.1", "fe80::7"]), st.booleans())
def test_rows_are_written_as_messages_are(
    groups: list[list[list[Message]]], host: str, is_batch: bool
) -> None:
    if is_batch:
        groups = [
            [[replace(each, reconsume_times=0) for each in part] for part in group]
            for group in groups
        ]
    with TemporaryDirectory() as folder:
        one, many = Path(folder) / "one", Path(folder) / "many"
        with opened(one, host) as plain, opened(many, host) as compiled_store:
            for group in groups:
                expected = plain.put_all([each for part in group for each in part])

                parts = [rows_of(part, is_batch=is_batch) for part in group]
                found = compiled_store.put_rows(parts)

                assert all(isinstance(each, PutResult) for each in expected)
                assert [each for result in found for each in listed(result)] == [
                    (each.queue_offset, each.position, each.due_ms)
                    for each in expected
                    if isinstance(each, PutResult)
                ]
            assert everything(compiled_store) == everything(plain)
        with opened(many, host) as again:  # what was written is what recovery reads
            assert (again.report.damage, again.report.rebuilt) == ([], [])


@given(st.lists(messages(), min_size=1, max_size=6), st.booleans())
def test_rows_and_messages_are_two_forms_of_the_same(found: list[Message], is_batch: bool) -> None:
    if is_batch:
        found = [replace(each, reconsume_times=0) for each in found]

    assert rows_of(found, is_batch=is_batch).messages() == found


def message(number: int, **properties: str) -> Message:
    return Message(topic="t", body=b"x" * 50, properties={"UNIQ_KEY": f"A{number}", **properties})


def test_many_rows_cross_segments(tmp_path: Path) -> None:
    found = [message(number, **({"DELAY": "2"} if number % 3 else {})) for number in range(500)]
    with opened(tmp_path / "one", "127.0.0.1") as plain:
        plain.put_all(found)
        expected = everything(plain)
    with opened(tmp_path / "many", "127.0.0.1") as store:
        store.put_rows([rows_of(found[:100]), rows_of(found[100:])])

        assert everything(store) == expected
        assert len({base for _, base in expected["logs"]}) > 2


def test_a_full_disk_refuses_all_rows_and_changes_nothing(tmp_path: Path) -> None:
    files = FaultyFiles()
    with opened(tmp_path, "127.0.0.1", files) as store:
        store.put_rows([rows_of([message(0), message(1, DELAY="3")])])
        before = everything(store)
        files.is_full = True
        result = store.put_rows([rows_of([message(number) for number in range(2_000)])])[0]
        files.is_full = False

        assert isinstance(result.ordinary_error, Unavailable)
        assert result.counts == (0, 0, 2_000)
        assert {**everything(store), "logs": 0} == {**before, "logs": 0}
        assert store.put_rows([rows_of([message(9)])])[0].counts == (1, 0, 0)


def test_a_closed_store_takes_no_rows(tmp_path: Path) -> None:
    store = opened(tmp_path, "127.0.0.1")
    store.close()

    with pytest.raises(StoreClosed):
        store.put_rows([rows_of([message(0)])])


def test_rows_without_kernels_are_refused_for_now(tmp_path: Path) -> None:
    with (
        opened(tmp_path, "127.0.0.1") as store,
        compiled.switched_off(),
        pytest.raises(Unavailable, match="send again"),
    ):
        store.put_rows([rows_of([message(0)])])


def test_a_result_can_be_cut_and_counted() -> None:
    numbers = np.arange(3, dtype=np.int64)
    error = BrokerError("no")
    result = RowsResult(
        *(numbers, numbers, numbers, np.array([False, True, True]), b"host"),
        *(None, error, 2),
    )

    assert result.counts == (1, 0, 2)
    assert result.part(1, 3).positions.tolist() == [1, 2]
    assert result.part(0, 1).counts == (1, 0, 0)
