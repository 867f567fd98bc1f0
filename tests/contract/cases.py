"""What may come in: one table for every door.

    TAKE      taken as it was sent
    REFUSE    refused with a reason; nothing is stored and no topic is made
    IGNORE    taken, but what the case is about has no effect

A door that has its own answer stands beside the case, with the reason.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tests.contract.doors import HOUR_MS, Attempt

MIB = 1 << 20
YEAR_MS = 365 * 24 * HOUR_MS


class Decision(enum.Enum):
    TAKE = "take"
    REFUSE = "refuse"
    IGNORE = "ignore"


TAKE, REFUSE, IGNORE = Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`{door}` in the topic's name stands for something that is new with every door."""

    attempt: Attempt
    decision: Decision
    but: dict[str, Decision] = field(default_factory=dict)

    def expected(self, door: str) -> Decision:
        return self.but.get(door, self.decision)


def _topic(name: str, decision: Decision, **but: Decision) -> Case:
    return Case(attempt=Attempt(topic=name), decision=decision, but=but)


def _property(name: str, value: str, decision: Decision, but: dict[str, Decision]) -> Case:
    attempt = Attempt(topic=f"property-{name.replace('1ST', 'first')}-{{door}}",
                      properties={name: value})  # fmt: skip
    return Case(attempt=attempt, decision=decision, but=but)


_SYSTEM = [
    "SCHEDULE_TOPIC_XXXX",
    "rmq_sys_wheel_timer",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "DUELINE_SYS_CONTROL",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
]
_NOT_NAMES = {
    "empty": "",
    "a path": "../../evil",
    "a space": "a b",
    "a dot": "a.b",
    "not ASCII": "größe",
    "a zero byte": "a\x00b",
    "a line's end": "ab\n",
    "a separator": "a\x02REAL_TOPIC\x01b",
    "too long": "x" * 128,
}
# 4.x clients send messages again with all they had when they were received; the rows of a bulk job
# leave out what columns say.
_AGAIN = {"4.x": IGNORE, "flight rows": IGNORE}

CASES: dict[str, Case] = {
    "an ordinary topic": _topic("ordinary-{door}", TAKE),
    "the longest name": _topic("{door}" + "x" * 100, TAKE),
    **{f"the topic {name}": _topic(name, REFUSE) for name in _SYSTEM},
    **{f"a name with {what}": _topic(name, REFUSE) for what, name in _NOT_NAMES.items()},
    # Retries and dead letters are messages of the sink like any other.
    "a retry topic of nobody": _topic("%RETRY%nobody-{door}", REFUSE, sink=TAKE),
    "a dead-letter topic": _topic("%DLQ%nobody-{door}", REFUSE, **{"4.x": TAKE, "sink": TAKE}),
    "a body that is too large": Case(
        attempt=Attempt(topic="large-{door}", body=bytes(4 * MIB + 1)), decision=REFUSE
    ),
    "the largest body": Case(
        attempt=Attempt(topic="largest-{door}", body=bytes(MIB // 2)), decision=TAKE
    ),
    "a delay of eleven years": Case(
        attempt=Attempt(topic="far-{door}", delay_ms=11 * YEAR_MS), decision=REFUSE
    ),
    "a delay of nine years": Case(
        attempt=Attempt(topic="near-{door}", delay_ms=9 * YEAR_MS), decision=TAKE
    ),
    "the topic's last queue": Case(
        attempt=Attempt(topic="queue-last-{door}", queue_id=3), decision=TAKE
    ),
    "a queue that the topic does not have": Case(
        attempt=Attempt(topic="queue-none-{door}", queue_id=4),
        decision=REFUSE,
        but={"sink": TAKE},  # it may have had more when the message was accepted
    ),
    "queue 65535": Case(
        attempt=Attempt(topic="queue-far-{door}", queue_id=65_535), decision=REFUSE
    ),
    "a property of one's own": _property("color", "red", TAKE, {}),
    "too many bytes of properties": Case(
        attempt=Attempt(topic="properties-{door}", properties={"a": "x" * 33_000}),
        decision=REFUSE,
    ),
    **{
        f"the property {name}": _property(name, value, REFUSE, _AGAIN)
        for name, value in {
            "REAL_TOPIC": "../../evil",
            "REAL_QID": "99999999999999999999",
            "TIMER_OUT_MS": "1",
            "TIMER_ROLL_TIMES": "7",
            "POP_CK": "0 0 0 0 0 0",
            "1ST_POP_TIME": "1",
        }.items()
    },
    "the property TIMER_DEL_UNIQKEY": _property(
        "TIMER_DEL_UNIQKEY", "someone", REFUSE, {"flight rows": IGNORE}
    ),
}
