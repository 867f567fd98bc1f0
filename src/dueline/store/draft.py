"""A single message on its way into a log: all that can be done before the lock is taken.

`prepare` validates, decides where the message goes and encodes its variable parts. Under the lock
only `encode_all` is left: one `struct.pack` for each record, and one join. Both run once for every
message that comes by itself, so they are written for speed: what is usual is tested with one
condition, and functions that say what is wrong are called when something is.

    ordinary         commit log, its own topic and queue
    half message     commit log, the half topic (TRAN_MSG; not delayed until it is committed)
    level            delay log, SCHEDULE_TOPIC_XXXX, queue level - 1; due = store time + delay
    arbitrary time   delay log, rmq_sys_wheel_timer, queue 0, TIMER_OUT_MS = due

Delayed and half messages keep their real topic and queue in REAL_TOPIC and REAL_QID. Delayed ones
are packed (`dueline.store.packed`) where that is possible: `encode_delayed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Final

from dueline.errors import InvalidRequest
from dueline.message import (
    HALF_TOPIC,
    LEVEL_TOPIC,
    QUEUE_ID_MAX,
    SYS_BORN_HOST_V6,
    SYS_COMMIT,
    SYS_STORE_HOST_V6,
    SYS_TRANSACTION_MASK,
    TIMER_TOPIC,
    Message,
    UniqueIds,
    check_topic,
    encode_properties,
    key_words,
    tags_code,
)
from dueline.schedule import (
    DELAY_NAMES,
    DUE_NAME,
    LEVEL_NAME,
    REAL_QUEUE_NAME,
    REAL_TOPIC_NAME,
    TIMER_NAMES,
    DelayLevels,
    Due,
    due_of,
)
from dueline.store import packed
from dueline.store.layout import HEADER_SIZE, HOST_SIZE, header
from dueline.store.packed import Fields, Packing
from dueline.store.properties import key_hash
from dueline.store.record import (
    MAGIC,
    MARK_CHECK_SHIFT,
    MARK_GROUP,
    MARK_NUMBER_MASK,
    MARK_PRESENT,
    body_crc,
    fold,
    host_words,
    tail_check,
)

__all__ = ["SPECIAL_NAMES", "Draft", "Rules", "encode_all", "encode_delayed", "prepare"]

SPECIAL_NAMES: Final = DELAY_NAMES | {"TRAN_MSG"}
_MASK32: Final = 0xFFFFFFFF
_INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What `prepare` needs to know of the store's configuration."""

    levels: DelayLevels
    delay_max_ms: int
    body_size_max: int


# Not frozen, and with plain arguments: one is made for every single put.
@dataclass(slots=True)
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
    size_without_host: int
    """Of the record, but for the store's host."""
    packing: Packing | None

    def size_bytes(self, store_host: bytes) -> int:
        """Of the record, and about that of its copy in the commit log."""
        return self.size_without_host + len(store_host)

    def delayed_size_bytes(self, store_host: bytes) -> int:
        """Of the record in the delay log."""
        message = self.message
        if self.packing is None or len(store_host) != HOST_SIZE:
            return self.size_bytes(store_host)
        is_rare = bool(message.flag or self.sys_flag or message.reconsume_times)
        sizes = len(message.body), len(self.topic)
        return packed.size_of(
            self.packing, is_rare=is_rare, body_size=sizes[0], topic_size=sizes[1]
        )

    @property
    def is_indexed(self) -> bool:
        """Do consumers get to see it? Not while its transaction is open, nor if it was undone."""
        return self.sys_flag & SYS_TRANSACTION_MASK in (0, SYS_COMMIT)


def encode_all(  # noqa: PLR0913 - what a record's place in a log decides
    drafts: Sequence[Draft],
    *,
    positions: Iterable[int],
    queue_offsets: Iterable[int],
    marks: Iterable[int],
    store_ms: int,
    store_host: bytes,
) -> bytes:
    """Complete records, one after the other; marks have flags and number, their check is made here.

    There may be more positions than drafts.
    """
    host_size = len(store_host)
    host_flag = SYS_STORE_HOST_V6 if host_size > 8 else 0
    same = MAGIC ^ store_ms ^ host_words(store_host) ^ MARK_PRESENT
    parts: list[bytes] = []
    rows = zip(drafts, positions, queue_offsets, marks, strict=False)
    for draft, position, queue_offset, number in rows:
        message, tail, crc, queue_id = draft.message, draft.tail, draft.crc, draft.log_queue_id
        body, born_host, born_ms, flag = (
            message.body,
            message.born_host,
            message.born_ms,
            message.flag,
        )
        size = draft.size_without_host + host_size
        sys_flag = draft.sys_flag | host_flag
        times = message.reconsume_times
        words = (
            same
            ^ size
            ^ crc
            ^ queue_id
            ^ (flag & _MASK32)
            ^ sys_flag
            ^ born_ms
            ^ host_words(born_host)
            ^ times
            ^ number
            ^ len(body)
        )
        mark = number | MARK_PRESENT | (fold(words) ^ tail_check(tail)) << MARK_CHECK_SHIFT
        head = header(len(born_host), host_size).pack(
            *(size, MAGIC, crc, queue_id, flag, queue_offset, position, sys_flag, born_ms),
            *(born_host, store_ms, store_host, times, mark, len(body)),
        )
        parts += (head, body, tail)
    return b"".join(parts)


def encode_delayed(  # noqa: PLR0913 - what a record's place in a log decides
    drafts: Sequence[Draft],
    *,
    positions: Iterable[int],
    queue_offsets: Iterable[int],
    first_mark: int,
    store_ms: int,
    store_host: bytes,
) -> bytes:
    """Complete records of delayed messages; the mark is the first one's, whose number counts on.

    There may be more positions than drafts.
    """
    rows = zip(drafts, positions, queue_offsets, count(first_mark), strict=False)
    parts = []
    for draft, position, queue_offset, mark in rows:
        message, due, packing = draft.message, draft.due, draft.packing
        if packing is None or due is None or len(store_host) != HOST_SIZE:
            record = encode_all(
                [draft],
                positions=[position],
                queue_offsets=[queue_offset],
                marks=[mark],
                store_ms=store_ms,
                store_host=store_host,
            )
            parts.append(record)
            continue
        fields = Fields(
            is_timer=not due.level,
            is_member=bool(mark & MARK_GROUP),
            queue_id=draft.queue_id,
            number=mark & MARK_NUMBER_MASK,
            store_ms=store_ms,
            born_ms=message.born_ms,
            born_host=message.born_host,
            store_host=store_host,
            when=draft.log_queue_id if due.level else due.due_ms,
            queue_offset=queue_offset,
            flag=message.flag,
            sys_flag=draft.sys_flag,
            times=message.reconsume_times,
            body=message.body,
            topic=draft.topic.encode("ascii"),
            text=b"",
        )
        parts.append(packed.encode(fields, packing, position))
    return b"".join(parts)


def prepare(
    message: Message, *, now_ms: int, rules: Rules, ids: UniqueIds, due: Due | None = None
) -> Draft:
    """Validate a message and encode what does not depend on its place in a log.

    Args:
        due: when it is due, whatever its properties say; None: as they say.

    Raises:
        InvalidRequest, LimitExceeded: the message cannot be stored; nothing was changed.
    """
    body, topic, queue_id = message.body, message.topic, message.queue_id
    if not _is_plain(message, rules):
        message.check(body_size_max=rules.body_size_max)
        _check_numbers(message)
    sized = sized_topic(topic)
    properties = message.properties
    unique_id = properties.get("UNIQ_KEY")
    if not unique_id:
        unique_id = ids.next()
        properties = {**properties, "UNIQ_KEY": unique_id}
    flags = message.sys_flag & ~(SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6)
    if len(message.born_host) > 8:
        flags |= SYS_BORN_HOST_V6
    log_topic, log_queue_id = topic, queue_id
    if due is not None or not SPECIAL_NAMES.isdisjoint(properties):
        properties = dict(properties)
        if due is None and _is_half(message):
            log_topic, log_queue_id = HALF_TOPIC, 0
            flags &= ~SYS_TRANSACTION_MASK
        elif due is None and message.sys_flag & SYS_TRANSACTION_MASK in (0, SYS_COMMIT):
            due = due_of(
                properties, now_ms=now_ms, levels=rules.levels, delay_max_ms=rules.delay_max_ms
            )
        if due is not None:
            log_topic, log_queue_id = _delayed(properties, due)
        if due is not None or log_topic is HALF_TOPIC:
            # Also for a message to that very topic: what it says of a real one is not believed.
            properties[REAL_TOPIC_NAME] = topic
            properties[REAL_QUEUE_NAME] = str(queue_id)
            sized = sized_topic(log_topic)
    text = encode_properties(properties)
    tail = b"".join((sized, len(text).to_bytes(2, "big"), text))
    keys = properties.get("KEYS")
    names = (unique_id, *key_words(keys)) if keys else (unique_id,)
    return Draft(
        message,
        topic,
        queue_id,
        log_topic,
        log_queue_id,
        due,
        flags,
        unique_id,
        tags_code(properties),
        tuple([key_hash(name) for name in names]),
        body_crc(body),
        tail,
        HEADER_SIZE - 2 * HOST_SIZE + len(message.born_host) + len(body) + len(tail),
        None if due is None else _packing(message, due, text),
    )


def _packing(message: Message, due: Due, text: bytes) -> Packing | None:
    """How a delayed message's properties are packed, if it can be packed."""
    due_ms = None if due.level else due.due_ms
    ending = packed.ending(message.topic.encode("ascii"), message.queue_id, due_ms)
    is_packable = text.endswith(ending) and packed.is_packable(
        born_ms=message.born_ms,
        born_host=message.born_host,
        body_size=len(message.body),
        due_ms=due_ms or 0,
    )
    return packed.packing_of(text[: -len(ending)], due_ms) if is_packable else None


def _is_plain(message: Message, rules: Rules) -> bool:
    """Is everything but the topic and the properties as it may be?"""
    return (
        0 <= message.queue_id <= QUEUE_ID_MAX
        and len(message.body) <= rules.body_size_max
        and len(message.born_host) in (8, 20)
        and 0 <= message.born_ms < 1 << 62
        and -_INT32_MAX <= message.flag <= _INT32_MAX
        and 0 <= message.sys_flag <= _INT32_MAX
        and 0 <= message.reconsume_times <= _INT32_MAX
    )


@lru_cache(maxsize=65_536)
def sized_topic(topic: str) -> bytes:
    """A topic as a record keeps it, with its size in front.

    Raises:
        InvalidRequest: no topic can have this name.
    """
    check_topic(topic)
    data = topic.encode("ascii")
    return bytes((len(data),)) + data


def _is_half(message: Message) -> bool:
    """RocketMQ goes by the property; a retried message that once was one is an ordinary one."""
    if message.properties.get("TRAN_MSG") != "true":
        return False
    if message.sys_flag & SYS_TRANSACTION_MASK == SYS_COMMIT:
        return False
    return not (message.reconsume_times > 0 and message.properties.get(LEVEL_NAME, "0") != "0")


def _delayed(properties: dict[str, str], due: Due) -> tuple[str, int]:
    """The delay topic and queue; `properties` then say what was really promised."""
    if due.level:
        properties[LEVEL_NAME] = str(due.level)
        for name in (*TIMER_NAMES, DUE_NAME):
            properties.pop(name, None)
        return LEVEL_TOPIC, due.level - 1
    properties[DUE_NAME] = str(due.due_ms)
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
