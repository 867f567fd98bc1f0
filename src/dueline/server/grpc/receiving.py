"""The methods of consumers: receive, acknowledge, keep longer, put to the dead letters.

A receive that finds nothing waits: for the topic to grow, for a held message to become visible
again, or for the caller's patience to end. It also gets what 4.x clients of its group have refused
of its topic, from the group's retry topic. Whoever is cancelled after messages were taken for it
gives them back, so they do not lie idle for their invisible duration.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from dueline.broker.filters import Filter
from dueline.broker.inflight import Held, Holding, Taken
from dueline.broker.names import retry_topic
from dueline.broker.retries import dead_record
from dueline.errors import BrokerError, OutcomeUnknown, Unavailable
from dueline.server.grpc.bodies import is_heavy
from dueline.server.grpc.codes import Code, Refused, ok, status
from dueline.server.grpc.convert import due_ms_of, filter_from, name_of, proto_of, set_time
from dueline.server.grpc.parts import Parts, Peer, client_id_of
from dueline.server.grpc.polling import News, polling_s
from dueline.server.grpc.routes import Routes, topic_of
from dueline.server.grpc.stubs import message_class

__all__ = ["Receiving"]

RENEWED_INVISIBLE_MS: Final = 60_000
REFUSED_MS_MIN: Final = 1_000

_ACK_COUNT_MAX: Final = 1_024

_Received: Final = message_class("ReceiveMessageResponse")
_Ack: Final = message_class("AckMessageResponse")
_Changed: Final = message_class("ChangeInvisibleDurationResponse")
_Forwarded: Final = message_class("ForwardMessageToDeadLetterQueueResponse")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """A request to receive, understood and checked."""

    group: str
    topic: str
    queue_ids: list[int]
    count_max: int
    wanted: Filter
    holding: Holding
    polling_s: float


class Receiving:
    """The methods of consumers."""

    def __init__(self, parts: Parts, routes: Routes) -> None:
        self._parts = parts
        self._routes = routes

    # Receiving

    async def receive_message(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            wish = await self._understand(request, context)
            messages = await self._receive(wish, self._parts.peers(context.peer()))
        except BrokerError as error:
            yield _Received(status=status(error))
            return
        if not messages:
            yield _Received(status=_nothing())
            return
        try:
            yield _Received(status=ok())
            for held in messages:
                proto = await self._proto(held, request, wish)
                if proto is not None:
                    yield _Received(message=proto)
            last = _Received()
            set_time(last.delivery_timestamp, self._parts.now_ms())
            yield last
        except (asyncio.CancelledError, GeneratorExit):
            self._give_back(wish, messages)
            raise

    async def _proto(self, held: Held, request: Any, wish: _Wish) -> Any:
        def make() -> Any:
            return proto_of(
                held,
                topic=request.message_queue.topic,
                invisible_ms=wish.holding.invisible_ms,
                due_ms=due_ms_of(held.record, held.properties),
            )

        try:
            # To unpack megabytes and to sum them up takes long enough for others to notice.
            return await self._parts.off_loop(make) if is_heavy(held.record) else make()
        except Exception:
            # It has its attempts and then goes to the dead letters; its neighbours are received.
            log.exception("%s: a message of %s cannot be shown", wish.group, wish.topic)
            return None

    async def _understand(self, request: Any, context: Any) -> _Wish:
        owner = client_id_of(context)
        group = name_of(request.group)
        self._parts.broker.group_table.find(group)
        topic = topic_of(request.message_queue.topic)
        config = await self._routes.find_readable(topic)
        if request.batch_size < 1:
            raise Refused(
                Code.BAD_REQUEST, f"batch size: expected 1 or more, found {request.batch_size}"
            )
        return _Wish(
            group=group,
            topic=topic,
            queue_ids=list(range(config.read_queue_nums)),
            count_max=min(request.batch_size, self._parts.options.receive_count_max),
            wanted=filter_from(request.filter_expression),
            holding=self._holding(request, owner, group),
            polling_s=polling_s(
                request,
                context,
                self._parts.options,
                default_ms=self._parts.options.polling_ms_default,
            ),
        )

    def _holding(self, request: Any, owner: str, group: str) -> Holding:
        attempt_max = self._parts.attempt_max(group)
        if request.auto_renew:
            return Holding(
                invisible_ms=RENEWED_INVISIBLE_MS, owner=owner, renew=True, attempt_max=attempt_max
            )
        options = self._parts.options
        invisible_ms = request.invisible_duration.ToMilliseconds()
        if not options.invisible_ms_min <= invisible_ms <= options.invisible_ms_max:
            raise Refused(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"invisible duration: expected {options.invisible_ms_min} to "
                f"{options.invisible_ms_max} ms, found {invisible_ms}",
            )
        return Holding(invisible_ms=invisible_ms, owner=owner, attempt_max=attempt_max)

    async def _receive(self, wish: _Wish, peer: Peer) -> list[Held]:
        """Messages, or none if there are none for as long as the caller waits."""
        messages = await self._take(wish)
        if messages or wish.polling_s <= 0:
            return messages
        return await self._poll(wish, peer)

    async def _poll(self, wish: _Wish, peer: Peer) -> list[Held]:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wish.polling_s
        topics = [wish.topic, retry_topic(wish.group)]
        with (
            News(self._parts.engine, topics) as news,
            peer.take(self._parts.polls, news.give_up),
        ):
            unwatch = self._parts.inflight.watch(wish.group, wish.topic, news.wake)
            try:
                while True:
                    messages = await self._take(wish)
                    left_s = end_s - loop.time()
                    is_over = left_s <= 0 or news.is_over
                    if messages or is_over or not self._parts.engine.is_accepting:
                        return messages
                    await news.wait(min(left_s, self._visible_in_s(wish)))
            finally:
                unwatch()

    def _visible_in_s(self, wish: _Wish) -> float:
        """How long until a held message may be received again."""
        next_ms = self._parts.inflight.next_visible_ms(wish.group, wish.topic)
        if next_ms is None:
            return 3_600.0
        return max(next_ms - self._parts.now_ms(), 1) / 1_000

    async def _take(self, wish: _Wish) -> list[Held]:
        retries = self._parts.broker.topics.queue_count(retry_topic(wish.group))

        def work() -> Taken:
            return self._parts.inflight.take(
                wish.group,
                wish.topic,
                wish.queue_ids,
                count_max=wish.count_max,
                holding=wish.holding,
                wanted=wish.wanted,
                retry_queue_ids=range(retries),
            )

        taking = self._parts.executor.submit(work)
        try:
            received = await asyncio.wrap_future(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(lambda future: self._return_taken(wish, future))
            raise
        try:
            for dead in received.dead:
                await self._bury_if_possible(wish, dead)
        except asyncio.CancelledError:
            self._give_back(wish, received.messages)
            raise
        return received.messages

    def _return_taken(self, wish: _Wish, taking: Future[Taken]) -> None:
        if not taking.cancelled() and taking.exception() is None:
            self._give_back(wish, taking.result().messages)

    def _give_back(self, wish: _Wish, messages: list[Held]) -> None:
        self._parts.inflight.give_back(wish.group, wish.topic, [held.receipt for held in messages])

    # Dead letters

    async def _bury_if_possible(self, wish: _Wish, held: Held) -> None:
        """One that cannot be written stays and is tried again: its neighbours are received."""
        try:
            await self._bury(wish.group, wish.topic, held)
        except BrokerError as error:
            log.warning("%s: a dead letter of %s stays: %s", wish.group, wish.topic, error)

    async def _bury(self, group: str, topic: str, held: Held) -> None:
        """Put a message to the dead letters, then acknowledge it: twice there is better than
        nowhere."""
        letter = dead_record(
            held.record, held.properties, group=group, topic=topic, attempt=held.attempt
        )
        await self._parts.forwarded(letter)
        try:
            await self._parts.finished(group, topic, held.receipt)
        except Unavailable as error:
            raise OutcomeUnknown(f"the dead letter is written, but: {error.message}") from error

    async def forward_message_to_dead_letter_queue(self, request: Any, context: Any) -> Any:
        group, topic = name_of(request.group), topic_of(request.topic)
        held = await self._parts.off_loop(
            lambda: self._parts.inflight.peek(group, topic, request.receipt_handle)
        )
        await self._bury(group, topic, held)
        return _Forwarded(status=ok())

    # Receipts

    async def ack_message(self, request: Any, context: Any) -> Any:
        group, topic = name_of(request.group), topic_of(request.topic)
        if not 1 <= len(request.entries) <= _ACK_COUNT_MAX:
            raise Refused(
                Code.BAD_REQUEST,
                f"entries: expected 1 to {_ACK_COUNT_MAX}, found {len(request.entries)}",
            )
        outcomes = await asyncio.gather(
            *(self._parts.finished(group, topic, each.receipt_handle) for each in request.entries),
            return_exceptions=True,
        )
        answer = _Ack()
        for entry, outcome in zip(request.entries, outcomes, strict=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, BrokerError):
                raise outcome
            answer.entries.add(
                message_id=entry.message_id,
                receipt_handle=entry.receipt_handle,
                status=ok() if outcome is None else status(outcome),
            )
        codes = {entry.status.code for entry in answer.entries}
        if len(codes) == 1:
            answer.status.CopyFrom(answer.entries[0].status)
        else:
            answer.status.code = Code.MULTIPLE_RESULTS
        return answer

    async def change_invisible_duration(self, request: Any, context: Any) -> Any:
        """Clients take over the handle of the answer even with an error: there is always one."""
        answer = _Changed(receipt_handle=request.receipt_handle)
        try:
            answer.receipt_handle = self._change(request, client_id_of(context))
            answer.status.CopyFrom(ok())
        except BrokerError as error:
            answer.status.CopyFrom(status(error))
        return answer

    def _change(self, request: Any, client_id: str) -> str:
        group, topic = name_of(request.group), topic_of(request.topic)
        invisible_ms = int(request.invisible_duration.ToMilliseconds())
        if not 0 <= invisible_ms <= self._parts.options.invisible_ms_max:
            raise Refused(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"invisible duration: expected 0 to {self._parts.options.invisible_ms_max} ms, "
                f"found {invisible_ms}",
            )
        if not self._parts.clients.is_push_consumer(client_id):
            return self._parts.inflight.extend(group, topic, request.receipt_handle, invisible_ms)
        backoff_ms = self._parts.options.backoff_ms
        attempt_max = self._parts.attempt_max(group)

        def duration_ms(attempt: int) -> int:
            """What a refusal means: a push consumer changes the duration for no other reason."""
            if attempt >= attempt_max:
                return 0  # dead: there is nothing to wait for
            if invisible_ms >= REFUSED_MS_MIN:
                return invisible_ms
            # Some clients misread the backoff they were told; without one they would get the
            # message again and again without a pause.
            return backoff_ms[min(max(attempt, 1), len(backoff_ms)) - 1]

        return self._parts.inflight.extend(group, topic, request.receipt_handle, duration_ms)


def _nothing() -> Any:
    return status(Refused(Code.MESSAGE_NOT_FOUND, "no message came while the receiver waited"))
