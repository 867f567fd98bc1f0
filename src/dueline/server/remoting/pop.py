"""POP: consumers take messages from any queue and acknowledge each one (5.x, 200050 and on).

The client builds a receipt of eight words from what it is given and shows it again:

    start-offset  pop-time  invisible-time  revive-queue  retry  broker  queue  offset

Ours name a holding of `dueline.broker.inflight`, shared with the gRPC protocol: queue and offset
say which message, and the serial number of the holding travels as the revive queue, the one number
that the broker chooses both here and when the invisible time changes. A number like 999 would mean
orderly consumption, so serial numbers are shifted beyond it.

Whatever is taken and cannot be answered is given back, and does not count as an attempt.

The rest of a receipt, its lane, is that of the group, topic and queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from dueline.broker.assignments import ANY_QUEUE
from dueline.broker.filters import filter_of
from dueline.broker.inflight import (
    ACK_COUNT_MAX,
    Ack,
    Held,
    InvalidReceipt,
    Outcomes,
    Receipt,
    Receive,
    ReceiveRequest,
)
from dueline.errors import BrokerError, InvalidRequest
from dueline.server.receiving import looked, received
from dueline.server.remoting.answers import OK, Refused, Response, answer_of
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import ANSWER_SIZE_BYTES, Handler, Hub, decoded
from dueline.server.remoting.pop_records import SERIAL_SHIFT, Records
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

log = logging.getLogger(__name__)


class Pops:
    """Handlers of 200050, 200051, 200151 and 200053."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._hub = hub
        self._inflight = context.broker.inflight
        self._tasks: set[asyncio.Task[None]] = set()

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.POP_MESSAGE: self.pop,
            RequestCode.ACK_MESSAGE: self.ack,
            RequestCode.BATCH_ACK_MESSAGE: decoded(self._hub, AckBatch, self.ack_batch),
            RequestCode.CHANGE_MESSAGE_INVISIBLE_TIME: self.change,
        }

    # Receiving

    def pop(self, request: Request) -> Response | None:
        receive = self._context.broker.receiving.receive(_asked(request))
        task = self._context.loop.create_task(self._serve(request, receive))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def gone() -> None:
            task.cancel()

        request.channel.on_close.add(gone)
        task.add_done_callback(lambda _: request.channel.on_close.discard(gone))
        return None

    async def _serve(self, request: Request, receive: Receive) -> None:
        try:
            found = await received(
                receive,
                lambda: self._look(request, receive),
                runtime=self._context.runtime,
                enter=request.channel.wait,
            )
            request.answer(self._answer_or_return(receive, found))
        except BrokerError as error:
            request.fail(error)
        except asyncio.CancelledError:
            request.answer(OK)  # to nobody: the connection is gone
            raise
        except Exception as error:
            log.exception("a pop of %s failed", receive.topic)
            request.fail(error)

    async def _look(self, request: Request, receive: Receive) -> list[Held]:
        """Look when the answer has room: what is taken can then be sent."""
        while not request.reserve(ANSWER_SIZE_BYTES):
            turn = asyncio.Event()
            request.channel.room.wait(turn.set)
            await turn.wait()
        found = await looked(receive, self._context.runtime)
        if not found:
            request.release()
        return found

    def _answer_or_return(self, receive: Receive, found: list[Held]) -> Response:
        """The answer; if none can be made, what was taken for it is given back."""
        try:
            return self._answer(receive, found)
        except Exception:
            receive.cancel()
            raise

    def _answer(self, receive: Receive, found: list[Held]) -> Response:
        now_ms = self._context.clock.now_ms()
        made = Records(found, self._context.broker_name, now_ms, receive.invisible_ms)
        receive.give_back(made.left_out)
        header = PopResponse(
            pop_time=now_ms,
            invisible_time=receive.invisible_ms,
            revive_qid=made.revive_qid,
            rest_num=0,
            start_offset_info=made.start_offsets(),
            msg_offset_info=made.offsets(),
        )
        if not found:
            return Response(
                code=ResponseCode.POLLING_TIMEOUT, ext=header.encode(), remark="POLLING_TIMEOUT"
            )
        return Response(ext=header.encode(), body=b"".join(made.chunks), remark="FOUND")

    # Receipts

    def ack(self, request: Request) -> Response | None:
        header = AckRequest.decode(request.command.ext)

        def done(error: BaseException | None) -> None:
            answer = OK if error is None else answer_of(error)
            self._context.outbox.post(lambda: request.answer(answer))

        self._inflight.acknowledge(header.consumer_group, header.topic, self._receipt(header), done)
        return None

    def ack_batch(self, request: Request, batch: AckBatch) -> Response | None:
        """Acknowledge many; as with RocketMQ, what can no longer be acknowledged comes again."""
        acks = self._acks(batch)
        if not acks:
            raise Refused(ResponseCode.NO_MESSAGE, "batch: expected acknowledgements, found none")

        def done(outcomes: Outcomes) -> None:
            errors = (error for error in outcomes if not isinstance(error, InvalidRequest))
            failure = next(filter(None, errors), None)
            answer = OK if failure is None else answer_of(failure)
            self._context.outbox.post(lambda: request.answer(answer))

        self._inflight.acknowledge_all(acks, done)
        return None

    def _acks(self, batch: AckBatch) -> list[Ack]:
        found: list[Ack] = []
        for entry in batch.acks:
            found += self._acks_of(entry)
            if len(found) > ACK_COUNT_MAX:
                raise InvalidRequest(
                    f"batch: expected at most {ACK_COUNT_MAX} acknowledgements, found more",
                    limit=ACK_COUNT_MAX,
                )
        return found

    def _acks_of(self, entry: AckEntry) -> list[Ack]:
        group, topic = entry.consumer_group, entry.topic
        serial = entry.revive_queue_id - SERIAL_SHIFT
        offsets = [entry.start_offset + place for place in entry.places()]
        try:
            receipts = [
                self._inflight.receipt(
                    group, topic, queue_id=entry.queue_id, offset=offset, serial=serial
                )
                for offset in offsets
            ]
        except InvalidReceipt:
            return []
        return [Ack(group, topic, receipt) for receipt in receipts]

    def change(self, request: Request) -> Response:
        header = ChangeInvisibleTimeRequest.decode(request.command.ext)
        changed = self._context.broker.receiving.extend(
            header.consumer_group, header.topic, self._receipt(header), header.invisible_time
        )
        response = ChangeInvisibleTimeResponse(
            pop_time=self._context.clock.now_ms(),
            invisible_time=header.invisible_time,
            revive_qid=Receipt.decode(changed).serial + SERIAL_SHIFT,
        )
        return Response(ext=response.encode())

    def _receipt(self, header: AckRequest | ChangeInvisibleTimeRequest) -> str:
        words = header.extra_info.split(" ")
        place = [str(header.queue_id), str(header.offset)]
        if len(words) != 8 or not words[3].isdecimal() or words[6:] != place:
            raise InvalidRequest(
                f"receipt: expected eight words that end in {' '.join(place)}, "
                f"found {header.extra_info!r:.200}"
            )
        return self._inflight.receipt(
            header.consumer_group,
            header.topic,
            queue_id=header.queue_id,
            offset=header.offset,
            serial=int(words[3][:12]) - SERIAL_SHIFT,
        )


def _asked(request: Request) -> ReceiveRequest:
    header = PopRequest.decode(request.command.ext)
    return ReceiveRequest(
        group=header.consumer_group,
        topic=header.topic,
        queue_id=None if header.queue_id == ANY_QUEUE else header.queue_id,
        count_max=header.max_msg_nums,
        invisible_ms=header.invisible_time,
        wanted=filter_of(header.exp or "*", header.exp_type or "TAG"),
        wait_ms=header.poll_time,
    )
