"""Finding, cancelling and rescheduling delayed messages at every stage of their life."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.making import (
    SMALL,
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    int64s,
    open_store,
    ordinary,
    take_window,
)

from dueline.errors import LimitExceeded
from dueline.message import Message, message_id, pack_host
from dueline.store import Answer, Changed, Name, PutResult, Store, restore
from dueline.store.states import CANCELLED, DELIVERED, PENDING


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path, wall) as store:
        yield store


def reopened(store: Store, wall: Wall) -> Store:
    path = store.path
    store.close()
    return open_store(path, wall)


def names_of(result: PutResult) -> dict[str, str]:
    return {"key": "order-17", "unique id": result.unique_id, "offset id": result.message_id}


NAMES = ["key", "unique id", "offset id"]


def put(store: Store, delay_ms: int = 1000) -> PutResult:
    return store.put(delayed(delay_ms, b"remind", KEYS="order-17 other", TAGS="g"))


# --- cancelling -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_pending_message_is_cancelled(store: Store, wall: Wall, name: str) -> None:
    key = names_of(put(store))[name]

    assert store.cancel(key) is Answer.CANCELLED
    assert store.cancel(key) is Answer.CANCELLED, "also if it was so before"

    assert store.pending_count() == 0
    wall.advance(1000)
    assert carry_over(store).delivered_count == 0


@pytest.mark.parametrize("name", NAMES)
def test_message_at_the_gate_is_cancelled(store: Store, wall: Wall, name: str) -> None:
    key = names_of(put(store))[name]
    carry_over(store)
    wall.advance(999)

    assert store.cancel(key) is Answer.CANCELLED

    wall.advance(1)
    assert store.open_gate() == 0
    assert bodies(store) == []
    assert store.gate_row_count == 0
    assert store.query("orders", "order-17") == []


def test_message_cancelled_at_the_gate_stays_so_after_a_restart(store: Store, wall: Wall) -> None:
    put(store)
    carry_over(store)
    store.cancel("order-17")

    store = reopened(store, wall)
    wall.advance(2000)

    assert store.open_gate() == 0
    assert store.query("orders", "order-17") == []
    assert store.cancel("order-17") is Answer.CANCELLED
    store.close()


@pytest.mark.parametrize("name", NAMES)
def test_due_message_is_too_late(store: Store, wall: Wall, name: str) -> None:
    """The millisecond decides, not whether somebody has opened the gate yet."""
    key = names_of(put(store))[name]
    carry_over(store)
    wall.advance(1000)

    assert store.cancel(key) is Answer.DELIVERED

    store.open_gate()
    assert bodies(store) == [b"remind"]
    assert store.cancel(key) is Answer.DELIVERED


def test_dropped_message_is_too_late(store: Store) -> None:
    put(store)
    store.deliver([], dropped=int64s(0))

    assert store.cancel("order-17") is Answer.DELIVERED


def test_ordinary_message_is_delivered(store: Store) -> None:
    store.put(ordinary(KEYS="k"))

    assert store.cancel("k") is Answer.DELIVERED


def test_half_message_is_not_delivered(store: Store) -> None:
    store.put(ordinary(KEYS="k", TRAN_MSG="true", DELAY="1"))

    assert store.cancel("k") is Answer.UNKNOWN


@pytest.mark.parametrize(
    "key",
    [
        "nobody's",
        "",
        "order-1",
        "7F00000100002A9F4000000000000005",
        "7F00000100002A9F4000000000FFFFFF",
        "7F00000100002A9FFFFFFFFFFFFFFFFF",
        "7F00000100002A9F0000000000000000",
    ],
)
def test_what_nobody_sent_is_unknown(store: Store, key: str) -> None:
    put(store)

    assert store.cancel(key) is Answer.UNKNOWN
    assert store.reschedule(key, START_MS + 5000) is Answer.UNKNOWN
    assert store.pending_count() == 1


def test_offset_id_of_the_commit_log_names_no_delayed_message(store: Store) -> None:
    """Position 0 of both logs holds a record; bit 62 says which log is meant."""
    store.put(ordinary())
    result = put(store)
    assert result.position == 0

    assert store.cancel(message_id(pack_host("127.0.0.1", 10911), 0)) is Answer.UNKNOWN
    assert store.cancel(result.message_id) is Answer.CANCELLED


def test_all_messages_with_a_key_are_cancelled(store: Store) -> None:
    for delay_ms in (10, 20, 30):
        put(store, delay_ms)
    store.put(delayed(10, KEYS="else"))

    assert store.cancel("order-17") is Answer.CANCELLED

    assert store.pending_count() == 1


def test_what_is_still_possible_is_done(store: Store, wall: Wall) -> None:
    """One message with the key was delivered, another one can still be cancelled."""
    put(store, 10)
    carry_over(store)
    wall.advance(10)
    put(store, 10)

    assert store.cancel("order-17") is Answer.CANCELLED
    assert bodies(store) == [b"remind"]


def test_many_are_cancelled_at_once(store: Store, wall: Wall) -> None:
    results = [put(store, 100) for _ in range(3)]
    store.put(delayed(1, b"early", KEYS="early"))
    carry_over(store, ahead_ms=1)
    wall.advance(1)

    answers = store.cancel_many(
        [results[0].unique_id, "nobody's", results[1].message_id, "early", results[0].unique_id]
    )

    assert answers == [
        Answer.CANCELLED,
        Answer.UNKNOWN,
        Answer.CANCELLED,
        Answer.DELIVERED,
        Answer.CANCELLED,
    ]
    assert store.pending_count() == 1
    assert store.cancel_many([]) == []


def test_cancelled_by_number(store: Store, wall: Wall) -> None:
    for delay_ms in (1, 1000, 1000):
        put(store, delay_ms)
    carry_over(store, ahead_ms=1)
    wall.advance(1)

    assert store.cancel_seqs(int64s(0, 2, 2, 99)).tolist() == [2]
    assert store.cancel_seqs(int64s(2)).tolist() == []
    assert store.pending_count() == 1


def test_cancel_survives_a_restart(store: Store, wall: Wall) -> None:
    put(store)
    store.cancel("order-17")

    store = reopened(store, wall)

    assert store.pending_count() == 0
    assert store.cancel("order-17") is Answer.CANCELLED
    store.close()


def test_stale_delivery_of_a_cancelled_message_is_skipped(store: Store) -> None:
    put(store)
    stale = restore.deliveries(take_window(store))
    store.cancel("order-17")

    result = store.deliver([stale])

    assert (result.delivered_count, result.skipped_count) == (0, 1)


# --- rescheduling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_carried", [False, True])
def test_message_is_delivered_at_its_new_time_only(
    store: Store, wall: Wall, name: str, is_carried: bool
) -> None:
    key = names_of(put(store))[name]
    if is_carried:
        carry_over(store)

    assert store.reschedule(key, START_MS + 5000) is Answer.RESCHEDULED

    assert store.next_due_ms() == START_MS + 5000
    assert carry_over(store).delivered_count == 1
    wall.advance(4999)
    assert store.open_gate() == 0
    wall.advance(1)
    assert store.open_gate() == 1
    assert bodies(store) == [b"remind"]


@pytest.mark.parametrize("name", NAMES)
def test_names_still_work_after_a_reschedule(store: Store, name: str) -> None:
    """Also the offset id, which points at the record that was replaced."""
    key = names_of(put(store))[name]
    store.reschedule(key, START_MS + 5000)

    assert store.reschedule(key, START_MS + 7000) is Answer.RESCHEDULED
    assert store.next_due_ms() == START_MS + 7000
    assert store.cancel(key) is Answer.CANCELLED
    assert store.pending_count() == 0
    assert store.reschedule(key, START_MS + 9000) is Answer.CANCELLED, "it stays cancelled"


def test_rescheduled_message_keeps_what_was_sent(store: Store, wall: Wall) -> None:
    host = pack_host("2001:db8::2", 5)
    message = Message(
        topic="orders",
        body=b"b",
        queue_id=3,
        properties={"KEYS": "k", "TAGS": "g", "own": "x", "DELAY": "2", "UNIQ_KEY": "id"},
        flag=7,
        born_ms=11,
        born_host=host,
        reconsume_times=2,
    )
    store.put(message)
    store.reschedule("k", START_MS + 5)

    (row,) = restore.messages(take_window(store)).to_pylist()

    properties = dict(row["properties"])
    assert (row["topic"], row["queue_id"], row["body"]) == ("orders", 3, b"b")
    assert (row["flag"], row["born_ms"], row["reconsume_times"]) == (7, 11, 2)
    assert row["born_host"] == host
    assert (row["keys"], row["tags"], row["unique_id"], properties["own"]) == ("k", "g", "id", "x")
    assert "DELAY" not in properties, "its level no longer says when it is due"
    assert wall.now_ms == START_MS


def test_time_in_the_past_means_now(store: Store) -> None:
    put(store)

    assert store.reschedule("order-17", 5) is Answer.RESCHEDULED

    assert store.next_due_ms() == START_MS
    carry_over(store)
    assert bodies(store) == [b"remind"]


def test_too_late_to_reschedule(store: Store, wall: Wall) -> None:
    put(store)
    carry_over(store)
    wall.advance(1000)

    assert store.reschedule("order-17", START_MS + 5000) is Answer.DELIVERED
    assert store.pending_count() == 0


def test_too_far_away_changes_nothing(store: Store) -> None:
    put(store)
    limit = SMALL.delay_max_ms

    with pytest.raises(LimitExceeded) as caught:
        store.reschedule_many([("order-17", START_MS + 5), ("x", START_MS + limit + 1)])

    assert caught.value.limit == limit
    assert store.next_due_ms() == START_MS + 1000


def test_many_are_rescheduled_at_once(store: Store) -> None:
    first, second = put(store, 100), put(store, 200)

    answers = store.reschedule_many(
        [(first.unique_id, START_MS + 9), ("nobody's", 1), (second.unique_id, START_MS + 3)]
    )

    assert answers == [Answer.RESCHEDULED, Answer.UNKNOWN, Answer.RESCHEDULED]
    rows = take_window(store).to_pylist()
    assert [row["due_ms"] for row in rows] == [START_MS + 3, START_MS + 9]
    assert store.pending_count() == 2


def test_one_message_under_two_requests_takes_the_last_time(store: Store) -> None:
    result = put(store, 100)

    store.reschedule_many([(result.unique_id, START_MS + 9), ("order-17", START_MS + 3)])

    assert store.pending_count() == 1
    assert store.next_due_ms() == START_MS + 3


def test_reschedule_survives_a_restart(store: Store, wall: Wall) -> None:
    result = put(store)
    store.reschedule("order-17", START_MS + 5000)

    store = reopened(store, wall)

    assert store.pending_count() == 1
    assert store.next_due_ms() == START_MS + 5000
    assert store.reschedule(result.message_id, START_MS + 6000) is Answer.RESCHEDULED
    store.close()


# --- finding and counting -------------------------------------------------------------------------


def test_found_messages_say_what_became_of_them(store: Store, wall: Wall) -> None:
    for delay_ms in (1, 50, 100, 200):
        put(store, delay_ms)
    carry_over(store, ahead_ms=50)
    wall.advance(1)
    store.cancel_seqs(int64s(3))

    found = store.find_delayed("order-17")

    assert [message.seq for message in found] == [3, 2, 1, 0]
    assert [message.state for message in found] == [CANCELLED, PENDING, DELIVERED, DELIVERED]
    store.open_gate()
    found = store.find_delayed("order-17")
    assert [message.is_at_gate for message in found] == [False, False, True, False]
    assert [message.due_ms - START_MS for message in found] == [200, 100, 50, 1]
    assert (found[0].topic, found[0].queue_id) == ("orders", 0)
    assert found[0].record.body == b"remind"


def test_level_is_found_with_its_due_time(store: Store) -> None:
    store.put(ordinary(KEYS="k", DELAY="2"))

    (found,) = store.find_delayed("k")

    assert found.due_ms == START_MS + 5000


def test_other_keys_with_the_same_hash_are_not_found(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dueline.store import draft, pending, reading

    for module in (draft, pending, reading):
        monkeypatch.setattr(module, "key_hash", lambda key: 7)
    store.put(delayed(5, KEYS="mine"))
    store.put(delayed(5, KEYS="yours"))

    assert len(store.find_delayed("mine")) == 1
    assert store.cancel("theirs") is Answer.UNKNOWN
    assert store.cancel("yours") is Answer.CANCELLED
    assert store.pending_count() == 1


def test_counts(store: Store) -> None:
    store.put_all([delayed(5, topic="a"), delayed(1500, topic="b"), delayed(1600, topic="b")])

    assert store.pending_count() == 3
    assert store.survey().pending_by_topic() == {"a": 1, "b": 2}
    assert store.survey().pending_by_bucket(1000) == {START_MS: 1, START_MS + 1000: 2}
    assert store.survey().pending_by_bucket(1000, "a") == {START_MS: 1}


# Recalling


def test_recall_takes_the_message_of_that_id_in_that_topic_alone(store: Store) -> None:
    store.put(delayed(1_000, b"mine", UNIQ_KEY="u1", KEYS="k"))
    store.put(delayed(1_000, b"key", UNIQ_KEY="u2", KEYS="u1"))
    store.put(delayed(1_000, b"other", topic="other", UNIQ_KEY="u1"))

    assert store.recall("orders", "k") == Answer.UNKNOWN
    assert store.recall("nowhere", "u1") == Answer.UNKNOWN
    assert store.recall("orders", "u1") == Answer.CANCELLED

    assert store.recall("orders", "u1") == Answer.CANCELLED
    assert store.survey().pending_by_topic() == {"orders": 1, "other": 1}
    assert [found.unique_id for found in store.find_delayed("u2")] == ["u2"]


def test_recall_takes_every_send_of_a_message_that_was_sent_again(store: Store) -> None:
    for _ in range(3):
        store.put(delayed(1_000, UNIQ_KEY="u1"))

    (changed,) = store.cancel_named([Name("u1", "orders")])

    assert changed == Changed(Answer.CANCELLED, 3)
    assert store.cancel_named([Name("u1", "orders")]) == [Changed(Answer.CANCELLED, 0)]


def test_recall_of_a_delivered_message_is_too_late_in_its_topic_alone(
    store: Store, wall: Wall
) -> None:
    store.put(delayed(1_000, UNIQ_KEY="u1"))
    store.put(ordinary(UNIQ_KEY="u2"))
    carry_over(store)
    wall.advance(1_000)

    for unique_id in ("u1", "u2"):
        assert store.recall("orders", unique_id) == Answer.DELIVERED
        assert store.recall("other", unique_id) == Answer.UNKNOWN
