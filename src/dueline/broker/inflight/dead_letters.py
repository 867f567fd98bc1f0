"""Dead letters: messages that were tried too often, or that a consumer gives up.

A dead letter is written to the group's dead-letter topic first, and the message is acknowledged
after that: after a crash between the two it is there twice, which is better than nowhere. One that
cannot be written stays in flight and is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dueline.broker.inflight.holding import Ack, Held, Outcomes
from dueline.broker.inflight.inflight import InFlight
from dueline.broker.names import dead_topic
from dueline.broker.retries import dead_record
from dueline.broker.topics import Topics
from dueline.broker.writing import Put, Results
from dueline.errors import BrokerError, OutcomeUnknown, Unavailable

__all__ = ["DeadLetters"]


class DeadLetters:
    """The way from a group's messages in flight to its dead-letter topic."""

    def __init__(self, put: Put, inflight: InFlight, topics: Topics) -> None:
        self._put = put
        self._inflight = inflight
        self._topics = topics

    def forward(
        self, group: str, topic: str, held: Sequence[Held], done: Callable[[Outcomes], None]
    ) -> None:
        """Write messages as dead letters and acknowledge them; blocks for a new topic's table.

        Args:
            done: gets an outcome for each, from this thread or from one that writes.
        """
        letters = [
            dead_record(
                each.record, each.properties, group=group, topic=topic, attempt=each.attempt
            )
            for each in held
        ]
        acks = [Ack(group, topic, each.receipt) for each in held]
        try:
            self._make_topic(dead_topic(group))
            self._put(letters, lambda results: self._written(acks, results, done))
        except BrokerError as error:
            done([error] * len(acks))

    def _make_topic(self, name: str) -> None:
        self._topics.ensure(name, queue_count=1)
        if not self._topics.has_saved(name):
            self._topics.save()

    def _written(
        self, acks: list[Ack], results: Results | BaseException, done: Callable[[Outcomes], None]
    ) -> None:
        """Acknowledge what is on disk now."""
        if isinstance(results, BaseException):
            done([results] * len(acks))
            return
        outcomes: Outcomes = [
            result if isinstance(result, BrokerError) else None for result in results
        ]
        written = [place for place, outcome in enumerate(outcomes) if outcome is None]

        def acknowledged(errors: Outcomes) -> None:
            for place, error in zip(written, errors, strict=True):
                outcomes[place] = _written_but(error)
            done(outcomes)

        self._inflight.acknowledge_all([acks[place] for place in written], acknowledged)


def _written_but(error: BaseException | None) -> BaseException | None:
    """A refusal says that nothing has happened; here the letter is written already."""
    if isinstance(error, Unavailable):
        return OutcomeUnknown(f"the dead letter is written, but: {error.message}")
    return error
