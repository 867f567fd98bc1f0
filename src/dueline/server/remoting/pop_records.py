"""The records of a POP answer, each with the receipt by which its consumer acknowledges it.

A receipt travels in the property POP_CK of its message. Properties have a bound, and a message may
come near it: then the receipt has no room there. Such a message goes out as it is stored, and its
consumer makes the receipt up from the answer's header, which has the offsets of all queues and one
revive queue, our serial number (see `dueline.server.remoting.pop`). There is one for the whole
answer, so of the messages without room those with the first one's number go out, and the others are
left for the next answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dueline.broker.inflight import Held
from dueline.broker.inflight.receipt import Receipt
from dueline.errors import InvalidRequest
from dueline.message import encode_properties

__all__ = ["SERIAL_SHIFT", "Records"]

SERIAL_SHIFT: Final = 1_000

_RECEIPT: Final = "POP_CK"
_FIRST_TIME: Final = "1ST_POP_TIME"


class Records:
    """Records with their receipts, where clients look for them; see the module."""

    def __init__(self, found: list[Held], broker_name: str, now_ms: int, invisible_ms: int) -> None:
        self.chunks: list[bytes] = []
        self.messages: list[Held] = []
        self.left_out: list[Held] = []
        """Messages without room for a receipt, whose number the header has no place for."""
        self.revive_qid = 0
        self._broker_name = broker_name
        self._now_ms = now_ms
        self._invisible_ms = invisible_ms
        for held in found:
            self._add(held)

    def _add(self, held: Held) -> None:
        number = Receipt.decode(held.receipt).serial + SERIAL_SHIFT
        properties = self._with_receipt(held, number)
        if properties is None and self.revive_qid in (0, number):
            self.revive_qid = number
            properties = _without_receipt(held)
        if properties is None:
            self.left_out.append(held)
            return
        record = held.record
        made = replace(record, reconsume_times=held.retry_count, properties=properties, mark=0)
        self.chunks.append(made.encode())
        self.messages.append(held)

    def _with_receipt(self, held: Held, number: int) -> bytes | None:
        """The properties with the receipt in them; None if they have no room for it."""
        record = held.record
        words = (
            record.queue_offset,
            self._now_ms,
            self._invisible_ms,
            number,
            0,
            self._broker_name,
            record.queue_id,
            record.queue_offset,
        )
        properties = {**held.properties, _RECEIPT: " ".join(map(str, words))}
        properties.setdefault(_FIRST_TIME, str(self._now_ms))
        try:
            return encode_properties(properties)
        except InvalidRequest:
            return None

    # Offsets by queue: "retry queue offset", for all records, in order

    def start_offsets(self) -> str | None:
        return self._info(lambda offsets: str(offsets[0]))

    def offsets(self) -> str | None:
        return self._info(lambda offsets: ",".join(map(str, offsets)))

    def _info(self, text: Callable[[list[int]], str]) -> str | None:
        queues: dict[int, list[int]] = {}
        for held in self.messages:
            queues.setdefault(held.record.queue_id, []).append(held.record.queue_offset)
        return ";".join(f"0 {each} {text(sorted(queues[each]))}" for each in queues) or None


def _without_receipt(held: Held) -> bytes:
    """The properties as they are stored, but for an old receipt that a sender has copied."""
    kept = {name: value for name, value in held.properties.items() if name != _RECEIPT}
    try:
        return encode_properties(kept)
    except InvalidRequest:  # bytes of another broker's, which we would not have taken
        return held.record.properties
