"""The tour with the official Python client; see `tests/interop/grpc_tour.py` for its steps."""

# mypy: ignore-errors
# It runs with the client's own interpreter, which has no types for it.

import json
import os
import sys
import threading
import time

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

ENDPOINT, PREFIX = sys.argv[1:3]
DEADLINE = time.monotonic() + 300
IDENTITY = (os.environ.get("INTEROP_ACCESS_KEY"), os.environ.get("INTEROP_SECRET_KEY"))
CONFIGURATION = ClientConfiguration(ENDPOINT, Credentials(*IDENTITY))
LOCK = threading.Lock()
PUSHED = []


def now_s():
    return time.time()  # noqa: TID251 - a program of its own, with a client's clock


def say(**event):
    with LOCK:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def received(by, message):
    say(
        event="received",
        by=by,
        topic=message.topic,
        body=message.body.decode(),
        attempt=message.delivery_attempt,
        now_ms=int(now_s() * 1000),
        due_ms=message.delivery_timestamp or 0,
        tag=message.tag or "",
    )


class Push(MessageListener):
    def consume(self, message):
        received("push", message)
        with LOCK:
            PUSHED.append(message.body)
        return ConsumeResult.SUCCESS


class Failing(MessageListener):
    def consume(self, message):
        received("failing", message)
        return ConsumeResult.FAILURE


class Checker(TransactionChecker):
    def check(self, message):
        say(event="asked", body=message.body.decode())
        return TransactionResolution.COMMIT


def topic(name):
    return f"{PREFIX}-{name}"


def message(name, body):
    made = Message()
    made.topic = topic(name)
    made.body = body.encode()
    made.tag = "tour"
    made.keys = body
    return made


def main():
    names = ["plain", "again", "dead", "order", "half"]
    producer = Producer(CONFIGURATION, [topic(name) for name in names], Checker())
    producer.startup()
    push = PushConsumer(
        CONFIGURATION,
        topic("push"),
        Push(),
        {topic("plain"): FilterExpression(), topic("half"): FilterExpression("tour")},
    )
    push.startup()
    send_plain(producer)
    send_transactions(producer)
    fail(producer)
    receive_again(producer)
    receive_in_order(producer)
    receive_dead()
    wait_pushed()
    say(event="done")
    sys.stdout.flush()
    os._exit(0)  # its background threads take their time


def wait_pushed():
    while len(PUSHED) < 13 and time.monotonic() < DEADLINE:
        time.sleep(0.05)


def send_plain(producer):
    for number in range(5):
        producer.send(message("plain", f"normal-{number}"))
    for number in range(5):
        delayed = message("plain", f"delayed-{number}")
        delayed.delivery_timestamp = int(now_s()) + 3  # this client counts in seconds
        producer.send(delayed)
    timed = message("plain", "timed")
    timed.delivery_timestamp = int(now_s()) + 4
    producer.send(timed)
    unwanted = message("plain", "recalled")
    unwanted.delivery_timestamp = int(now_s()) + 5
    handle = producer.send(unwanted).recall_handle
    say(event="recalled", id=producer.recall_message(topic("plain"), handle))
    try:
        producer.recall_message(topic("plain"), "bm90IGEgaGFuZGxl")
    except Exception as error:  # noqa: BLE001 - whatever the client raises
        say(event="recall-refused", text=str(error))


def send_transactions(producer):
    for body, end in (("committed", "commit"), ("rolled-back", "rollback"), ("orphan", None)):
        transaction = producer.begin_transaction()
        producer.send(message("half", body), transaction)
        if end:
            getattr(transaction, end)()


def simple(group, name):
    consumer = SimpleConsumer(CONFIGURATION, group, {name: FilterExpression()}, await_duration=3)
    consumer.startup()
    return consumer


def fail(producer):
    consumer = PushConsumer(
        CONFIGURATION, topic("dead"), Failing(), {topic("dead"): FilterExpression()}
    )
    consumer.startup()
    producer.send(message("dead", "dead"))


def receive_again(producer):
    producer.send(message("again", "again"))
    consumer = simple(topic("simple"), topic("again"))
    count = 0
    while count < 3 and time.monotonic() < DEADLINE:
        for each in consumer.receive(1, 1) or []:
            count += 1
            received("simple", each)
            if count == 2:
                consumer.change_invisible_duration(each, 2)
            if count == 3:
                consumer.ack(each)


def receive_in_order(producer):
    for number in range(12):
        made = message("order", f"{'ab'[number % 2]}{number // 2}")
        made.message_group = "ab"[number % 2]
        producer.send(made)
    consumer = simple(topic("order"), topic("order"))
    count = 0
    while count < 12 and time.monotonic() < DEADLINE:
        for each in consumer.receive(8, 20) or []:
            count += 1
            received("order", each)
            consumer.ack(each)


def receive_dead():
    consumer = simple(topic("buried"), f"%DLQ%{topic('dead')}")
    while time.monotonic() < DEADLINE:
        for each in consumer.receive(1, 20) or []:
            received("dead", each)
            consumer.ack(each)
            return


try:
    main()
except BaseException as error:
    say(event="error", text=f"{error}; {error.__context__}")
    raise
finally:
    sys.stdout.flush()
    os._exit(1)  # its background threads take their time
