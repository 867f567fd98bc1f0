"""Preparing a single message: where it goes, what its record says, what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.golden.layout import java_hash, parse

from dueline.errors import InvalidRequest, LimitExceeded
from dueline.message import Message, UniqueIds, pack_host
from dueline.schedule import DelayLevels, Due
from dueline.store import record as records
from dueline.store.draft import Draft, Rules, encode_all, prepare
from dueline.store.properties import key_hash

NOW_MS = 1_700_000_000_000
HOST = pack_host("10.0.0.1", 10911)
RULES = Rules(levels=DelayLevels.parse("1s 5s"), delay_max_ms=86_400_000, body_size_max=100)
PLAIN = Message(topic="orders", body=b"body", queue_id=3)


def made(message: Message, due: Due | None = None) -> Draft:
    ids = UniqueIds(host=HOST, start_ms=NOW_MS)
    return prepare(message, now_ms=NOW_MS, rules=RULES, ids=ids, due=due)


def encoded(draft: Draft, mark: int = 0, host: bytes = HOST) -> bytes:
    return encode_all(
        [draft], positions=[7], queue_offsets=[8], marks=[mark], store_ms=9, store_host=host
    )


def test_ordinary_message_keeps_its_place() -> None:
    draft = made(replace(PLAIN, properties={"TAGS": "a", "KEYS": "k1 k2", "UNIQ_KEY": "id"}))

    assert (draft.log_topic, draft.log_queue_id, draft.due) == ("orders", 3, None)
    assert draft.tags_code == java_hash("a")
    assert draft.key_hashes == tuple(key_hash(key) for key in ("id", "k1", "k2"))
    fields = parse(encoded(draft))
    assert fields["map"] == {"TAGS": "a", "KEYS": "k1 k2", "UNIQ_KEY": "id"}
    assert (fields["position"], fields["queue_offset"], fields["store_ms"]) == (7, 8, 9)
    assert len(encoded(draft)) == draft.size_bytes(HOST)


def test_unique_id_is_made_if_the_client_made_none() -> None:
    for properties in ({}, {"UNIQ_KEY": ""}):
        draft = made(replace(PLAIN, properties=properties))

        assert len(draft.unique_id) == 32
        assert parse(encoded(draft))["map"] == {"UNIQ_KEY": draft.unique_id}


def test_level_goes_to_the_levels_queue() -> None:
    draft = made(replace(PLAIN, properties={"DELAY": "9", "TIMER_DELAY_MS": "5"}))

    assert (draft.log_topic, draft.log_queue_id) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert (draft.topic, draft.queue_id) == ("orders", 3)
    assert draft.due == Due(due_ms=NOW_MS + 5_000, level=2)
    found = parse(encoded(draft))["map"]
    del found["UNIQ_KEY"]
    assert found == {"DELAY": "2", "REAL_TOPIC": "orders", "REAL_QID": "3"}


def test_arbitrary_time_goes_to_the_timer_topic() -> None:
    draft = made(replace(PLAIN, properties={"TIMER_DELAY_MS": "1234"}))

    assert (draft.log_topic, draft.log_queue_id) == ("rmq_sys_wheel_timer", 0)
    assert draft.due == Due(due_ms=NOW_MS + 1234, level=0)
    found = parse(encoded(draft))["map"]
    assert found["TIMER_OUT_MS"] == str(NOW_MS + 1234)
    assert (found["REAL_TOPIC"], found["REAL_QID"]) == ("orders", "3")


def test_level_leaves_no_timer_behind() -> None:
    """A retried message brings the TIMER_OUT_MS of its first delivery; recovery goes by it."""
    draft = made(replace(PLAIN, properties={"DELAY": "1", "TIMER_OUT_MS": "77"}))

    assert "TIMER_OUT_MS" not in parse(encoded(draft))["map"]


def test_given_due_time_goes_before_the_properties() -> None:
    due = Due(due_ms=NOW_MS + 7, level=0)

    draft = made(replace(PLAIN, properties={"TRAN_MSG": "true"}), due=due)

    assert draft.due is due
    assert draft.log_topic == "rmq_sys_wheel_timer"


@pytest.mark.parametrize("delay", [{}, {"DELAY": "1"}, {"TIMER_DELAY_MS": "5"}])
def test_half_message_is_not_delayed(delay: dict[str, str]) -> None:
    message = replace(PLAIN, properties={"TRAN_MSG": "true", **delay}, sys_flag=0x4 | 0x1)

    draft = made(message)

    assert (draft.log_topic, draft.log_queue_id, draft.due) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0, None)
    assert draft.sys_flag == 0x1, "the transaction bits are cleared, so that it is indexed"
    found = parse(encoded(draft))["map"]
    assert (found["REAL_TOPIC"], found["REAL_QID"]) == ("orders", "3")
    assert delay.items() <= found.items(), "kept for when it is committed"


def test_committed_message_is_delayed() -> None:
    message = replace(PLAIN, properties={"TRAN_MSG": "true", "DELAY": "1"}, sys_flag=0x8)

    assert made(message).due == Due(due_ms=NOW_MS + 1_000, level=1)


def test_retry_of_a_transactional_message_is_delayed() -> None:
    message = replace(PLAIN, properties={"TRAN_MSG": "true", "DELAY": "1"}, reconsume_times=1)

    assert made(message).due == Due(due_ms=NOW_MS + 1_000, level=1)


@pytest.mark.parametrize("kind", [0x4, 0xC])
def test_prepared_and_rolled_back_messages_are_not_delayed(kind: int) -> None:
    draft = made(replace(PLAIN, properties={"DELAY": "1"}, sys_flag=kind))

    assert draft.due is None
    assert draft.sys_flag == kind


def test_wide_hosts_set_their_flags() -> None:
    wide = pack_host("::1", 5)
    draft = made(replace(PLAIN, born_host=wide, sys_flag=0x20))

    data = encoded(draft, host=wide)

    fields = parse(data)
    assert fields["sys_flag"] == 0x30
    assert fields["born_host"] + fields["born_port"].to_bytes(4, "big") == wide
    assert len(data) == draft.size_bytes(wide)
    records.decode(data, position=7)


def test_stale_host_flags_are_cleared() -> None:
    assert made(replace(PLAIN, sys_flag=0x31)).sys_flag == 0x1


def test_record_is_what_the_record_codec_makes() -> None:
    draft = made(replace(PLAIN, flag=-5, reconsume_times=2, born_ms=11, properties={"a": "b"}))

    data = encoded(draft, mark=records.MARK_DELAYED | 99)

    record = records.decode(data, position=7)
    assert records.seal(record) == data
    assert (record.flag, record.reconsume_times, record.born_ms, record.seq) == (-5, 2, 11, 99)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"topic": "a b"}, "topic"),
        ({"topic": "DUELINE_SYS_CONTROL"}, "topic"),
        ({"queue_id": -1}, "queue_id"),
        ({"born_host": b"1234567"}, "born_host"),
        ({"born_ms": -1}, "born_ms"),
        ({"born_ms": 1 << 62}, "born_ms"),
        ({"flag": 1 << 31}, "flag"),
        ({"sys_flag": -(1 << 31) - 1}, "flag"),
        ({"reconsume_times": 1 << 31}, "flag"),
        ({"properties": {"a\x01": "b"}}, "properties"),
        ({"properties": {"DELAY": "soon"}}, "DELAY"),
    ],
)
def test_what_no_record_can_hold_is_refused(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        made(replace(PLAIN, **change))  # type: ignore[arg-type]

    assert caught.value.field == field


def test_limits_are_the_rules() -> None:
    with pytest.raises(LimitExceeded, match="body"):
        made(replace(PLAIN, body=bytes(101)))
    with pytest.raises(LimitExceeded, match="delay"):
        made(replace(PLAIN, properties={"TIMER_DELAY_MS": "86400001"}))


def test_properties_that_grow_too_long_are_refused() -> None:
    """What the store adds counts too."""
    with pytest.raises(InvalidRequest, match="32767"):
        made(replace(PLAIN, properties={"a": "x" * 32_760}))
