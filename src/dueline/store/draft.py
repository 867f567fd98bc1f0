"""A single message on its way into a log: all that can be done before the lock is taken.

`prepare` validates, decides where the message goes and encodes its variable parts. Under the lock
only `Draft.encode` is left: one `struct.pack` and one join.

    ordinary         commit log, its own topic and queue
    half message     commit log, the half topic (TRAN_MSG; not delayed until it is committed)
    level            delay log, SCHEDULE_TOPIC_XXXX, queue level - 1; due = store time + delay
    arbitrary time   delay log, rmq_sys_wheel_timer, queue 0, TIMER_OUT_MS = due

Delayed and half messages keep their real topic and queue in REAL_TOPIC and REAL_QID.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dueline.errors import InvalidRequest
from dueline.message import (
    HALF_TOPIC,
    LEVEL_TOPIC,
    SYS_BORN_HOST_V6,
    SYS_COMMIT,
    SYS_STORE_HOST_V6,
    SYS_TRANSACTION_MASK,
    TIMER_TOPIC,
    Message,
    UniqueIds,
    encode_properties,
    key_words,
    tags_code,
)
from dueline.schedule import DelayLevels, Due, due_of
from dueline.store.properties import key_hash
from dueline.store.record import (
    HEADER_SIZE,
    MAGIC,
    MARK_CHECK_SHIFT,
    MARK_PRESENT,
    body_crc,
    fold,
    host_words,
    tail_check,
)

__all__ = ["Draft", "Rules", "prepare"]

_FIRST: Final = struct.Struct(">IIIiiqqiq")
_MIDDLE: Final = struct.Struct(">q")
_LAST: Final = struct.Struct(">iQI")
_TIMER_NAMES: Final = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
_MASK32: Final = 0xFFFFFFFF
_INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What `prepare` needs to know of the store's configuration."""

    levels: DelayLevels
    delay_max_ms: int
    body_size_max: int


@dataclass(slots=True, kw_only=True)  # not frozen: it is made for every single put, and private
class Draft:
    """A validated message with its variable parts encoded; topic and queue are the real ones."""

    message: Message
    topic: str
    queue_id: int
    log_topic: str
    log_queue_id: int
    due: Due | None
    sys_flag: int
    unique_id: str
    tags_code: int
    key_hashes: tuple[int, ...]
    crc: int
    tail: bytes

    def size_bytes(self, store_host: bytes) -> int:
        message = self.message
        fixed = HEADER_SIZE - 16 + len(message.born_host) + len(store_host)
        return fixed + len(message.body) + len(self.tail)

    def encode(
        self, *, position: int, queue_offset: int, store_ms: int, store_host: bytes, mark: int
    ) -> bytes:
        """The complete record; `mark` has flags and number, its check is made here."""
        message = self.message
        size = self.size_bytes(store_host)
        flags = self.sys_flag | (SYS_STORE_HOST_V6 if len(store_host) > 8 else 0)
        mark |= MARK_PRESENT
        words = (
            size
            ^ MAGIC
            ^ self.crc
            ^ (self.log_queue_id & _MASK32)
            ^ (message.flag & _MASK32)
            ^ (flags & _MASK32)
            ^ message.born_ms
            ^ host_words(message.born_host)
            ^ store_ms
            ^ host_words(store_host)
            ^ (message.reconsume_times & _MASK32)
            ^ mark
            ^ len(message.body)
        )
        mark |= (fold(words) ^ tail_check(self.tail)) << MARK_CHECK_SHIFT
        first = _FIRST.pack(
            size,
            MAGIC,
            self.crc,
            self.log_queue_id,
            message.flag,
            queue_offset,
            position,
            flags,
            message.born_ms,
        )
        return b"".join(
            (
                first,
                message.born_host,
                _MIDDLE.pack(store_ms),
                store_host,
                _LAST.pack(message.reconsume_times, mark, len(message.body)),
                message.body,
                self.tail,
            )
        )


def prepare(
    message: Message, *, now_ms: int, rules: Rules, ids: UniqueIds, due: Due | None = None
) -> Draft:
    """Validate a message and encode what does not depend on its place in a log.

    Args:
        due: when it is due, whatever its properties say; None: as they say.

    Raises:
        InvalidRequest, LimitExceeded: the message cannot be stored; nothing was changed.
    """
    message.check(body_size_max=rules.body_size_max)
    _check_numbers(message)
    properties = dict(message.properties)
    unique_id = properties.get("UNIQ_KEY")
    if not unique_id:
        unique_id = properties["UNIQ_KEY"] = ids.next()
    flags = message.sys_flag & ~(SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6)
    if len(message.born_host) > 8:
        flags |= SYS_BORN_HOST_V6
    log_topic, log_queue_id = message.topic, message.queue_id
    if due is not None:
        log_topic, log_queue_id = _delayed(properties, due)
    elif _is_half(message):
        log_topic, log_queue_id = HALF_TOPIC, 0
        flags &= ~SYS_TRANSACTION_MASK
    elif message.sys_flag & SYS_TRANSACTION_MASK in (0, SYS_COMMIT):
        due = due_of(
            properties, now_ms=now_ms, levels=rules.levels, delay_max_ms=rules.delay_max_ms
        )
        if due is not None:
            log_topic, log_queue_id = _delayed(properties, due)
    if log_topic != message.topic:
        properties["REAL_TOPIC"] = message.topic
        properties["REAL_QID"] = str(message.queue_id)
    text = encode_properties(properties)
    tail = b"".join((sized_topic(log_topic), len(text).to_bytes(2, "big"), text))
    keys = properties.get("KEYS")
    names = (unique_id, *key_words(keys)) if keys else (unique_id,)
    return Draft(
        message=message,
        topic=message.topic,
        queue_id=message.queue_id,
        log_topic=log_topic,
        log_queue_id=log_queue_id,
        due=due,
        sys_flag=flags,
        unique_id=unique_id,
        tags_code=tags_code(properties),
        key_hashes=tuple([key_hash(name) for name in names]),
        crc=body_crc(message.body),
        tail=tail,
    )


@lru_cache(maxsize=65_536)
def sized_topic(topic: str) -> bytes:
    """A checked topic as a record keeps it, with its size in front."""
    data = topic.encode("ascii")
    return bytes((len(data),)) + data


def _is_half(message: Message) -> bool:
    """RocketMQ goes by the property; a retried message that once was one is an ordinary one."""
    if message.properties.get("TRAN_MSG") != "true":
        return False
    if message.sys_flag & SYS_TRANSACTION_MASK == SYS_COMMIT:
        return False
    return not (message.reconsume_times > 0 and message.properties.get("DELAY", "0") != "0")


def _delayed(properties: dict[str, str], due: Due) -> tuple[str, int]:
    """The delay topic and queue; `properties` then say what was really promised."""
    if due.level:
        properties["DELAY"] = str(due.level)
        for name in (*_TIMER_NAMES, "TIMER_OUT_MS"):
            properties.pop(name, None)
        return LEVEL_TOPIC, due.level - 1
    properties["TIMER_OUT_MS"] = str(due.due_ms)
    return TIMER_TOPIC, 0


def _check_numbers(message: Message) -> None:
    if len(message.born_host) not in (8, 20):
        raise InvalidRequest(
            f"born host: expected 8 or 20 bytes, found {len(message.born_host)}", field="born_host"
        )
    if not 0 <= message.born_ms < 1 << 62:
        raise InvalidRequest(
            f"born time: expected milliseconds since 1970, found {message.born_ms}", field="born_ms"
        )
    if (
        -_INT32_MAX <= message.flag <= _INT32_MAX
        and 0 <= message.sys_flag <= _INT32_MAX
        and 0 <= message.reconsume_times <= _INT32_MAX
    ):
        return
    raise InvalidRequest(
        "flag, sysFlag and reconsumeTimes: expected 31 bits each, found "
        f"{message.flag}, {message.sys_flag} and {message.reconsume_times}",
        field="flag",
    )
