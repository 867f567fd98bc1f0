"""Rights on what a request finds, by an offset id, a key, a handle, rows: not on what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.access.people import (
    ADMIN,
    CLERK,
    SigningCaller,
    SigningPeer,
    addresses,
    flight,
    guarded,
)
from tests.waiting import wait_until

from dueline.errors import Forbidden
from dueline.flight import console, operators, protocol
from dueline.message import message_id, pack_host, parse_message_id
from dueline.server.process import BrokerProcess
from dueline.spark.schedule_rows import checked
from dueline.store.schema import SCHEDULE_SCHEMA
from dueline.wire import RequestCode as Code
from dueline.wire.delayed import CancelDelayed, DelayedAnswers, FoundDelayedList, LookUpDelayed

NO_PERMISSION = 16
HALF = 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("found")
    with guarded(folder) as broker:
        yield broker


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[SigningPeer]:
    with SigningPeer(addresses(broker)[0], ADMIN) as peer:
        yield peer


@pytest.fixture
def clerk(broker: BrokerProcess) -> Iterator[SigningPeer]:
    with SigningPeer(addresses(broker)[0], CLERK) as peer:
        yield peer


def _offset(peer: SigningPeer, topic: str, *, sys_flag: int = 0) -> str:
    properties = {"TRAN_MSG": "true", "PGROUP": "p"} if sys_flag else {}
    sent = peer.send_message(topic, group="p", sys_flag=sys_flag, names=properties)
    assert sent.code == 0, sent.remark
    return str(parse_message_id(sent.ext["msgId"])[1])


def test_a_message_is_viewed_by_who_may_read_its_topic(
    admin: SigningPeer, clerk: SigningPeer
) -> None:
    orders, payments = _offset(admin, "orders"), _offset(admin, "payments")

    assert clerk.call(Code.VIEW_MESSAGE_BY_ID, {"offset": orders}).code == 0
    # Whatever the request says of the topic.
    for ext in ({"offset": payments}, {"offset": payments, "topic": "orders"}):
        assert clerk.call(Code.VIEW_MESSAGE_BY_ID, ext).code == NO_PERMISSION
    half = _offset(admin, "orders", sys_flag=HALF)
    assert clerk.call(Code.VIEW_MESSAGE_BY_ID, {"offset": half}).code == NO_PERMISSION
    assert admin.call(Code.VIEW_MESSAGE_BY_ID, {"offset": half}).code == 0


def test_a_message_is_sent_back_by_who_may_read_its_topic(
    admin: SigningPeer, clerk: SigningPeer
) -> None:
    """Or a consumer could copy messages of other topics to its own retries."""
    orders, payments = _offset(admin, "orders"), _offset(admin, "payments")
    ext = {"group": "readers", "delayLevel": "0", "originMsgId": "m"}
    clerk.pull("orders", group="readers")

    assert clerk.call(Code.CONSUMER_SEND_MESSAGE_BACK, {**ext, "offset": orders}).code == 0
    answer = clerk.call(Code.CONSUMER_SEND_MESSAGE_BACK, {**ext, "offset": payments})
    assert answer.code == NO_PERMISSION


def test_a_transaction_is_ended_by_who_may_send_to_its_topic(
    broker: BrokerProcess, admin: SigningPeer, clerk: SigningPeer
) -> None:
    half = _offset(admin, "payments", sys_flag=HALF)
    record = broker.broker.transactions.record(int(half))
    ext = {
        "producerGroup": "p",
        "tranStateTableOffset": str(record.queue_offset),
        "commitLogOffset": half,
        "commitOrRollback": "8",
        "msgId": "m",
        "topic": "orders",
    }

    assert clerk.call(Code.END_TRANSACTION, ext).code == NO_PERMISSION
    with SigningCaller(addresses(broker)[2], CLERK) as caller:
        for topic, code in (("payments", 40_300), ("orders", 40_008)):
            answer = caller.call(
                "EndTransaction",
                topic={"name": topic},
                transaction_id=_message_id(broker, int(half)),
                message_id="m",
                resolution=1,
            )
            assert answer.status.code == code
    before = _end_of(admin, "payments")
    assert admin.call(Code.END_TRANSACTION, ext).code == 0
    wait_until(lambda: _end_of(admin, "payments") == before + 1 or None, "the message")


def _end_of(peer: SigningPeer, topic: str) -> int:
    return int(peer.call(Code.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"}).ext["offset"])


def _message_id(broker: BrokerProcess, position: int) -> str:
    options = broker.broker.store_options
    return message_id(pack_host(options.host, options.port), position)


def test_what_waits_is_cancelled_and_seen_by_who_may_send_to_its_topic(
    broker: BrokerProcess, admin: SigningPeer, clerk: SigningPeer
) -> None:
    """A key may be in topics of several: each may touch their own."""
    for topic in ("orders", "payments"):
        assert admin.send_message(topic, KEYS="order-7", TIMER_DELAY_MS="3600000").code == 0

    looked = clerk.call(30_003, body=LookUpDelayed(key="order-7").encode())
    found = FoundDelayedList.decode(looked.body).messages
    assert [each.topic for each in found] == ["orders"]
    with flight(broker, CLERK) as client:
        seen = client.ask(operators.LookUp(key="order-7"), operators.Found).messages
        assert [each.topic for each in seen] == ["orders"]
        stories = client.ask(console.Inspect(name="order-7"), console.InspectedList).messages
        assert [each.topic for each in stories] == ["orders"]
        rows = pa.Table.from_batches(
            client.read(protocol.Ticket(found=protocol.FindPending(key="order-7")))
        )
        assert rows.column("topic").to_pylist() == ["orders"]
        later_ms = broker.clock.now_ms() + 7_200_000
        moved = client.call(
            protocol.Reschedule(moves=(protocol.Move(key="order-7", due_ms=later_ms),)),
            protocol.Answers,
        )
        assert moved.counts == (1,)
    answer = clerk.call(30_001, body=CancelDelayed(keys=["order-7"]).encode())
    (changed,) = DelayedAnswers.decode(answer.body).answers
    assert (changed.answer, changed.count) == ("cancelled", 1)
    with flight(broker, ADMIN) as client:
        left = client.call(protocol.Cancel(keys=("order-7",)), protocol.Answers)
        assert left.counts == (1,), "the other one was left alone"

    lines = broker.broker.trail.recent(0) or []
    changes = [(line.user, line.what, line.count) for line in lines if "order-7" in line.on]
    assert changes == [("clerk", "reschedule", 1), ("clerk", "CANCEL", 1), ("admin", "cancel", 1)]


def test_a_recall_takes_a_right_on_the_topic_of_its_handle(
    admin: SigningPeer, clerk: SigningPeer
) -> None:
    handles = {
        topic: admin.send_message(topic, UNIQ_KEY=f"id-{topic}", TIMER_DELAY_MS="3600000").ext[
            "recallHandle"
        ]
        for topic in ("orders", "payments")
    }

    for topic in ("payments", ""):
        ext = {"topic": topic, "recallHandle": handles["payments"]}
        assert clerk.call(Code.RECALL_MESSAGE, ext).code == NO_PERMISSION
    ext = {"topic": "orders", "recallHandle": handles["payments"]}
    assert clerk.call(Code.RECALL_MESSAGE, ext).code != 0
    ext = {"topic": "orders", "recallHandle": handles["orders"]}
    assert clerk.call(Code.RECALL_MESSAGE, ext).code == 0


def test_rows_of_a_job_go_to_topics_that_its_user_may_send_to(broker: BrokerProcess) -> None:
    def rows(*topics: str) -> list[pa.RecordBatch]:
        batch = pa.RecordBatch.from_pydict(
            {"topic": list(topics), "body": [b"x"] * len(topics), "delay": ["1h"] * len(topics)}
        )
        return [checked(batch, limits).rows]

    with flight(broker, CLERK) as client:
        limits = client.describe()
        client.stage("mine", SCHEDULE_SCHEMA, rows("orders", "orders-eu"))
        client.call(protocol.PutRows(tokens=("mine",)), protocol.RowsPut)
        client.stage("theirs", SCHEDULE_SCHEMA, rows("orders", "payments"))
        with pytest.raises(Forbidden, match="Topic:payments"):
            client.call(protocol.PutRows(tokens=("theirs",)), protocol.RowsPut)
