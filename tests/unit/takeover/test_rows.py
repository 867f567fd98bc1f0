"""What becomes of each kind of record."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.takeover.conftest import LEVELS, TakeOver
from tests.unit.takeover.making import (
    HALF_TOPIC,
    LEVEL_TOPIC,
    OUTCOME_TOPIC,
    START_MS,
    TIMER_TOPIC,
    FakeBroker,
)

from dueline.takeover import Source, survey
from dueline.takeover.rows import Choice, Classifier, Kind


def kinds(fake: FakeBroker, **options: bool) -> list[Kind]:
    """What becomes of the records, in order."""
    choice = Choice(levels=LEVELS)
    with Source(fake.save()) as source:
        found = survey(source, choice, size_max=4000, **options)  # type: ignore[arg-type]
        classifier = Classifier(source, choice, size_max=4000, facts=found.facts)
        rows = [classifier.classify(batch) for batch in source.batches()]
    return [Kind(kind) for batch in rows for kind in batch.kinds.tolist()]


def dues(fake: FakeBroker) -> list[int]:
    with Source(fake.save()) as source:
        classifier = Classifier(source, Choice(levels=LEVELS), size_max=4000)
        return [ms for batch in source.batches() for ms in classifier.classify(batch).due_ms]


def test_level_that_was_passed_is_delivered(fake: FakeBroker) -> None:
    for level in (1, 2):
        for _ in range(3):
            fake.delayed("orders", 0, b"x", level)
    fake.delay_offsets = {1: 2}

    assert kinds(fake) == [Kind.DELIVERED] * 2 + [Kind.WAITING] * 4


def test_due_time_is_the_queues_or_else_by_the_table(fake: FakeBroker) -> None:
    fake.delayed("orders", 0, b"by another table", 1, tags_code=START_MS + 77)
    fake.delayed("orders", 0, b"not entered", 2)
    fake.delayed("orders", 0, b"nonsense", 3, tags_code=-5)
    del fake.units[LEVEL_TOPIC, 1]

    assert dues(fake) == [START_MS + 77, START_MS + 5_000, START_MS + 10_000]


def test_copy_of_a_message_says_that_it_was_delivered(fake: FakeBroker) -> None:
    """The progress file is some seconds old when a broker is killed."""
    original = {"UNIQ_KEY": "A", "born_ms": START_MS - 9}
    fake.delayed("orders", 1, b"x", 1, **original)
    fake.delayed("orders", 1, b"y", 1)
    fake.delayed("orders", 1, b"again", 2, **original)  # the client sent it once more
    fake.now_ms += 1_001
    fake.put("orders", 1, b"x", REAL_TOPIC="orders", REAL_QID="1", **original)  # type: ignore[arg-type]

    assert kinds(fake) == [Kind.DELIVERED, Kind.WAITING, Kind.WAITING, Kind.VISIBLE]


def test_retry_that_waits_is_not_taken_for_the_one_before(fake: FakeBroker) -> None:
    same = {"UNIQ_KEY": "A", "born_ms": START_MS - 9}
    target = {"REAL_TOPIC": "%RETRY%g", "REAL_QID": "0"}
    fake.topics["%RETRY%g"] = 1
    fake.delayed("%RETRY%g", 0, b"x", 1, reconsume_times=1, **same)
    fake.delayed("%RETRY%g", 0, b"x", 2, reconsume_times=2, **same)
    fake.now_ms += 6_000
    fake.put("%RETRY%g", 0, b"x", reconsume_times=1, **target, **same)  # type: ignore[arg-type]

    assert kinds(fake) == [Kind.DELIVERED, Kind.WAITING, Kind.VISIBLE]


def test_timer_message_is_due_when_it_was_asked_for(fake: FakeBroker) -> None:
    fake.timed("orders", 0, b"absolute", START_MS + 12_345)
    fake.timed("orders", 0, b"on the second", START_MS + 12_000)
    relative = {"TIMER_DELIVER_MS": "", "TIMER_DELAY_MS": "12345"}
    fake.now_ms += 4
    fake.timed("orders", 0, b"relative", START_MS + 12_349, **relative)
    fake.now_ms += 9_000
    fake.timed("orders", 0, b"entered again", START_MS + 12_349, **relative)

    assert dues(fake) == [START_MS + ms for ms in (12_345, 12_000, 12_349, 13_000)]


def test_timer_message_waits_if_its_slot_was_not_read(fake: FakeBroker) -> None:
    fake.timed("orders", 0, b"read", START_MS + 1_500)
    fake.timed("orders", 0, b"not read", START_MS + 9_500)
    fake.timed("orders", 0, b"not entered", START_MS + 1_500)
    fake.timer_check = (START_MS + 5_000, 2)

    assert kinds(fake) == [Kind.DELIVERED, Kind.WAITING, Kind.WAITING]


def test_recalled_and_rolled_timer_messages_are_left(fake: FakeBroker) -> None:
    far = START_MS + 10**9
    fake.timed("orders", 0, b"5.3.1", far, UNIQ_KEY="A")
    fake.timed("orders", 0, b"5.3.2", far, UNIQ_KEY="B")
    fake.timed("orders", 0, b"kept", far, UNIQ_KEY="C")
    fake.timed("orders", 0, b"rolled", far, UNIQ_KEY="D", born_ms=1)
    fake.put(TIMER_TOPIC, 0, b"", TIMER_OUT_MS=str(far), TIMER_DEL_UNIQKEY="A")
    fake.put(TIMER_TOPIC, 0, b"", TIMER_OUT_MS=str(far), TIMER_DEL_UNIQKEY="orders+B")
    fake.timed("orders", 0, b"rolled", far, UNIQ_KEY="D", born_ms=1, TIMER_ROLL_TIMES="1")

    assert kinds(fake) == [
        Kind.RECALLED,
        Kind.RECALLED,
        Kind.WAITING,
        Kind.ENTERED_AGAIN,
        Kind.INTERNAL,
        Kind.INTERNAL,
        Kind.WAITING,
    ]


@pytest.mark.parametrize("base", [0, 1 << 44, 3 << 60])
def test_only_open_transactions_are_taken(fake: FakeBroker, base: int) -> None:
    """However long the log has become: RocketMQ keeps positions where we keep marks."""
    fake = replace(fake, base=base)
    target = {"REAL_TOPIC": "orders", "REAL_QID": "0"}
    for name in "ABCD":
        fake.put(HALF_TOPIC, 0, b"x", UNIQ_KEY=name, **target)  # type: ignore[arg-type]
    position = fake.put(HALF_TOPIC, 0, b"committed", UNIQ_KEY="E", **target)  # type: ignore[arg-type]
    fake.put(OUTCOME_TOPIC, 0, b"1,2", TAGS="d")
    fake.put(HALF_TOPIC, 0, b"asked for again", UNIQ_KEY="D", **target)  # type: ignore[arg-type]
    fake.put("orders", 0, b"committed", UNIQ_KEY="E", sys_flag=8, prepared=position)
    fake.topics["orders"] = 4
    fake.offsets = {f"{HALF_TOPIC}@CID_RMQ_SYS_TRANS": {0: 0}}

    assert kinds(fake) == [
        Kind.HALF, Kind.DECIDED, Kind.DECIDED, Kind.DECIDED, Kind.DECIDED, Kind.INTERNAL,
        Kind.HALF, Kind.VISIBLE,
    ]  # fmt: skip


def test_half_messages_before_the_progress_are_decided(fake: FakeBroker) -> None:
    for name in "AB":
        fake.put(HALF_TOPIC, 0, b"x", UNIQ_KEY=name, REAL_TOPIC="orders", REAL_QID="0")
    fake.offsets = {f"{HALF_TOPIC}@CID_RMQ_SYS_TRANS": {0: 1}}

    assert kinds(fake) == [Kind.DECIDED, Kind.HALF]


def test_topic_that_was_deleted_stays_deleted(fake: FakeBroker) -> None:
    fake.message("gone", 0, b"x")
    fake.message("orders", 0, b"x")
    del fake.topics["gone"], fake.units["gone", 0]

    assert kinds(fake) == [Kind.DELETED, Kind.VISIBLE]


def test_topic_that_was_made_again_has_its_new_messages_only(fake: FakeBroker) -> None:
    for _ in range(3):
        fake.message("orders", 0, b"old")
    fake.units["orders", 0].clear()
    fake.ends["orders", 0] = 0
    for _ in range(2):
        fake.message("orders", 0, b"new")

    assert kinds(fake) == [Kind.REPLACED] * 3 + [Kind.VISIBLE] * 2


def test_queues_of_a_killed_broker_may_be_behind(fake: FakeBroker) -> None:
    for _ in range(3):
        fake.message("orders", 0, b"x")
        fake.message("orders", 1, b"x")
    del fake.units["orders", 0][1], fake.units["orders", 0][2]
    (fake.save() / "abort").touch()

    with Source(fake.path) as source:
        classifier = Classifier(source, Choice(levels=LEVELS), size_max=4000)
        (batch,) = source.batches()
        assert set(classifier.classify(batch).kinds.tolist()) == {Kind.VISIBLE}


def test_queue_without_a_unit_yet_counts(fake: FakeBroker) -> None:
    fake.message("orders", 0, b"entered")
    fake.message("orders", 0, b"not yet")
    del fake.units["orders", 0][1]

    assert kinds(fake) == [Kind.VISIBLE, Kind.VISIBLE]


def test_what_cannot_be_held_is_left_and_counted(fake: FakeBroker) -> None:
    fake.message("bad topic!", 0, b"x")
    fake.put(LEVEL_TOPIC, 0, b"no target", tags_code=START_MS)
    fake.put(LEVEL_TOPIC, 0, b"no queue", REAL_TOPIC="orders", REAL_QID="x", tags_code=START_MS)
    fake.put("orders", 70_000, b"x")
    fake.message("orders", 0, bytes(3_950))
    fake.put("orders", 0, b"rolled back", sys_flag=12)
    fake.put("RMQ_SYS_TRACE_TOPIC", 0, b"x")

    assert kinds(fake) == [
        Kind.UNKNOWN_TARGET, Kind.UNKNOWN_TARGET, Kind.UNKNOWN_TARGET, Kind.UNKNOWN_TARGET,
        Kind.TOO_LARGE, Kind.UNINDEXED, Kind.INTERNAL,
    ]  # fmt: skip


def test_group_that_never_read_a_queue_has_read_nothing_of_it(
    fake: FakeBroker, move: TakeOver
) -> None:
    for queue_id in (0, 1):
        fake.message("orders", queue_id, b"x")
    fake.offsets = {"orders@a": {0: 1, 1: 1}, "orders@b": {0: 1}}

    assert move(dry_run=True).kinds == {Kind.READ: 1, Kind.VISIBLE: 1}


def test_tools_are_no_readers(fake: FakeBroker, move: TakeOver) -> None:
    for _ in range(3):
        fake.message("orders", 0, b"x")
    fake.offsets = {"orders@a": {0: 2}, "orders@TOOLS_CONSUMER": {0: 0}}

    assert move(dry_run=True).kinds == {Kind.READ: 2, Kind.VISIBLE: 1}
