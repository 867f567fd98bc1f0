"""Who may write where: the table of the module's own words, spelled out."""

import pytest

from dueline import admission
from dueline.errors import InvalidRequest

BROKERS_OWN = [
    "SCHEDULE_TOPIC_XXXX",
    "rmq_sys_wheel_timer",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
]
OF_GROUPS = ["%RETRY%billing", "%DLQ%billing"]


@pytest.mark.parametrize("topic", ["orders", "Orders-2027_eu", "a" * 127])
def test_an_ordinary_topic_is_open_to_all(topic: str) -> None:
    admission.check_target(topic)
    admission.check_sender_target(topic)

    assert admission.is_target(topic)
    assert not admission.is_closed(topic)


@pytest.mark.parametrize("topic", BROKERS_OWN)
def test_the_brokers_own_topics_are_closed_to_all(topic: str) -> None:
    assert admission.is_closed(topic)
    assert not admission.is_target(topic)
    for check in (admission.check_target, admission.check_sender_target):
        with pytest.raises(InvalidRequest, match="only the broker writes to") as refused:
            check(topic)
        assert refused.value.what == "closed topic"


@pytest.mark.parametrize("topic", OF_GROUPS)
def test_topics_of_groups_are_open_to_4x_clients_and_the_pipeline_only(topic: str) -> None:
    admission.check_target(topic)

    with pytest.raises(InvalidRequest, match="belongs to a consumer group"):
        admission.check_sender_target(topic)


@pytest.mark.parametrize("topic", ["", "a b", "a/b", "a" * 128, "ordérs", "%other%"[:0]])
def test_what_is_no_name_is_no_target(topic: str) -> None:
    assert not admission.is_target(topic)


@pytest.mark.parametrize(("queue_id", "is_there"), [(0, True), (3, True), (4, False), (-1, False)])
def test_queues_end_with_the_topics_last(queue_id: int, is_there: bool) -> None:
    if is_there:
        admission.check_queue_id("orders", queue_id, 4)
        return
    with pytest.raises(InvalidRequest, match=f"expected 0 to 3, found {queue_id}"):
        admission.check_queue_id("orders", queue_id, 4)


def test_no_topic_has_more_than_1024_queues() -> None:
    admission.check_queue_id("orders", 1_023)

    with pytest.raises(InvalidRequest, match="expected 0 to 1023, found 1024"):
        admission.check_queue_id("orders", 1_024)


@pytest.mark.parametrize("name", ["REAL_TOPIC", "TIMER_OUT_MS", "POP_CK", "TRAN_MSG"])
def test_senders_do_not_speak_for_the_broker(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"property {name}: ") as refused:
        admission.check_properties(["mine", name])

    assert refused.value.found == name


def test_senders_say_when_and_what_they_like() -> None:
    admission.check_properties(["mine", "KEYS", "TAGS", "DELAY", "TIMER_DELIVER_MS"])


def test_a_message_that_is_sent_again_loses_what_was_the_brokers_word() -> None:
    properties = {"KEYS": "k", "REAL_TOPIC": "x", "POP_CK": "1", "TIMER_OUT_MS": "5", "DELAY": "3"}

    admission.drop_broker_properties(properties)

    assert properties == {"KEYS": "k", "DELAY": "3"}


def test_a_recall_is_no_message() -> None:
    with pytest.raises(InvalidRequest, match="use the client's recall"):
        admission.drop_broker_properties({"TIMER_DEL_UNIQKEY": "x"})


def test_users_of_5x_clients_set_no_name_with_a_meaning() -> None:
    assert {"KEYS", "TAGS", "DELAY", "REAL_TOPIC", "TRAN_MSG"} <= admission.RESERVED_PROPERTIES
    assert "mine" not in admission.RESERVED_PROPERTIES
    assert "KEYS" not in admission.BULK_PROPERTIES
