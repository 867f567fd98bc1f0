"""A refused message comes again a level later, and rests after the last attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dueline.broker import retries
from dueline.broker.group_configs import GroupConfig
from dueline.message import Message, decode_properties, encode_properties, pack_host
from dueline.store import Record

GROUP = GroupConfig(group_name="g", retry_max_times=3)


def record(attempts: int = 0, topic: str = "orders", **properties: str) -> Record:
    return Record(
        queue_id=2,
        flag=7,
        queue_offset=11,
        position=197,
        sys_flag=8,
        born_ms=5,
        born_host=pack_host("127.0.0.1", 1),
        store_ms=6,
        store_host=pack_host("127.0.0.1", 10911),
        reconsume_times=attempts,
        mark=0,
        body=b"body",
        topic=topic.encode(),
        properties=encode_properties({"UNIQ_KEY": "u", "TAGS": "a", **properties}),
    )


@pytest.mark.parametrize("properties", [{}, {"RETRY_TOPIC": "orders"}])
def test_a_dead_letter_that_is_sent_back_comes_again_as_what_it_was(
    properties: dict[str, str],
) -> None:
    letter = record(3, topic="%DLQ%g", DLQ_ORIGIN_TOPIC="orders", **properties)

    again = retries.refused(letter, GROUP, delay_level=1, attempts_max=4)

    assert again.topic == "%RETRY%g"
    assert again.properties["RETRY_TOPIC"] == "orders"


@pytest.mark.parametrize(("attempts", "level"), [(0, "3"), (1, "4"), (2, "5")])
def test_each_attempt_waits_a_level_longer(attempts: int, level: str) -> None:
    again = retries.refused(record(attempts), GROUP)

    assert again.topic == "%RETRY%g"
    assert again.queue_id == 0
    assert again.reconsume_times == attempts + 1
    assert again.properties["DELAY"] == level
    assert again.properties["UNIQ_KEY"] == "u"
    assert again.properties["TAGS"] == "a"
    assert (again.body, again.flag, again.sys_flag, again.born_ms) == (b"body", 7, 8, 5)


def test_level_that_the_consumer_names_is_taken() -> None:
    assert retries.refused(record(), GROUP, delay_level=9).properties["DELAY"] == "9"


def test_first_topic_and_first_id_are_kept_over_all_attempts() -> None:
    first = retries.refused(record(), GROUP)
    second = retries.refused(record(1, topic="%RETRY%g", **dict(first.properties)), GROUP)

    assert first.properties["RETRY_TOPIC"] == "orders"
    assert first.properties["ORIGIN_MESSAGE_ID"] == "7F00000100002A9F00000000000000C5"
    assert second.properties["RETRY_TOPIC"] == "orders"
    assert second.properties["ORIGIN_MESSAGE_ID"] == first.properties["ORIGIN_MESSAGE_ID"]


@pytest.mark.parametrize(
    ("attempts", "delay_level", "attempts_max"),
    [(3, 0, None), (9, 5, None), (0, -1, None), (1, 0, 1)],
)
def test_too_often_is_a_dead_letter_that_is_not_delayed(
    attempts: int, delay_level: int, attempts_max: int | None
) -> None:
    delivered = record(
        attempts, DELAY="3", REAL_TOPIC="x", REAL_QID="0", TIMER_DELAY_MS="5", TIMER_OUT_MS="9"
    )

    dead = retries.refused(delivered, GROUP, delay_level=delay_level, attempts_max=attempts_max)

    assert dead.topic == "%DLQ%g"
    assert dead.properties["DLQ_ORIGIN_TOPIC"] == "orders"
    assert dead.properties["DLQ_ORIGIN_MESSAGE_ID"] == "7F00000100002A9F00000000000000C5"
    assert not {"DELAY", "REAL_TOPIC", "REAL_QID", "TIMER_DELAY_MS", "TIMER_OUT_MS"} & set(
        dead.properties
    )


def test_delivered_timer_message_is_retried_by_level_and_not_by_its_old_timer() -> None:
    again = retries.refused(record(TIMER_DELIVER_MS="99", TIMER_OUT_MS="99"), GROUP)

    assert again.properties["DELAY"] == "3"
    assert "TIMER_DELIVER_MS" not in again.properties
    assert "TIMER_OUT_MS" not in again.properties


def test_dead_letter_of_a_message_that_a_consumer_sent_itself() -> None:
    message = Message(topic="%RETRY%g", body=b"b", properties={"DELAY": "4", "RETRY_TOPIC": "t"})

    dead = retries.dead_letter(message, "g", origin_topic="%RETRY%g")

    assert dead.topic == "%DLQ%g"
    assert dead.properties == {"RETRY_TOPIC": "t", "DLQ_ORIGIN_TOPIC": "t"}


def test_properties_of_the_helper_are_what_the_store_writes() -> None:
    assert decode_properties(record().properties) == {"UNIQ_KEY": "u", "TAGS": "a"}


@pytest.mark.parametrize(("configured", "attempts"), [(0, 1), (3, 4), (-1, 17)])
def test_attempts_are_the_groups_retries_and_the_first(configured: int, attempts: int) -> None:
    group = replace(GROUP, retry_max_times=configured)

    assert retries.RetryOptions().attempt_max(group) == attempts
    assert retries.RetryOptions(attempt_count_max=2).attempt_max(group) == 2


@pytest.mark.parametrize(
    ("attempt", "asked_ms", "pause_ms"),
    [
        (1, 0, 1_000),
        (2, 999, 5_000),
        (3, 1_000, 1_000),
        (18, 0, 7_200_000),
        (90, 0, 7_200_000),
        (100, 60_000, 0),
    ],
)
def test_refused_message_pauses_by_its_attempt_or_as_long_as_was_asked(
    attempt: int, asked_ms: int, pause_ms: int
) -> None:
    assert retries.RetryOptions().pause_ms(attempt, 100, asked_ms=asked_ms) == pause_ms
