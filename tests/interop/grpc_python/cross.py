"""One side of a meeting of protocols: sends, receives, or receives and does not acknowledge."""

# mypy: ignore-errors
# It runs with the client's own interpreter, which has no types for it.

import argparse
import json
import os
import sys
import time

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)

parser = argparse.ArgumentParser()
parser.add_argument("side", choices=("send", "receive", "hold"))
parser.add_argument("endpoint")
parser.add_argument("topic")
parser.add_argument("--group", default="five")
parser.add_argument("--count", type=int, required=True)
parser.add_argument("--namespace", default="")
parser.add_argument("--delay-s", type=int, default=0)
parser.add_argument("--body-size", type=int, default=0)
OPTIONS = parser.parse_args()
CONFIGURATION = ClientConfiguration(OPTIONS.endpoint, Credentials(), OPTIONS.namespace)
HELD_S = 10


def say(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def now_ms():
    return int(time.time() * 1000)  # noqa: TID251 - a program of its own, with a client's clock


def send():
    producer = Producer(CONFIGURATION, (OPTIONS.topic,))
    producer.startup()
    for number in range(OPTIONS.count):
        body = f"five-{number}".ljust(OPTIONS.body_size, ".")
        message = Message()
        message.topic = OPTIONS.topic
        message.body = body.encode()
        message.tag = "five"
        due_ms = 0
        if OPTIONS.delay_s:
            message.delivery_timestamp = now_ms() // 1000 + OPTIONS.delay_s
            due_ms = message.delivery_timestamp * 1000
        producer.send(message)
        say(event="sent", body=body, due_ms=due_ms)


def receive():
    consumer = SimpleConsumer(
        CONFIGURATION, OPTIONS.group, {OPTIONS.topic: FilterExpression()}, await_duration=5
    )
    consumer.startup()
    say(event="ready")
    count = 0
    while count < OPTIONS.count:
        for message in consumer.receive(16, HELD_S) or []:
            count += 1
            say(
                event="received",
                body=message.body.decode(),
                topic=message.topic,
                attempt=message.delivery_attempt,
                now_ms=now_ms(),
            )
            if OPTIONS.side == "receive":
                consumer.ack(message)


send() if OPTIONS.side == "send" else receive()
say(event="stopped")
os._exit(0)  # its background threads take their time
