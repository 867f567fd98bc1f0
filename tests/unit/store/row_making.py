"""Messages as rows, made one by one: what a protocol's kernel would have made of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.golden.layout import java_hash

from dueline.message import Message, encode_properties
from dueline.message_rows import (
    ROW_BODY_END,
    ROW_BODY_START,
    ROW_BORN_MS,
    ROW_CHANNEL,
    ROW_FLAG,
    ROW_HEAD,
    ROW_ID_END,
    ROW_ID_START,
    ROW_KEYS_END,
    ROW_KEYS_START,
    ROW_LEVEL,
    ROW_TAG,
    ROW_TEXT_END,
    ROW_TEXT_START,
    ROW_TIMER,
    ROW_TIMER_MS,
    ROW_WIDTH,
    TIMER_AFTER,
    TIMER_AT,
    Head,
    MessageRows,
)

_TIMERS = {
    "TIMER_DELAY_SEC": (TIMER_AFTER, 1_000),
    "TIMER_DELAY_MS": (TIMER_AFTER, 1),
    "TIMER_DELIVER_MS": (TIMER_AT, 1),
}


def rows_of(messages: Sequence[Message], *, is_batch: bool = False) -> MessageRows:
    """Rows of messages that have a unique id and at most one delay."""
    data, texts = b"before", b"before"
    heads: list[Head] = []
    hosts: list[bytes] = []
    rows = np.zeros((len(messages), ROW_WIDTH), dtype=np.int64)
    for row, message in zip(rows, messages, strict=True):
        head = Head(
            topic=message.topic,
            queue_id=message.queue_id,
            flag=0 if is_batch else message.flag,
            sys_flag=message.sys_flag,
            reconsume_times=message.reconsume_times,
            is_batch=is_batch,
        )
        if head not in heads:
            heads.append(head)
        if message.born_host not in hosts:
            hosts.append(message.born_host)
        text = encode_properties(message.properties)
        row[ROW_HEAD], row[ROW_CHANNEL] = heads.index(head), hosts.index(message.born_host)
        row[ROW_BODY_START], row[ROW_BODY_END] = len(data), len(data) + len(message.body)
        row[ROW_TEXT_START], row[ROW_TEXT_END] = len(texts), len(texts) + len(text)
        row[[ROW_ID_START, ROW_ID_END]] = _value(text, "UNIQ_KEY", len(texts))
        row[[ROW_KEYS_START, ROW_KEYS_END]] = _value(text, "KEYS", len(texts))
        row[ROW_TAG] = java_hash(message.properties.get("TAGS", ""))
        row[ROW_LEVEL] = int(message.properties.get("DELAY", 0))
        for name, (timer, unit) in _TIMERS.items():
            if name in message.properties:
                row[ROW_TIMER], row[ROW_TIMER_MS] = timer, unit * int(message.properties[name])
        row[ROW_BORN_MS], row[ROW_FLAG] = message.born_ms, message.flag
        data += message.body + b"|"
        texts += text + b"|"
    return MessageRows(
        data=np.frombuffer(data, dtype=np.uint8),
        texts=np.frombuffer(texts, dtype=np.uint8),
        rows=rows,
        heads=heads,
        hosts=hosts,
    )


def _value(text: bytes, name: str, base: int) -> tuple[int, int]:
    """Where the value of a property stands."""
    at = 0
    for entry in text.split(b"\x02"):
        key, _, value = entry.partition(b"\x01")
        if key == name.encode():
            start = base + at + len(key) + 1
            return start, start + len(value)
        at += len(entry) + 1
    return 0, 0
