"""Lists must say what the arrays of the bulk way say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.making import SMALL, QuickFiles, Wall

from dueline.message import Message
from dueline.store import Observer, singles
from dueline.store.core import Core
from dueline.store.draft import Draft, prepare


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    made = Core(tmp_path, SMALL, clock=Wall().clock(), files=QuickFiles())
    yield made
    made.close()


def drafts_of(core: Core, *messages: Message) -> list[Draft]:
    return [prepare(one, now_ms=5, rules=core.rules, ids=core.ids) for one in messages]


def test_queues_get_rows_in_order_and_half_messages_none(core: Core) -> None:
    half = {"TRAN_MSG": "true"}
    open_flag = 4  # prepared: neither committed nor without a transaction
    drafts = drafts_of(
        core,
        Message(topic="a", body=b"0", queue_id=1),
        Message(topic="b", body=b"1"),
        Message(topic="a", body=b"2", queue_id=1),
        Message(topic="a", body=b"3", sys_flag=open_flag),
        Message(topic="a", body=b"4", sys_flag=open_flag, properties=half),
    )

    rows = singles.queue_rows(core, drafts)
    offsets = singles.take_offsets(core, rows, len(drafts))

    named = {core.queues.names()[number]: of_queue for number, of_queue in rows.items()}
    assert named == {("a", 1): [0, 2], ("b", 0): [1], ("RMQ_SYS_TRANS_HALF_TOPIC", 0): [4]}
    assert offsets == [0, 0, 1, 0, 0]


def test_indexed_messages_are_found_and_told_of(core: Core) -> None:
    class Waiting(Observer):
        def grown(self, queues: list[tuple[str, int]]) -> None:
            told.append(queues)

    told: list[list[tuple[str, int]]] = []
    core.observers.add(Waiting())
    drafts = drafts_of(
        core,
        Message(topic="a", body=b"0", properties={"KEYS": "k1 k2", "UNIQ_KEY": "u"}),
        Message(topic="b", body=b"1", properties={"TAGS": "TagA", "UNIQ_KEY": "v"}),
    )
    rows = singles.queue_rows(core, drafts)

    singles.index(core, rows, drafts, [100, 400], [300, 200])

    units = {name: core.queues.get(name, 0) for name in ("a", "b")}
    found = {name: queue.read(0, 9).tolist() for name, queue in units.items() if queue is not None}
    assert found == {"a": [(100, 300, 0)], "b": [(400, 200, 2_598_919)]}
    assert told == [[("a", 0), ("b", 0)]]
    hashes, positions = singles.key_rows(drafts, [100, 400])
    assert positions.tolist() == [100, 100, 100, 400]
    assert core.commit_keys.find(int(hashes[1])) == [100]
    assert core.commit_keys.find(int(hashes[3])) == [400]
