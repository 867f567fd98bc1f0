"""A plan: which log, when due, how large; before anything is written."""

from __future__ import annotations

import pytest
from tests.unit.store.making import START_MS
from tests.unit.store.row_making import rows_of

from dueline import compiled
from dueline.message import HOST_UNKNOWN, Message, UniqueIds
from dueline.schedule import DelayLevels
from dueline.store.block import (
    BLOCK_KERNELS,
    HEAD_SYS_FLAG,
    KIND_LEVEL,
    KIND_ORDINARY,
    KIND_TIMER,
    Block,
)
from dueline.store.draft import Rules, prepare

pytest.importorskip("numba")

RULES = Rules(levels=DelayLevels.parse("1s 5s"), delay_max_ms=1 << 40, body_size_max=1_000)


def message(**properties: str) -> Message:
    return Message(
        topic="topic", body=b"body", queue_id=123, properties={"UNIQ_KEY": "A", **properties}
    )


def planned(messages: list[Message]) -> Block:
    assert compiled.load([BLOCK_KERNELS])
    kernels = compiled.ready(BLOCK_KERNELS)
    return Block.plan(kernels, rows_of(messages), now_ms=START_MS, store_host=HOST_UNKNOWN)


def test_each_row_goes_to_its_log_when_it_is_due() -> None:
    block = planned(
        [
            message(),
            message(DELAY="2"),
            message(TIMER_DELAY_MS="7"),
            message(TIMER_DELAY_MS="0"),
            message(TIMER_DELIVER_MS=str(START_MS)),
            message(TIMER_DELIVER_MS=str(START_MS + 1)),
        ]
    )

    assert block.kinds.tolist() == [
        *(KIND_ORDINARY, KIND_LEVEL, KIND_TIMER, KIND_ORDINARY, KIND_ORDINARY, KIND_TIMER)
    ]
    assert block.dues.tolist() == [0, 0, START_MS + 7, 0, 0, START_MS + 1]
    assert block.ordinary.tolist() == [0, 3, 4]
    assert block.delayed.tolist() == [1, 2, 5]


@pytest.mark.parametrize(
    "properties", [{}, {"DELAY": "1"}, {"TIMER_DELAY_MS": "999"}, {"TAGS": "t", "KEYS": "a b c"}]
)
def test_a_record_is_as_large_as_a_drafts(properties: dict[str, str]) -> None:
    found = message(**properties)
    ids = UniqueIds(host=HOST_UNKNOWN, start_ms=START_MS)
    draft = prepare(found, now_ms=START_MS, rules=RULES, ids=ids)

    block = planned([found])

    size = draft.delayed_size_bytes if draft.due else draft.size_bytes
    assert block.sizes.tolist() == [size(HOST_UNKNOWN)]
    assert block.hash_count >= len(draft.key_hashes)


def test_flags_of_hosts_are_not_believed() -> None:
    block = planned([Message(topic="t", body=b"", properties={"UNIQ_KEY": "A"}, sys_flag=0x31)])

    assert block.heads[0, HEAD_SYS_FLAG] == 1
