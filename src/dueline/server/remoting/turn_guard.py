"""Which sends of a turn are signed by users who may send them.

The compiled reader has put together what was signed (`dueline.wire.turn`); here rights are asked
for, once for all sends that are alike, and signatures are checked, of many sends at once
(`dueline.wire.turn_signatures`); a few long ones one after the other. A send that does not
pass, for whatever reason, is not refused here: it is read once more by the interpreted codec, and
`dueline.server.remoting.guard` says what is wrong and writes it to the audit trail. So this may be
stricter than the guard, and must never be more lenient.

For the thread of one event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline import compiled
from dueline.broker.access import Access, Action, Caller, topic
from dueline.broker.access.secrets import is_same, pads_of, signature_of
from dueline.message_rows import Head
from dueline.server.remoting.channel import Channel
from dueline.server.remoting.guard import HEAVY_SIZE_BYTES, METHOD
from dueline.server.remoting.standing import Standing
from dueline.wire.signature import read_signature
from dueline.wire.turn import (
    FRAME_BODY_START,
    FRAME_END,
    FRAME_SIGNATURE_END,
    FRAME_SIGNATURE_START,
    FRAME_SIGNED_END,
    FRAME_SIGNED_START,
    Turn,
)
from dueline.wire.turn_signatures import (
    IS_SIGNED,
    NOT_ASKED,
    SIGNATURE_KERNELS,
    KeyTable,
    cases_of,
    checked,
)

__all__ = ["TurnGuard"]

Flags = npt.NDArray[np.bool_]

STANDINGS_MAX: Final = 1_000
NAME_SIZE_MAX: Final = 256
"""Users, sources and topics that are remembered, and the characters of a user's name."""
_GROUPS_PREFIX: Final = "%"
"""Of retry topics and dead letters, which take rights on their group: the guard knows which."""


class TurnGuard:
    """Asks `Access` for the sends of turns."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._standings: dict[tuple[str, str, str], Standing] = {}
        self._keys_of_last: list[Sequence[bytes]] = []
        self._table = KeyTable.of([])

    @property
    def state(self) -> object:
        """Another one after each change of users and policies."""
        return self._access.state

    def admitted(
        self, turn: Turn, channels: Sequence[Channel], heads: Sequence[Head | None]
    ) -> Flags:
        """By frame: is it signed by a user who may send what it sends?"""
        kernels = compiled.ready(SIGNATURE_KERNELS)
        if kernels is None or not heads:
            return np.zeros(len(turn.frames), dtype=np.bool_)
        sources, source_of = _numbered([channel.source for channel in channels])
        topics, topic_of = _numbered([_topic_of(head) for head in heads])
        cases, case_of = cases_of(kernels, turn, source_of, topic_of, HEAVY_SIZE_BYTES)
        if not cases:
            return np.zeros(len(turn.frames), dtype=np.bool_)
        keys = [self._keys(case.user, sources[case.source], topics[case.topic]) for case in cases]
        found, left_count = checked(kernels, turn, case_of, self._key_table(keys))
        flags: Flags = found == IS_SIGNED
        if left_count:
            for number in np.flatnonzero(found == NOT_ASKED).tolist():
                frame = turn.frames[number].tolist()
                flags[number] = _is_signed(turn, frame, keys[case_of[number]])
        return flags

    def _key_table(self, keys: list[Sequence[bytes]]) -> KeyTable:
        """Most turns have the keys of the one before."""
        if keys != self._keys_of_last:
            self._table = KeyTable.of([[b"".join(pads_of(key)) for key in those] for those in keys])
            self._keys_of_last = keys
        return self._table

    def _keys(self, user: str, source: str, topic_name: str) -> Sequence[bytes]:
        """What a user's sends may be signed with; nothing: it may not send there from there."""
        if not topic_name:
            return ()
        standing = self._standings.get((user, source, topic_name))
        if standing is None:
            needs = Action.PUB, (topic(topic_name),)
            standing = Standing(self._access, Caller(user, source, METHOD), needs)
            if len(user) <= NAME_SIZE_MAX:
                if len(self._standings) >= STANDINGS_MAX:
                    self._standings.clear()
                self._standings[user, source, topic_name] = standing
        return standing.keys()


def _topic_of(head: Head | None) -> str:
    """Where sends with this head go; empty: nobody may here."""
    return "" if head is None or head.topic.startswith(_GROUPS_PREFIX) else head.topic


def _numbered(texts: Sequence[str]) -> tuple[list[str], list[int]]:
    """Each text once, and which of these each one is."""
    if texts.count(texts[0]) == len(texts):  # as most often
        return [texts[0]], [0] * len(texts)
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(text, len(numbers)) for text in texts]
    return list(numbers), found


def _is_signed(turn: Turn, frame: Sequence[int], keys: Sequence[bytes]) -> bool:
    start, end = frame[FRAME_SIGNATURE_START], frame[FRAME_SIGNATURE_END]
    digest = read_signature(turn.data[start:end].tobytes())
    text = turn.texts[frame[FRAME_SIGNED_START] : frame[FRAME_SIGNED_END]].data
    body = turn.data[frame[FRAME_BODY_START] : frame[FRAME_END]].data
    return any(is_same(signature_of(key, text, body), digest) for key in keys)
