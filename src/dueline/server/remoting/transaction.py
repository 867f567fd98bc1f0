"""Transactions: what producers decide, and how questions get to those that have not."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial

from dueline.broker.access import Action, topic
from dueline.broker.asking import Ask, Question
from dueline.broker.transactions import Half
from dueline.message import SYS_COMMIT, SYS_ROLLBACK
from dueline.server.remoting.answers import OK, Response
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub, blocking
from dueline.wire.codes import RequestCode
from dueline.wire.headers import CheckTransactionRequest, EndTransactionRequest

__all__ = ["TransactionEnds"]

log = logging.getLogger(__name__)


class TransactionEnds:
    """Handler of 37; sends 39."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._hub = hub
        context.broker.asking.add_door(self.producers)

    def table(self) -> Mapping[int, Handler]:
        return {RequestCode.END_TRANSACTION: blocking(self._hub, self.end)}

    def end(self, request: Request) -> Response:
        """Runs in a thread: new half messages may have to be read first."""
        header = EndTransactionRequest.decode(request.command.ext)
        if header.commit_or_rollback not in (SYS_COMMIT, SYS_ROLLBACK):
            return OK  # the producer does not know yet; it will be asked again
        self._context.broker.transactions.end(
            header.commit_log_offset,
            commit=header.commit_or_rollback == SYS_COMMIT,
            group=header.producer_group,
            queue_offset=header.tran_state_table_offset,
            done=_ended,
            admit=lambda name: request.check(Action.PUB, topic(name)),
        )
        return OK

    # Asking

    def producers(self, half: Half) -> Iterable[Ask]:
        """The clients of the message's producer group; any thread may call."""
        for member in self._context.groups.producers(half.group):
            if isinstance(member.channel, Channel) and member.channel.is_open:
                yield partial(self._ask, member.channel)

    def _ask(self, channel: Channel, question: Question) -> None:
        self._context.outbox.post(partial(_send, channel, question))


def _ended(error: BaseException | None) -> None:
    if error is not None:
        # The request is oneway: nobody waits. The producer will be asked again.
        log.warning("a transaction was not ended and will be asked for: %s", error)


def _send(channel: Channel, question: Question) -> None:
    header = CheckTransactionRequest(
        tran_state_table_offset=question.record.queue_offset,
        commit_log_offset=question.record.position,
        msg_id=question.unique_id,
        transaction_id=question.unique_id,
        offset_msg_id=question.offset_id,
        topic=question.topic,
    )
    channel.notify(RequestCode.CHECK_TRANSACTION_STATE, header.encode(), question.record.encode())
