"""One side of a meeting of protocols: sends delayed messages, or receives some, with 5.x."""

# mypy: ignore-errors
# It runs with the client's own interpreter, which has no types for it.

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

SIDE, ENDPOINT, TOPIC, COUNT = sys.argv[1:5]
CONFIGURATION = ClientConfiguration(ENDPOINT, Credentials())


def say(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def now_ms():
    return int(time.time() * 1000)  # noqa: TID251 - a program of its own, with a client's clock


def send():
    producer = Producer(CONFIGURATION, (TOPIC,))
    producer.startup()
    for number in range(int(COUNT)):
        message = Message()
        message.topic = TOPIC
        message.body = f"five-{number}".encode()
        message.tag = "five"
        message.delivery_timestamp = now_ms() // 1000 + 3
        producer.send(message)
        say(event="sent", body=f"five-{number}", due_ms=message.delivery_timestamp * 1000)


def receive():
    consumer = SimpleConsumer(CONFIGURATION, "five", {TOPIC: FilterExpression()}, await_duration=5)
    consumer.startup()
    say(event="ready")
    count = 0
    while count < int(COUNT):
        for message in consumer.receive(16, 20) or []:
            count += 1
            say(event="received", body=message.body.decode(), now_ms=now_ms())
            consumer.ack(message)


send() if SIDE == "send" else receive()
say(event="stopped")
os._exit(0)  # its background threads take their time
