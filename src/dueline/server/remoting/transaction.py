"""Transactions: what producers decide, and asking those that have not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from dueline.broker.transactions import Half
from dueline.errors import BrokerError, NotFound
from dueline.message import SYS_COMMIT, SYS_ROLLBACK, decode_properties
from dueline.server.remoting.answers import OK, Answer, Refused
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub, blocking
from dueline.wire.codes import RequestCode, ResponseCode
from dueline.wire.headers import CheckTransactionRequest, EndTransactionRequest

__all__ = ["TransactionEnds"]

TURN_S: Final = 1.0

log = logging.getLogger(__name__)


class TransactionEnds:
    """Handler of 37; sends 39."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._transactions = context.broker.transactions
        self._hub = hub
        self._turn = 0

    def table(self) -> Mapping[int, Handler]:
        return {RequestCode.END_TRANSACTION: blocking(self._hub, self.end)}

    def end(self, request: Request) -> Answer:
        """Runs in a thread: new half messages may have to be read first."""
        header = EndTransactionRequest.decode(request.command.ext)
        if header.commit_or_rollback not in (SYS_COMMIT, SYS_ROLLBACK):
            return OK  # the producer does not know yet; it will be asked again
        record = self._transactions.record(header.commit_log_offset)
        if record.queue_offset != header.tran_state_table_offset:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"transaction: expected queue offset {record.queue_offset}, "
                f"found {header.tran_state_table_offset}",
            )

        def done(error: BaseException | None) -> None:
            if error is not None:
                # The request is oneway: nobody waits. The producer will be asked again.
                log.warning("a transaction was not ended and will be asked for: %s", error)

        self._transactions.end(
            header.commit_log_offset,
            commit=header.commit_or_rollback == SYS_COMMIT,
            group=header.producer_group,
            done=done,
        )
        return OK

    # Asking

    async def ask(self) -> None:
        """Ask for undecided messages, each second, until cancelled."""
        while True:
            await asyncio.sleep(TURN_S)
            try:
                now_ms = self._context.clock.now_ms()
                due = await asyncio.to_thread(self._transactions.due, now_ms)
                for half in due:
                    self._ask(half, now_ms)
            except BrokerError as error:
                log.warning("undecided transactions were not asked for: %s", error)
            except Exception:
                # The boundary of a task that must go on: the next turn may fare better.
                log.exception("undecided transactions were not asked for")

    def _ask(self, half: Half, now_ms: int) -> None:
        channels = [
            member.channel
            for member in self._context.groups.producers(half.group)
            if isinstance(member.channel, Channel) and member.channel.is_open
        ]
        if self._transactions.asked(half, now_ms, is_heard=bool(channels)) or not channels:
            return
        self._turn += 1
        channel = channels[self._turn % len(channels)]
        try:
            question = self._transactions.question(half)
        except NotFound:
            return
        unique_id = decode_properties(question.properties).get("UNIQ_KEY", "")
        header = CheckTransactionRequest(
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.position,
            msg_id=unique_id,
            transaction_id=unique_id,
            offset_msg_id=self._transactions.offset_id(half),
            topic=half.topic,
        )
        channel.notify(RequestCode.CHECK_TRANSACTION_STATE, header.encode(), question.encode())
