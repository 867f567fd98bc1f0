"""What a producer makes of answers, also of those that only Apache's brokers give."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.client.scripted import Scripted
from tests.waiting import PATIENCE_S

from dueline.client import AsyncProducer, Outgoing, Sent
from dueline.errors import BrokerError, InvalidRequest, LimitExceeded, NotFound, OutcomeUnknown
from dueline.wire import Command

SEND, BATCH = 310, 320
STORED = {"msgId": "7F00000100002A9F0000000000000064", "queueId": "1", "queueOffset": "5"}


def send(
    answers: Callable[[int], Command | None], *, timeout_s: float = PATIENCE_S
) -> tuple[list[Sent | BrokerError], Scripted]:
    """Send one message to a broker that answers the n-th send so; the outcome, and the broker."""
    counted = iter(range(100))

    def answer(request: Command) -> Command | None:
        told = answers(next(counted))
        if told is None:
            return None
        return request.reply(code=told.code, ext=told.ext, remark=told.remark)

    broker = Scripted({})
    broker.answers = {105: broker.route, SEND: answer}

    async def run() -> list[Sent | BrokerError]:
        async with (
            broker.running() as address,
            AsyncProducer(address, timeout_s=timeout_s) as producer,
        ):
            try:
                return [await producer.send("orders", b"17")]
            except BrokerError as error:
                return [error]

    return asyncio.run(run()), broker


def told(code: int, *, remark: str | None = None) -> Command:
    return Command(code=code, opaque=0, ext=STORED, remark=remark)


@pytest.mark.parametrize("code", [0, 10, 11, 12], ids=["ok", "disk", "no-replica", "replica"])
def test_a_message_that_is_stored_is_sent_once(code: int) -> None:
    (sent,), broker = send(lambda number: told(code))

    assert isinstance(sent, Sent)
    assert (sent.topic, sent.offset_id) == ("orders", STORED["msgId"])
    assert broker.codes().count(SEND) == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [(13, InvalidRequest), (16, BrokerError), (17, NotFound)],
    ids=["illegal", "forbidden", "unknown"],
)
def test_a_refusal_is_final_and_says_why(code: int, kind: type[BrokerError]) -> None:
    (error,), broker = send(lambda number: told(code, remark="because"))

    assert type(error) is kind
    assert str(error) == f"because (code {code})"
    assert broker.codes().count(SEND) == 1


def test_a_busy_broker_is_asked_again() -> None:
    (sent,), broker = send(lambda number: told(2 if number < 2 else 0))

    assert isinstance(sent, Sent)
    assert broker.codes().count(SEND) == 3


def test_a_broker_that_stays_busy_is_a_limit() -> None:
    (error,), broker = send(lambda number: told(2, remark="too much"))

    assert isinstance(error, LimitExceeded)
    assert broker.codes().count(SEND) == 3


def test_no_answer_is_not_called_a_refusal() -> None:
    (error,), broker = send(lambda number: None, timeout_s=1.0)

    assert isinstance(error, OutcomeUnknown)
    assert broker.codes().count(SEND) == 3


def test_an_unknown_outcome_stays_unknown_though_later_attempts_are_refused() -> None:
    (error,), _ = send(lambda number: told(1 if number == 0 else 2))

    assert isinstance(error, OutcomeUnknown)


def test_delayed_messages_travel_in_one_request_once_their_broker_is_known() -> None:
    """The first goes alone, since only its answer says whether the broker takes such batches."""
    in_delay_log = {**STORED, "msgId": "7F00000100002A9F4000000000000064"}
    broker = Scripted({})
    broker.answers = {
        105: broker.route,
        SEND: lambda request: request.reply(code=0, ext=in_delay_log),
        BATCH: lambda request: request.reply(code=0, ext=in_delay_log),
    }
    messages = [Outgoing(topic="orders", body=b"%d" % number, delay="1h") for number in range(5)]

    async def run() -> list[list[int]]:
        async with broker.running() as address, AsyncProducer(address) as producer:
            asked = []
            for _ in range(2):
                before = len(broker.codes())
                await producer.send_many(messages)
                asked.append([code for code in broker.codes()[before:] if code in (SEND, BATCH)])
            return asked

    assert asyncio.run(run()) == [[SEND, BATCH], [BATCH]]
