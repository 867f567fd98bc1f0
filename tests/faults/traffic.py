"""Producers and consumers that go on whatever happens to the broker."""

import random
import threading
from datetime import timedelta

from tests.faults.history import History, Seen

from dueline.client import Outgoing, Producer, Reader, Sent
from dueline.clock import system_time_ms

TOPIC = "faults"
QUEUE_COUNT = 4
_PAUSE_S = 0.02


class Traffic:
    """A producer and a consumer, each with a thread and a connection of its own."""

    def __init__(self, name_server: str, history: History, seed: int) -> None:
        self._name_server = name_server
        self._history = history
        self._random = random.Random(seed)
        self._is_sending = threading.Event()
        self._is_reading = threading.Event()
        self._is_sending.set()
        self._is_reading.set()
        self._threads = [
            threading.Thread(target=self._produce, daemon=True),
            threading.Thread(target=self._consume, daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop_sending(self) -> None:
        self._is_sending.clear()
        self._threads[0].join()

    def stop(self) -> None:
        self._is_sending.clear()
        self._is_reading.clear()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        number = 0
        # One attempt each: a copy would look like a repeated delivery.
        with Producer(self._name_server, attempts_max=1) as producer:
            while self._is_sending.is_set():
                names = [str(number + row) for row in range(5)]
                number += 5
                answers = producer.send_each([self._message(name) for name in names])
                for name, answer in zip(names, answers, strict=True):
                    if not isinstance(answer, Sent):
                        self._history.left_open([name])
                    elif answer.due_ms is not None:
                        self._history.acknowledged(name, answer.due_ms)
                threading.Event().wait(_PAUSE_S)

    def _message(self, name: str) -> Outgoing:
        return Outgoing(
            topic=TOPIC,
            body=name.encode(),
            queue_id=int(name) % QUEUE_COUNT,
            delay=timedelta(milliseconds=self._random.randint(500, 3_000)),
        )

    def _consume(self) -> None:
        with Reader(self._name_server, TOPIC) as reader:
            while self._is_reading.is_set():
                messages = reader.receive_many(500, timeout_s=0.5)
                came_ms = system_time_ms()
                for message in messages:
                    self._history.saw(
                        Seen(
                            name=message.body.decode(),
                            queue_id=message.queue_id,
                            offset=message.queue_offset,
                            due_ms=message.due_ms or 0,
                            visible_ms=message.store_ms,
                            came_ms=came_ms,
                        )
                    )
