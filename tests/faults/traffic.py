"""Producers and consumers that go on whatever happens to the broker."""

import base64
import random
import threading

from tests.faults.history import History, Seen

from dueline.clock import system_time_ms
from dueline.errors import BrokerError
from dueline.flight.control import ControlClient, Outgoing, Pull, Pulled, Send, Sent

TOPIC = "faults"
QUEUE_COUNT = 4
_PAUSE_S = 0.02


class Traffic:
    """A producer and a consumer, each with a thread and a connection of its own."""

    def __init__(self, address: str, history: History, seed: int) -> None:
        self._address = address
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
        while self._is_sending.is_set():
            names = [str(number + row) for row in range(5)]
            number += 5
            try:
                with ControlClient(self._address) as client:
                    answers = client.ask(Send(messages=tuple(map(self._message, names))), Sent)
            except BrokerError:
                self._history.left_open(names)
            else:
                for name, answer in zip(names, answers.results, strict=True):
                    if answer.error is None and answer.due_ms is not None:
                        self._history.acknowledged(name, answer.due_ms)
            threading.Event().wait(_PAUSE_S)

    def _message(self, name: str) -> Outgoing:
        return Outgoing(
            topic=TOPIC,
            body=base64.b64encode(name.encode()).decode(),
            queue_id=int(name) % QUEUE_COUNT,
            properties={"TIMER_DELAY_MS": str(self._random.randint(500, 3_000))},
        )

    def _consume(self) -> None:
        offsets: dict[str, int] = {str(queue): 0 for queue in range(QUEUE_COUNT)}
        while self._is_reading.is_set():
            request = Pull(topic=TOPIC, offsets=offsets, count_max=500, wait_ms=500)
            try:
                with ControlClient(self._address) as client:
                    pulled = client.ask(request, Pulled)
            except BrokerError:
                threading.Event().wait(_PAUSE_S)
                continue
            came_ms = system_time_ms()
            offsets = {**offsets, **pulled.offsets}
            for message in pulled.messages:
                self._history.saw(
                    Seen(
                        name=base64.b64decode(message.body).decode(),
                        queue_id=message.queue_id,
                        offset=message.offset,
                        due_ms=message.due_ms or 0,
                        visible_ms=message.store_ms,
                        came_ms=came_ms,
                    )
                )
