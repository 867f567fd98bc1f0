"""Where a delayed message is, in the words that people read.

pending         waits in the delay log
carried over    in the commit log, not visible yet; can still be cancelled
moved           to another time, under which it has an entry of its own
delivered, cancelled, dropped (by the transform), expired, done long ago (one of these)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dueline.store import PendingMessage
from dueline.store.states import CANCELLED, FORGOTTEN, NAMES

__all__ = ["states_of"]

_NAMES: Final = {**NAMES, FORGOTTEN: "done long ago"}


def states_of(found: Sequence[PendingMessage]) -> list[str]:
    """The state of each message that was found under one name."""
    newest: dict[tuple[str, str], int] = {}
    for each in found:
        name = (each.topic, each.unique_id)
        newest[name] = max(each.seq, newest.get(name, each.seq))
    return [
        _state(each, is_newest=newest[each.topic, each.unique_id] == each.seq) for each in found
    ]


def _state(message: PendingMessage, *, is_newest: bool) -> str:
    if message.state == CANCELLED and not is_newest:
        return "moved"  # a reschedule cancels an entry and makes another
    return "carried over" if message.is_at_gate else _NAMES[message.state]
