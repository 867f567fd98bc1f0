"""POP: consumers take messages from any queue and acknowledge each one (5.x, 200050 and on).

The client builds a receipt of eight words from what it is given and shows it again:

    start-offset  pop-time  invisible-time  revive-queue  retry  broker  queue  offset

Ours name a holding of `dueline.broker.inflight`, shared with the gRPC protocol: queue and offset
say which message, and the serial number of the holding travels as the revive queue, the one number
that the broker chooses both here and when the invisible time changes. A number like 999 would mean
orderly consumption, so serial numbers are shifted beyond it.

Whatever is taken and cannot be answered is given back, and does not count as an attempt.

The lane of a queue is remembered from the receipts that were given out. After a restart of the
broker older receipts are therefore refused, and their messages come again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dueline.broker.filters import filter_of
from dueline.broker.inflight import Held, Holding, Taken
from dueline.broker.inflight.receipt import Receipt
from dueline.broker.names import dead_topic
from dueline.broker.retries import dead_record
from dueline.broker.topics import Permission
from dueline.broker.writing import Results, accepted
from dueline.errors import BrokerError, InvalidRequest
from dueline.server.remoting.answers import OK, Answer, Refused, answer_of
from dueline.server.remoting.assignment import ANY_QUEUE
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import ANSWER_SIZE_BYTES, Handler, Hub, decoded
from dueline.server.remoting.pop_records import SERIAL_SHIFT, Records
from dueline.server.shares import Share
from dueline.wire.bodies import AckBatch, AckEntry
from dueline.wire.codes import RequestCode, ResponseCode
from dueline.wire.headers import (
    AckRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopRequest,
    PopResponse,
)

__all__ = ["Pops"]

COUNT_MAX: Final = 32
ACK_COUNT_MAX: Final = 2_048
POLL_MS_MAX: Final = 60_000
INVISIBLE_MS_MAX: Final = 12 * 3_600_000
_LOOK_AGAIN_S_MAX: Final = 3_600.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """A pop request, understood and checked."""

    group: str
    topic: str
    queue_ids: list[int]
    count_max: int
    holding: Holding
    expression: str
    kind: str
    poll_s: float


class Pops:
    """Handlers of 200050, 200051, 200151 and 200053."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._hub = hub
        self._inflight = context.broker.inflight
        self._lanes: dict[tuple[str, str, int], tuple[int, int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.POP_MESSAGE: self.pop,
            RequestCode.ACK_MESSAGE: self.ack,
            RequestCode.BATCH_ACK_MESSAGE: decoded(self._hub, AckBatch, self.ack_batch),
            RequestCode.CHANGE_MESSAGE_INVISIBLE_TIME: self.change,
        }

    # Receiving

    def pop(self, request: Request) -> Answer | None:
        header = PopRequest.decode(request.command.ext)
        wish = self._understand(header)
        task = self._context.loop.create_task(self._serve(request, wish))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def gone() -> None:
            task.cancel()

        request.channel.on_close.add(gone)
        task.add_done_callback(lambda _: request.channel.on_close.discard(gone))
        return None

    def _understand(self, header: PopRequest) -> _Wish:
        config = self._context.topics.find(header.topic)
        group = self._context.broker.group_table.find(header.consumer_group)
        if not config.perm & Permission.READ or not group.consume_enable:
            raise Refused(ResponseCode.NO_PERMISSION, f"{header.topic} may not be read")
        if not ANY_QUEUE <= header.queue_id < config.read_queue_nums:
            raise InvalidRequest(f"topic {header.topic}: no queue {header.queue_id}")
        if not 1 <= header.invisible_time <= INVISIBLE_MS_MAX:
            raise InvalidRequest(
                f"invisible time: expected 1 to {INVISIBLE_MS_MAX}, found {header.invisible_time}"
            )
        attempts = group.retry_max_times if group.retry_max_times >= 0 else 16
        filter_of(header.exp or "*", header.exp_type or "TAG")  # refused now and not in the task
        return _Wish(
            group=header.consumer_group,
            topic=header.topic,
            queue_ids=[header.queue_id]
            if header.queue_id != ANY_QUEUE
            else list(range(config.read_queue_nums)),
            count_max=max(1, min(header.max_msg_nums, COUNT_MAX)),
            holding=Holding(invisible_ms=header.invisible_time, attempt_max=attempts + 1),
            expression=header.exp or "*",
            kind=header.exp_type or "TAG",
            poll_s=max(0, min(header.poll_time, POLL_MS_MAX)) / 1_000,
        )

    async def _serve(self, request: Request, wish: _Wish) -> None:
        try:
            found = await self._receive(request, wish)
            request.answer(self._answer_or_return(wish, found))
        except BrokerError as error:
            request.fail(error)
        except asyncio.CancelledError:
            request.answer(OK)  # to nobody: the connection is gone
            raise
        except Exception as error:
            log.exception("a pop of %s failed", wish.topic)
            request.fail(error)

    async def _receive(self, request: Request, wish: _Wish) -> list[Held]:
        """Messages, or none if there are none for as long as the client waits."""
        loop = self._context.loop
        end_s = loop.time() + wish.poll_s
        news = asyncio.Event()

        def wake() -> None:
            self._context.outbox.post(news.set)

        def give_up() -> None:
            nonlocal end_s
            end_s = 0.0
            news.set()

        share: Share | None = None
        unwatch = self._inflight.watch(wish.group, wish.topic, wake)
        watch = self._context.engine.watch(wish.topic, None, wake)
        try:
            while True:
                await self._room_for(request)
                found = await self._take(wish)
                left_s = end_s - loop.time()
                if found or left_s <= 0 or not self._context.engine.is_accepting:
                    return found
                request.release()
                share = share or request.channel.wait(give_up)
                try:
                    async with asyncio.timeout(min(left_s, self._visible_in_s(wish))):
                        await news.wait()
                except TimeoutError:
                    continue
                news.clear()
                watch.cancel()
                watch = self._context.engine.watch(wish.topic, None, wake)
        finally:
            if share is not None:
                share.leave()
            unwatch()
            watch.cancel()

    async def _room_for(self, request: Request) -> None:
        """Wait until the answer has room: what is taken can then be sent."""
        while not request.reserve(ANSWER_SIZE_BYTES):
            turn = asyncio.Event()
            request.channel.room.wait(turn.set)
            await turn.wait()

    def _visible_in_s(self, wish: _Wish) -> float:
        next_ms = self._inflight.next_visible_ms(wish.group, wish.topic)
        if next_ms is None:
            return _LOOK_AGAIN_S_MAX
        return max(next_ms - self._context.clock.now_ms(), 1) / 1_000

    async def _take(self, wish: _Wish) -> list[Held]:
        def work() -> Taken:
            return self._inflight.take(
                wish.group,
                wish.topic,
                wish.queue_ids,
                count_max=wish.count_max,
                holding=wish.holding,
                wanted=filter_of(wish.expression, wish.kind),
            )

        taking = self._context.in_thread(work)
        try:
            received = await asyncio.shield(taking)
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

    def _return_taken(self, wish: _Wish, taking: asyncio.Future[Taken]) -> None:
        if not taking.cancelled() and taking.exception() is None:
            self._give_back(wish, taking.result().messages)

    def _give_back(self, wish: _Wish, messages: list[Held]) -> None:
        self._inflight.give_back(wish.group, wish.topic, [held.receipt for held in messages])

    async def _bury_if_possible(self, wish: _Wish, held: Held) -> None:
        """One that cannot be written stays and is tried again: its neighbours are received."""
        try:
            await self._bury(wish, held)
        except BrokerError as error:
            log.warning("%s: a dead letter of %s stays: %s", wish.group, wish.topic, error)

    async def _bury(self, wish: _Wish, held: Held) -> None:
        """Put a message to the dead letters, then acknowledge it."""
        letter = dead_record(
            held.record, held.properties, group=wish.group, topic=wish.topic, attempt=held.attempt
        )
        self._context.topics.ensure(dead_topic(wish.group), queue_count=1)
        await self._context.in_thread(self._context.broker.save)
        written: asyncio.Future[Results | BaseException] = self._context.loop.create_future()

        def settle(results: Results | BaseException) -> None:
            if not written.done():  # the peer may have gone meanwhile
                written.set_result(results)

        def done(results: Results | BaseException) -> None:
            self._context.outbox.post(lambda: settle(results))

        self._context.broker.put([letter], done)
        results = await written
        if isinstance(results, BaseException):
            raise results
        accepted(results)
        self._inflight.acknowledge(wish.group, wish.topic, held.receipt, lambda _: None)

    def _answer_or_return(self, wish: _Wish, found: list[Held]) -> Answer:
        """The answer; if none can be made, what was taken for it is given back."""
        try:
            return self._answer(wish, found)
        except Exception:
            self._give_back(wish, found)
            raise

    def _answer(self, wish: _Wish, found: list[Held]) -> Answer:
        now_ms = self._context.clock.now_ms()
        made = Records(found, self._context.broker_name, now_ms, wish.holding.invisible_ms)
        self._give_back(wish, made.left_out)
        for held in made.messages:
            receipt = Receipt.decode(held.receipt)
            lane = (wish.group, wish.topic, held.record.queue_id)
            self._lanes[lane] = (receipt.epoch, receipt.lane)
        header = PopResponse(
            pop_time=now_ms,
            invisible_time=wish.holding.invisible_ms,
            revive_qid=made.revive_qid,
            rest_num=0,
            start_offset_info=made.start_offsets(),
            msg_offset_info=made.offsets(),
        )
        if not found:
            return Answer(
                code=ResponseCode.POLLING_TIMEOUT, ext=header.encode(), remark="POLLING_TIMEOUT"
            )
        return Answer(ext=header.encode(), body=b"".join(made.chunks), remark="FOUND")

    # Receipts

    def ack(self, request: Request) -> Answer | None:
        header = AckRequest.decode(request.command.ext)
        receipt = self._receipt(header)

        def done(error: BaseException | None) -> None:
            answer = OK if error is None else answer_of(error)
            self._context.outbox.post(lambda: request.answer(answer))

        self._inflight.acknowledge(header.consumer_group, header.topic, receipt, done)
        return None

    def ack_batch(self, request: Request, batch: AckBatch) -> Answer | None:
        """Acknowledge many; as with RocketMQ, what can no longer be acknowledged comes again."""
        receipts = self._all_receipts(batch)
        if not receipts:
            raise Refused(ResponseCode.NO_MESSAGE, "batch: expected acknowledgements, found none")
        left_count = len(receipts)
        failures: list[BaseException] = []

        def done(error: BaseException | None) -> None:
            self._context.outbox.post(lambda: count(error))

        def count(error: BaseException | None) -> None:
            nonlocal left_count
            left_count -= 1
            if error is not None and not isinstance(error, InvalidRequest):
                failures.append(error)
            if not left_count:
                request.answer(answer_of(failures[0]) if failures else OK)

        for entry, receipt in receipts:
            try:
                self._inflight.acknowledge(entry.consumer_group, entry.topic, receipt, done)
            except InvalidRequest as error:
                done(error)
        return None

    def _all_receipts(self, batch: AckBatch) -> list[tuple[AckEntry, str]]:
        found: list[tuple[AckEntry, str]] = []
        for entry in batch.acks:
            found += [(entry, receipt) for receipt in self._receipts(entry)]
            if len(found) > ACK_COUNT_MAX:
                raise InvalidRequest(
                    f"batch: expected at most {ACK_COUNT_MAX} acknowledgements, found more",
                    limit=ACK_COUNT_MAX,
                )
        return found

    def _receipts(self, entry: AckEntry) -> list[str]:
        lane = self._lanes.get((entry.consumer_group, entry.topic, entry.queue_id))
        serial = entry.revive_queue_id - SERIAL_SHIFT
        if lane is None or not 0 <= serial < 1 << 32 or not 0 <= entry.start_offset < 1 << 62:
            return []
        epoch, number = lane
        return [
            Receipt(
                epoch=epoch, lane=number, offset=entry.start_offset + place, serial=serial
            ).encode()
            for place in entry.places()
        ]

    def change(self, request: Request) -> Answer:
        header = ChangeInvisibleTimeRequest.decode(request.command.ext)
        if not 0 <= header.invisible_time <= INVISIBLE_MS_MAX:
            raise InvalidRequest(
                f"invisible time: expected 0 to {INVISIBLE_MS_MAX}, found {header.invisible_time}"
            )
        changed = self._inflight.extend(
            header.consumer_group, header.topic, self._receipt(header), header.invisible_time
        )
        response = ChangeInvisibleTimeResponse(
            pop_time=self._context.clock.now_ms(),
            invisible_time=header.invisible_time,
            revive_qid=Receipt.decode(changed).serial + SERIAL_SHIFT,
        )
        return Answer(ext=response.encode())

    def _receipt(self, header: AckRequest | ChangeInvisibleTimeRequest) -> str:
        words = header.extra_info.split(" ")
        lane = self._lanes.get((header.consumer_group, header.topic, header.queue_id))
        if len(words) != 8 or not words[3].isdecimal() or lane is None:
            raise InvalidRequest(
                "receipt: expected one that was given out since the broker's start, "
                f"found {header.extra_info!r:.200}"
            )
        epoch, number = lane
        serial = int(words[3][:12]) - SERIAL_SHIFT
        if not 0 <= serial < 1 << 32 or header.offset < 0:
            raise InvalidRequest(f"receipt: expected our numbers, found {words[3][:20]}")
        return Receipt(epoch=epoch, lane=number, offset=header.offset, serial=serial).encode()
