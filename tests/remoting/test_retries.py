"""Messages that come back: refused ones, recalled ones, undecided ones."""

from __future__ import annotations

import base64

import pytest
from tests.remoting.peer import Peer, bodies_of, properties_of, records_of
from tests.remoting.serving import RunningBroker
from tests.waiting import wait_until

from dueline.clock import system_time_ms
from dueline.store import Record
from dueline.wire import Command, RequestCode


def send_back(peer: Peer, record: Record, *, level: int = 0, limit: int = 16) -> Command:
    ext = {
        "offset": str(record.position),
        "group": "g",
        "delayLevel": str(level),
        "originMsgId": "x",
        "originTopic": "orders",
        "maxReconsumeTimes": str(limit),
    }
    return peer.call(RequestCode.CONSUMER_SEND_MESSAGE_BACK, ext)


def first_record(peer: Peer, topic: str) -> Record:
    (record,) = records_of(peer.pull(topic, suspend_ms=30_000))
    return record


def test_refused_message_comes_again_after_its_level(peer: Peer) -> None:
    peer.heartbeat("c", group="g", subscriptions={"orders": "*"})
    peer.send_message("orders", b"bad", TAGS="t", UNIQ_KEY="u")
    before_ms = system_time_ms()

    answer = send_back(peer, first_record(peer, "orders"), level=1)
    again = first_record(peer, "%RETRY%g")

    assert answer.code == 0
    assert system_time_ms() >= before_ms + 1_000
    assert (again.body, again.reconsume_times) == (b"bad", 1)
    assert properties_of(again)["RETRY_TOPIC"] == "orders"
    assert properties_of(again)["UNIQ_KEY"] == "u"


def test_refused_too_often_is_a_dead_letter_at_once(peer: Peer) -> None:
    peer.heartbeat("c", group="g", subscriptions={"orders": "*"})
    peer.send_message("orders", b"bad")

    assert send_back(peer, first_record(peer, "orders"), limit=0).code == 0

    assert bodies_of(peer.pull("%DLQ%g")) == [b"bad"]


def test_send_back_of_nothing_is_refused(peer: Peer) -> None:
    peer.send_message("orders")
    record = first_record(peer, "orders")
    assert send_back(peer, record).code == 26

    peer.heartbeat("c", group="g")
    ext = {"offset": "999999", "group": "g", "delayLevel": "0"}

    assert peer.call(RequestCode.CONSUMER_SEND_MESSAGE_BACK, ext).code == 1


# Recall


def recall(peer: Peer, handle: str, topic: str = "orders") -> Command:
    ext = {"topic": topic, "recallHandle": handle, "producerGroup": "p"}
    return peer.call(RequestCode.RECALL_MESSAGE, ext)


def test_recalled_message_is_never_delivered(broker: RunningBroker, peer: Peer) -> None:
    sent = peer.send_message("orders", b"no", TIMER_DELAY_MS="3000", UNIQ_KEY="u1")
    peer.send_message("orders", b"yes", TIMER_DELAY_MS="3100", UNIQ_KEY="u2")

    answer = recall(peer, sent.ext["recallHandle"])

    assert (answer.code, answer.ext["msgId"]) == (0, "u1")
    assert bodies_of(peer.pull("orders", suspend_ms=30_000)) == [b"yes"]


def test_level_can_be_recalled_too_and_recalling_twice_is_no_error(peer: Peer) -> None:
    sent = peer.send_message("orders", DELAY="18")

    assert recall(peer, sent.ext["recallHandle"]).code == 0
    assert recall(peer, sent.ext["recallHandle"]).code == 0


def test_recall_has_a_definite_answer(peer: Peer) -> None:
    sent = peer.send_message("orders", b"x", TIMER_DELAY_MS="50", UNIQ_KEY="u1")
    peer.pull("orders", suspend_ms=30_000)

    late = recall(peer, sent.ext["recallHandle"])
    unknown = recall(peer, _handle("v1 orders dueline 9999999999999 other"))

    assert (late.code, unknown.code) == (604, 604)
    assert "delivered" in (late.remark or "")
    assert "no such message" in (unknown.remark or "")


def test_recall_reaches_one_message_of_one_topic(broker: RunningBroker, peer: Peer) -> None:
    peer.send_message("mytopic", TIMER_DELAY_MS="600000", UNIQ_KEY="mine")
    peer.send_message("salaries", TIMER_DELAY_MS="600000", UNIQ_KEY="u1", KEYS="march")
    peer.send_message("salaries", TIMER_DELAY_MS="600000", UNIQ_KEY="u2", KEYS="u1")
    peer.send_message("other", TIMER_DELAY_MS="600000", UNIQ_KEY="u1")

    for unique_id in ("march", "u1", "u2"):
        made_up = _handle(f"v1 mytopic dueline 9999999999999 {unique_id}")
        assert recall(peer, made_up, "mytopic").code == 604
    by_key = _handle("v1 salaries dueline 9999999999999 march")
    assert recall(peer, by_key, "salaries").code == 604
    assert broker.store.pending_count() == 4

    by_id = _handle("v1 salaries dueline 9999999999999 u1")
    assert recall(peer, by_id, "salaries").code == 0
    assert broker.store.survey().pending_by_topic() == {"mytopic": 1, "salaries": 1, "other": 1}
    assert broker.store.find_delayed("u2")[0].state == 0


@pytest.mark.parametrize(
    ("handle", "topic", "code"),
    [
        ("not base64!", "orders", 604),
        ("v1 orders dueline 1", "orders", 604),
        ("v2 orders dueline 1 u", "orders", 604),
        ("v1 orders dueline x u", "orders", 604),
        ("v1 orders elsewhere 1 u", "orders", 604),
        ("v1 other dueline 1 u", "orders", 604),
        ("v1 nowhere dueline 1 u", "nowhere", 17),
    ],
)
def test_bad_handles_are_refused(peer: Peer, handle: str, topic: str, code: int) -> None:
    peer.send_message("orders")

    found = recall(peer, handle if "!" in handle else _handle(handle), topic)

    assert found.code == code
    assert found.remark


def _handle(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def test_delay_beyond_rocketmqs_three_days_is_accepted(broker: RunningBroker, peer: Peer) -> None:
    due_ms = system_time_ms() + 60 * 86_400_000

    sent = peer.send_message("orders", TIMER_DELIVER_MS=str(due_ms))

    assert sent.code == 0
    assert broker.store.next_due_ms() == due_ms


# Transactions


def half(peer: Peer, body: bytes = b"half", **properties: str) -> Command:
    return peer.send_message(
        "orders",
        body,
        group="pg",
        sys_flag=4,
        names={"TRAN_MSG": "true", "PGROUP": "pg", **properties},
    )


def end(peer: Peer, sent: Command, outcome: int, group: str = "pg") -> Command:
    ext = {
        "producerGroup": group,
        "tranStateTableOffset": sent.ext["queueOffset"],
        "commitLogOffset": str(int(sent.ext["msgId"][16:], 16)),
        "commitOrRollback": str(outcome),
        "msgId": sent.ext["transactionId"],
    }
    return peer.call(RequestCode.END_TRANSACTION, ext)


def test_only_committed_messages_are_seen(peer: Peer) -> None:
    committed, rolled_back, unknown = half(peer, b"1"), half(peer, b"2"), half(peer, b"3")

    answers = [end(peer, committed, 8), end(peer, rolled_back, 12), end(peer, unknown, 0)]

    assert [answer.code for answer in answers] == [0, 0, 0]
    assert bodies_of(peer.pull("orders", suspend_ms=30_000)) == [b"1"]


def test_wrong_group_or_place_is_refused(peer: Peer) -> None:
    sent = half(peer)
    moved = Command(code=0, opaque=0, ext=dict(sent.ext) | {"queueOffset": "5"})

    assert end(peer, sent, 8, group="other").code == 29
    assert end(peer, moved, 8).code == 1


def test_undecided_message_is_asked_for_and_the_answer_counts(
    broker: RunningBroker, peer: Peer
) -> None:
    peer.heartbeat("p1", producer="pg")
    sent = half(peer, UNIQ_KEY="u", KEYS="k")

    question = peer.wait_request()

    assert question.code == RequestCode.CHECK_TRANSACTION_STATE
    assert question.ext["msgId"] == "u"
    assert question.ext["tranStateTableOffset"] == sent.ext["queueOffset"]
    assert question.ext["offsetMsgId"] == sent.ext["msgId"]
    (record,) = records_of(question)
    assert (record.topic, record.body) == (b"orders", b"half")
    assert properties_of(record)["KEYS"] == "k"
    end(peer, sent, 8)
    assert bodies_of(peer.pull("orders", suspend_ms=30_000)) == [b"half"]

    def forgotten() -> bool:
        broker.broker.transactions.refresh()
        return len(broker.broker.transactions) == 0

    wait_until(forgotten, what="the outcome to be read")


def test_committed_message_is_delayed_if_it_asks_for_it(broker: RunningBroker, peer: Peer) -> None:
    sent = half(peer, TIMER_DELAY_MS="500")
    before_ms = system_time_ms()

    end(peer, sent, 8)

    assert bodies_of(peer.pull("orders", suspend_ms=30_000)) == [b"half"]
    assert system_time_ms() >= before_ms + 500


# Queries


def test_messages_are_found_by_key_unique_id_and_offset_id(peer: Peer) -> None:
    sent = peer.send_message("orders", b"one", KEYS="k1 k2", UNIQ_KEY="u1")
    peer.send_message("orders", b"two", KEYS="k2")

    def by_key(key: str, *, unique: bool = False) -> Command:
        ext = {
            "topic": "orders",
            "key": key,
            "maxNum": "10",
            "beginTimestamp": "0",
            "endTimestamp": str(1 << 60),
        }
        return peer.call(
            RequestCode.QUERY_MESSAGE, ext | ({"_UNIQUE_KEY_QUERY": "true"} if unique else {})
        )

    position = int(sent.ext["msgId"][16:], 16)
    viewed = peer.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
    assert bodies_of(by_key("k1")) == [b"one"]
    assert sorted(bodies_of(by_key("k2"))) == [b"one", b"two"]
    assert bodies_of(by_key("u1", unique=True)) == [b"one"]
    assert by_key("k3").code == 22
    assert bodies_of(viewed) == [b"one"]
    assert peer.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "7"}).code == 1


def test_pending_message_is_found_by_its_offset_id(peer: Peer) -> None:
    sent = peer.send_message("orders", b"later", TIMER_DELAY_SEC="3600")
    position = int(sent.ext["msgId"][16:], 16)

    (record,) = records_of(peer.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)}))

    assert record.body == b"later"
    assert properties_of(record)["REAL_TOPIC"] == "orders"
