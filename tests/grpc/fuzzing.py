"""Requests without sense, made from our own schema: every message, every field, every kind.

`Fuzzer.fill` sets fields to values of the right type: odd, empty, huge, or beyond every bound.
`wrong_types` writes the fields' numbers with wire types that are not theirs. Both only look at the
descriptors, so a method or a field that is added later is fuzzed without a word here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

TEXTS = ["", " ", "a", "t", "g", "%", "\x00", "ü" * 50, "x" * 300, "%RETRY%g", "%DLQ%g", "a b", "*"]
HUGE_TEXTS = ["x" * 70_000, "ü" * 600_000, "\x00" * 66_000, "%" * 300_000]
NUMBERS = [0, 1, -1, 2, 3, 7, 2**31 - 1, -(2**31)]
LONG_NUMBERS = [*NUMBERS, 2**63 - 1, -(2**63)]
# By the descriptor's numbers for types.
FLOAT, INT64, INT32, BOOL, TEXT, MESSAGE, BYTES, ENUM = 2, 3, 5, 8, 9, 11, 12, 14
SCALARS: dict[int, list[Any]] = {
    FLOAT: [0.0, -1.0, 1e30, float("inf"), float("nan")],
    INT64: LONG_NUMBERS,
    INT32: NUMBERS,
    BOOL: [True, False],
    TEXT: TEXTS,
    BYTES: [b"", b"x", b"\x1f\x8b", b"\xff" * 5_000, b"\x00" * 1_000_000],
    ENUM: [0, 1, 2, 3, 4, 99, -1],
}
HUGE_CHANCE = 0.01
DEPTH_MAX = 6


class Fuzzer:
    """Random requests, and which fields they have had so far."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        self.seen: set[str] = set()

    def fill(self, message: Any, depth: int = 0) -> Any:
        """Set some of a message's fields to something of the right type and of no sense."""
        for field in message.DESCRIPTOR.fields:
            if self.chance.random() < 0.3:
                continue
            self.seen.add(field.full_name)
            if field.type == MESSAGE:
                if depth < DEPTH_MAX:
                    self._fill_inner(message, field, depth)
            elif field.is_repeated:
                getattr(message, field.name).extend(self._value(field.type) for _ in range(3))
            else:
                setattr(message, field.name, self._value(field.type))
        return message

    def _fill_inner(self, message: Any, field: Any, depth: int) -> None:
        inner = getattr(message, field.name)
        if field.message_type.GetOptions().map_entry:
            inner[self._value(TEXT)] = self._value(TEXT)
        elif field.is_repeated:
            for _ in range(self.chance.randrange(3)):
                self.fill(inner.add(), depth + 1)
        else:
            inner.SetInParent()
            self.fill(inner, depth + 1)

    def _value(self, kind: int) -> Any:
        if kind == TEXT and self.chance.random() < HUGE_CHANCE:
            return self.chance.choice(HUGE_TEXTS)
        return self.chance.choice(SCALARS[kind])

    def wrong_types(self, descriptor: Any) -> bytes:
        """A message's field numbers with any wire type, and what follows from it."""
        numbers = [*(field.number for field in descriptor.fields), 99]
        count = self.chance.randrange(1, 8)
        return b"".join(self._raw(self.chance.choice(numbers)) for _ in range(count))

    def noise(self) -> bytes:
        return self.chance.randbytes(self.chance.randrange(1, 60))

    def _raw(self, number: int) -> bytes:
        kind = self.chance.choice([0, 1, 2, 5, 3, 4, 7])  # the last ones: groups, and none at all
        size = {1: 8, 5: 4}.get(kind, self.chance.randrange(12))
        data = self.chance.randbytes(size)
        if kind == 0:
            data = bytes([self.chance.randrange(128)])
        if kind == 2:
            # Sometimes longer than what follows.
            data = bytes([size + (self.chance.random() < 0.2)]) + data
        return bytes([(number << 3 | kind) & 0x7F | 0x80, number >> 4]) + data


def fields_of(descriptor: Any, seen: set[str] | None = None) -> Iterator[str]:
    """Every field that a request can have, at whatever depth."""
    seen = set() if seen is None else seen
    for field in descriptor.fields:
        if field.full_name not in seen:
            seen.add(field.full_name)
            yield field.full_name
            if field.type == MESSAGE and not field.message_type.GetOptions().map_entry:
                yield from fields_of(field.message_type, seen)
