"""What may come in: one table for every door.

    TAKE      taken as it was sent
    REFUSE    refused with a reason; nothing is stored and no topic is made
    IGNORE    taken, but what the case is about has no effect
    AT_ONCE   taken, and due at once

A door that has its own answer stands beside the case, with the reason.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tests.contract.doors import HOUR_MS, Attempt

from dueline.broker.topics import TopicConfig

MIB = 1 << 20
YEAR_MS = 365 * 24 * HOUR_MS


class Decision(enum.Enum):
    TAKE = "take"
    REFUSE = "refuse"
    IGNORE = "ignore"
    AT_ONCE = "at once"


TAKE, REFUSE, IGNORE, AT_ONCE = Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`{door}` in the topic's name stands for something that is new with every door.

    `deliver_in_ms` becomes a time of delivery when the attempt is made; with `config`, an operator
    has made the topic so before.
    """

    attempt: Attempt
    decision: Decision
    but: dict[str, Decision] = field(default_factory=dict)
    deliver_in_ms: int | None = None
    due_in_ms: int = HOUR_MS
    config: TopicConfig | None = None

    def expected(self, door: str) -> Decision:
        return self.but.get(door, self.decision)


def _topic(name: str, decision: Decision, **but: Decision) -> Case:
    return Case(attempt=Attempt(topic=name), decision=decision, but=but)


def _property(name: str, value: str, decision: Decision, but: dict[str, Decision]) -> Case:
    attempt = Attempt(topic=f"property-{name.replace('1ST', 'first')}-{{door}}",
                      properties={name: value})  # fmt: skip
    return Case(attempt=attempt, decision=decision, but=but)


def _time(topic: str, deliver_in_ms: int, decision: Decision, **but: Decision) -> Case:
    return Case(
        attempt=Attempt(topic=topic, delay_ms=None),
        deliver_in_ms=deliver_in_ms,
        due_in_ms=deliver_in_ms,
        decision=decision,
        but=but,
    )


def _delay(topic: str, delay_ms: int, decision: Decision, **but: Decision) -> Case:
    attempt = Attempt(topic=topic, delay_ms=delay_ms)
    return Case(attempt=attempt, due_in_ms=delay_ms, decision=decision, but=but)


def _level(topic: str, level: int, due_in_ms: int, decision: Decision, **but: Decision) -> Case:
    return Case(
        attempt=Attempt(topic=topic, delay_ms=None, delay_level=level),
        due_in_ms=due_in_ms,
        decision=decision,
        but=but,
    )


def _made(topic: str, decision: Decision, *, queue_count: int = 4, perm: int = 6) -> Case:
    config = TopicConfig(topic_name="", read_queue_nums=4, write_queue_nums=queue_count, perm=perm)
    return Case(attempt=Attempt(topic=topic), decision=decision, config=config)


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
_TOLD = {"DataFrame": REFUSE, "python client": REFUSE}
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
    "a delay of eleven years": _delay("far-{door}", 11 * YEAR_MS, REFUSE),
    "a delay of nine years": _delay("near-{door}", 9 * YEAR_MS, TAKE),
    "a delay of a minute": _delay("minute-{door}", 60_000, TAKE),
    "no delay at all": _delay("none-{door}", 0, AT_ONCE),
    # People who write a negative delay are told; RocketMQ's clients mean "now" by it.
    "a negative delay": _delay("negative-{door}", -5_000, AT_ONCE, **_TOLD),
    "a time in an hour": _time("time-{door}", HOUR_MS, TAKE),
    "a time in eleven years": _time("time-far-{door}", 11 * YEAR_MS, REFUSE),
    "a time a moment ago": _time("time-past-{door}", -1_000, AT_ONCE),
    # The same with times that are long gone.
    "a time an hour ago": _time("time-gone-{door}", -HOUR_MS, AT_ONCE, **_TOLD),
    "the first level": _level("level-1-{door}", 1, 1_000, TAKE),
    "level 5": _level("level-5-{door}", 5, 60_000, TAKE),
    "the last level": _level("level-18-{door}", 18, 2 * HOUR_MS, TAKE),
    "a level beyond the last": _level("level-99-{door}", 99, 2 * HOUR_MS, TAKE),
    "level 0": _level("level-0-{door}", 0, 0, AT_ONCE),
    "a negative level": _level("level-less-{door}", -1, 0, AT_ONCE, **_TOLD),
    "a topic that an operator made": _made("made-{door}", TAKE),
    "a topic that may only be read": _made("read-only-{door}", REFUSE, perm=4),
    "a topic that is closed": _made("closed-{door}", REFUSE, perm=0),
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
