r"""Conditions as people write them: the part of SQL's WHERE that waiting messages are asked with.

    topic = 'reminders' and key like 'order-%' and due < '2026-12-24'
    (tag in ('a', 'b') or property('region') = 'eu') and not body contains 'test'

    condition   or-ed and-s of comparisons, NOT, parentheses
    comparison  = <> != < <= > >=, [NOT] LIKE 'a%', [NOT] IN (…), [NOT] BETWEEN x AND y,
                [NOT] CONTAINS 'text', IS [NOT] NULL
    columns     topic, key, tag, id, state, body, property('name'): text
                number, queue, size: whole numbers
                due, accepted: times, such as '2026-12-24' or '2026-12-24T18:00Z', or milliseconds

A time without a zone is one of the place where this is read: the broker's. Depth and number of
words are bounded: a hostile text costs an error, not the stack.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from dueline.broker.waiting.columns import COLUMN_NAMES, NUMBERS, TIMES
from dueline.broker.waiting.conditions import (
    All,
    Compare,
    Condition,
    Contains,
    Either,
    IsIn,
    IsNull,
    Like,
    Not,
)
from dueline.errors import InvalidRequest
from dueline.times import parse_time_ms

__all__ = ["parse_where"]

DEPTH_MAX: Final = 64
TOKEN_COUNT_MAX: Final = 10_000
TEXT_SIZE_MAX: Final = 64 << 10

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>[+-]?\d+)(?![\w.])"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign><>|!=|>=|<=|=|>|<|\(|\)|,))"
)
_COMPARISONS: Final = frozenset(("=", "<>", "!=", ">", ">=", "<", "<="))
_DIGITS_MAX: Final = 18
_OTHER_NAMES: Final = {"keys": "key", "tags": "tag", "unique_id": "id", "queue_id": "queue"}


class _Token(NamedTuple):
    kind: str  # number, text, name, sign, end
    text: str
    place: int


def parse_where(text: str) -> Condition:
    """Read a condition.

    Raises:
        InvalidRequest: says where it stops making sense, and what was expected there.
    """
    if len(text) > TEXT_SIZE_MAX:
        raise InvalidRequest(
            f"where: expected at most {TEXT_SIZE_MAX} characters, found {len(text)}", field="where"
        )
    return _Parser(text).parse()


def _tokens(text: str) -> list[_Token]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise _refusal(text, start, "a column, a value or a sign")
        tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        at = match.end()
        if len(tokens) > TOKEN_COUNT_MAX:
            raise InvalidRequest(
                f"where: expected at most {TOKEN_COUNT_MAX} words, found more", field="where"
            )
    return [*tokens, _Token("end", "", len(text))]


def _refusal(text: str, place: int, expected: str) -> InvalidRequest:
    found = repr(text[place : place + 20]) if text[place:].strip() else "the end"
    return InvalidRequest(
        f"where: expected {expected} at character {place + 1}, found {found}; for example: "
        "topic = 'orders' and key like 'order-%' and due < '2030-01-01'",
        field="where",
        place=place,
    )


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    def parse(self) -> Condition:
        condition = self._either()
        if self._now.kind != "end":
            self._refuse("AND, OR or the end")
        return condition

    # Words

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _refuse(self, expected: str) -> NoReturn:
        raise _refusal(self._text, self._now.place, expected)

    def _takes(self, *words: str) -> str | None:
        """The word that comes next, if it is one of these."""
        found = self._now.text.lower()
        if self._now.kind in ("name", "sign") and found in words:
            self._at += 1
            return found
        return None

    def _must(self, word: str) -> None:
        if self._takes(word) is None:
            self._refuse(word.upper())

    # Conditions

    def _either(self) -> Condition:
        parts = [self._all()]
        while self._takes("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Either(parts=tuple(parts))

    def _all(self) -> Condition:
        parts = [self._one()]
        while self._takes("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else All(parts=tuple(parts))

    def _one(self) -> Condition:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise InvalidRequest(
                f"where: expected at most {DEPTH_MAX} levels of NOT and parentheses", field="where"
            )
        if self._takes("not"):
            condition: Condition = Not(part=self._one())
        elif self._takes("("):
            condition = self._either()
            self._must(")")
        else:
            condition = self._comparison()
        self._depth -= 1
        return condition

    def _comparison(self) -> Condition:
        column, detail = self._column()
        if self._now.text in _COMPARISONS:
            sign = self._takes(*_COMPARISONS) or ""
            value = self._value(column)
            sign = "<>" if sign == "!=" else sign
            return Compare(column=column, detail=detail, sign=sign, value=value)
        if self._takes("is"):
            is_not = self._takes("not") is not None
            self._must("null")
            null = IsNull(column=column, detail=detail)
            return Not(part=null) if is_not else null
        is_not = self._takes("not") is not None
        condition = self._test(column, detail)
        return Not(part=condition) if is_not else condition

    def _test(self, column: str, detail: str) -> Condition:
        if self._takes("between"):
            low = self._value(column)
            self._must("and")
            high = self._value(column)
            return All(
                parts=(
                    Compare(column=column, detail=detail, sign=">=", value=low),
                    Compare(column=column, detail=detail, sign="<=", value=high),
                )
            )
        if self._takes("in"):
            return IsIn(column=column, detail=detail, values=self._values(column))
        if column in NUMBERS:
            self._refuse(f"a comparison of {column} such as < or BETWEEN")
        if self._takes("like"):
            return Like(column=column, detail=detail, pattern=self._string())
        if self._takes("contains"):
            return Contains(column=column, detail=detail, text=self._string())
        return self._refuse("a comparison such as =, <, LIKE, IN, BETWEEN or IS NULL")

    def _column(self) -> tuple[str, str]:
        name = _OTHER_NAMES.get(self._now.text.lower(), self._now.text.lower())
        if self._now.kind != "name" or name not in COLUMN_NAMES:
            self._refuse(f"a column ({', '.join(COLUMN_NAMES)})")
        self._at += 1
        if name != "property":
            return name, ""
        self._must("(")
        detail = self._string()
        self._must(")")
        return name, detail

    # Values

    def _values(self, column: str) -> tuple[str | int, ...]:
        self._must("(")
        values = [self._value(column)]
        while self._takes(","):
            values.append(self._value(column))
        self._must(")")
        return tuple(values)

    def _value(self, column: str) -> str | int:
        if column in TIMES and self._now.kind == "text":
            return self._time()
        return self._number() if column in NUMBERS else self._string()

    def _string(self) -> str:
        if self._now.kind != "text":
            self._refuse("text in quotes")
        text = self._now.text[1:-1].replace("''", "'")
        self._at += 1
        return text

    def _number(self) -> int:
        token = self._now
        if token.kind != "number" or len(token.text) > _DIGITS_MAX:
            self._refuse("a whole number")
        self._at += 1
        return int(token.text)

    def _time(self) -> int:
        place = self._now.place
        try:
            return parse_time_ms(self._string())
        except InvalidRequest as error:
            raise InvalidRequest(
                f"where: at character {place + 1}: {error.message}", field="where", place=place
            ) from error
