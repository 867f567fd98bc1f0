"""Conditions on message properties, in the part of SQL that RocketMQ's consumers use.

    (region = 'eu' OR region IS NULL) AND amount BETWEEN 10 AND 99.5 AND NOT (kind IN ('a', 'b'))

    condition   or-ed and-s of terms, NOT, parentheses, TRUE, FALSE, a property by itself
    comparison  = <> != > >= < <=, [NOT] BETWEEN x AND y, [NOT] IN ('a', …), IS [NOT] NULL,
                [NOT] CONTAINS | STARTSWITH | ENDSWITH 'text'
    values      properties by name, 'text' ('' is a quote in it), numbers, TRUE, FALSE, NULL

Properties are text. Compared with a number, a property is read as one; one that is no number is
unknown. An absent property is unknown too, and what is unknown stays so under NOT, AND and OR as in
SQL; only what is true matches. Numbers compare in size; text can only be equal or not.

An expression is parsed once into nested functions. Its depth and its number of words are bounded,
and what is longer than any number is none: a hostile expression costs an error and not the stack,
and a hostile property costs no more than another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, NoReturn

from dueline.errors import InvalidRequest

__all__ = ["Condition", "compile_condition"]

DEPTH_MAX: Final = 64
TOKEN_COUNT_MAX: Final = 1_024
NUMBER_SIZE_MAX: Final = 64

Value = str | int | float | bool | None
Properties = Mapping[str, str]
Expression = Callable[[Properties], Value]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[lL]?)"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$.\-]*)"
    r"|(?P<sign><>|!=|>=|<=|=|>|<|\(|\)|,))"
)
_CONSTANTS: Final[Mapping[str, Value]] = {"TRUE": True, "FALSE": False, "NULL": None}
_KEYWORDS: Final = frozenset(
    ("AND", "OR", "NOT", "BETWEEN", "IN", "IS", *_CONSTANTS, "CONTAINS", "STARTSWITH", "ENDSWITH")
)
_COMPARISONS: Final = frozenset(("=", "<>", "!=", ">", ">=", "<", "<="))
_TEXT_TESTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "CONTAINS": lambda text, part: part in text,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


class _Token(NamedTuple):
    kind: str  # number, text, name, keyword, sign, end
    text: str
    place: int


class Condition(NamedTuple):
    """A condition as a function of properties."""

    matches: Callable[[Properties], bool]
    word_count: int
    """How long it is: what an answer costs, more or less."""


def compile_condition(expression: str) -> Condition:
    """Read a condition.

    Raises:
        InvalidRequest: it cannot be read; says where.

    >>> compile_condition("a > 5 AND b = 'x'").matches({"a": "10", "b": "x"})
    True
    """
    parser = _Parser(expression)
    condition = parser.whole()
    return Condition(lambda properties: _truth(condition(properties)) is True, parser.word_count)


class _Parser:
    """Recursive descent; one method per line of the grammar."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = list(_tokens(expression))
        self._at = 0
        self._depth = 0

    @property
    def word_count(self) -> int:
        return len(self._tokens)

    def whole(self) -> Expression:
        found = self._or()
        if self._token.kind != "end":
            self._fail("the end")
        return found

    def _or(self) -> Expression:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._fail(f"at most {DEPTH_MAX} levels")
        terms = [self._and()]
        while self._takes("OR"):
            terms.append(self._and())
        self._depth -= 1
        return terms[0] if len(terms) == 1 else _any_of(terms)

    def _and(self) -> Expression:
        terms = [self._not()]
        while self._takes("AND"):
            terms.append(self._not())
        return terms[0] if len(terms) == 1 else _all_of(terms)

    def _not(self) -> Expression:
        count = 0
        while self._takes("NOT"):
            count += 1
        term = self._comparison()
        return _negation(term) if count % 2 else term

    def _comparison(self) -> Expression:
        left = self._value()
        token = self._token
        if token.kind == "sign" and token.text in _COMPARISONS:
            self._at += 1
            return _comparison(token.text, left, self._value())
        if self._takes("IS"):
            is_negated = self._takes("NOT")
            self._needs("NULL")
            return _negation(_is_null(left)) if is_negated else _is_null(left)
        is_negated = self._takes("NOT")
        found = self._named_test(left)
        if found is None:
            if is_negated:
                self._fail("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH after NOT")
            return left
        return _negation(found) if is_negated else found

    def _named_test(self, left: Expression) -> Expression | None:
        if self._takes("BETWEEN"):
            low = self._value()
            self._needs("AND")
            high = self._value()
            return _all_of([_comparison(">=", left, low), _comparison("<=", left, high)])
        if self._takes("IN"):
            return _membership(left, self._texts())
        for name, test in _TEXT_TESTS.items():
            if self._takes(name):
                return _text_test(test, left, self._value())
        return None

    def _texts(self) -> frozenset[str]:
        self._needs("(")
        found = {self._text()}
        while self._takes(","):
            found.add(self._text())
        self._needs(")")
        return frozenset(found)

    def _text(self) -> str:
        token = self._token
        if token.kind != "text":
            self._fail("a text in quotes")
        self._at += 1
        return token.text

    def _value(self) -> Expression:
        token = self._token
        if self._takes("("):
            inner = self._or()
            self._needs(")")
            return inner
        if token.kind == "keyword" and token.text in _CONSTANTS:
            made = _constant(_CONSTANTS[token.text])
        elif token.kind == "name":
            made = _property(token.text)
        elif token.kind == "text":
            made = _constant(token.text)
        elif token.kind == "number":
            made = _constant(_number(token.text.rstrip("lL")))
        else:
            self._fail("a property, a value or a parenthesis")
        self._at += 1
        return made

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _takes(self, text: str) -> bool:
        token = self._token
        if token.kind in ("keyword", "sign") and token.text == text:
            self._at += 1
            return True
        return False

    def _needs(self, text: str) -> None:
        if not self._takes(text):
            self._fail(text)

    def _fail(self, expected: str) -> NoReturn:
        token = self._token
        raise _unreadable(self._expression, token.place, expected, token.text or "the end")


def _tokens(expression: str) -> list[_Token]:
    found: list[_Token] = []
    place = 0
    end = len(expression.rstrip())
    while place < end:
        match = _TOKEN.match(expression, place)
        if match is None:
            raise _unreadable(expression, place, "a value or a sign", expression[place:][:20])
        kind = match.lastgroup or ""
        text = match.group(kind)
        if len(found) >= TOKEN_COUNT_MAX:
            raise _unreadable(expression, place, f"at most {TOKEN_COUNT_MAX} words", text)
        if kind == "number" and len(text) > NUMBER_SIZE_MAX:
            raise _unreadable(expression, place, f"at most {NUMBER_SIZE_MAX} digits", text)
        if kind == "name" and text.upper() in _KEYWORDS:
            kind, text = "keyword", text.upper()
        elif kind == "text":
            text = text[1:-1].replace("''", "'")
        found.append(_Token(kind, text, match.start(match.lastgroup or "")))
        place = match.end()
    found.append(_Token("end", "", place))
    return found


def _unreadable(expression: str, place: int, expected: str, found: str) -> InvalidRequest:
    return InvalidRequest(
        f"filter: character {place}: expected {expected}, found {found!r:.40} in "
        f"{expression!r:.200}",
        what="filter",
        place=place,
    )


# What expressions do. Unknown is None everywhere.


def _constant(value: Value) -> Expression:
    return lambda _: value


def _property(name: str) -> Expression:
    return lambda properties: properties.get(name)


def _number(text: str) -> int | float | None:
    if len(text) > NUMBER_SIZE_MAX:
        return None
    try:
        return int(text) if text.lstrip("+-").isdecimal() and len(text) < 20 else float(text)
    except ValueError:
        return None


def _truth(value: Value) -> bool | None:
    """A condition's value: a property by itself is true if its text says so."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower()) if len(value) <= 5 else None
    return value if isinstance(value, bool) else None


def _is_null(value: Expression) -> Expression:
    return lambda properties: value(properties) is None


def _negation(term: Expression) -> Expression:
    def negation(properties: Properties) -> Value:
        value = _truth(term(properties))
        return None if value is None else not value

    return negation


def _all_of(terms: list[Expression]) -> Expression:
    def conjunction(properties: Properties) -> Value:
        found: bool | None = True
        for term in terms:
            value = _truth(term(properties))
            if value is False:
                return False
            if value is None:
                found = None
        return found

    return conjunction


def _any_of(terms: list[Expression]) -> Expression:
    negated = _all_of([_negation(term) for term in terms])
    return _negation(negated)


def _comparison(sign: str, left: Expression, right: Expression) -> Expression:
    def comparison(properties: Properties) -> Value:
        return _compare(sign, left(properties), right(properties))

    return comparison


def _compare(sign: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        return _equality(sign, _truth(left), _truth(right))
    if isinstance(left, str) and isinstance(right, str):
        if sign in ("=", "<>", "!="):
            return _equality(sign, left, right)
        return _size(sign, _number(left), _number(right))
    first = _number(left) if isinstance(left, str) else left
    second = _number(right) if isinstance(right, str) else right
    if sign in ("=", "<>", "!="):
        return _equality(sign, first, second)
    return _size(sign, first, second)


def _equality(sign: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None or sign not in ("=", "<>", "!="):
        return None
    return (left == right) is (sign == "=")


def _size(sign: str, left: float | None, right: float | None) -> bool | None:
    if left is None or right is None:
        return None
    return {">": left > right, ">=": left >= right, "<": left < right, "<=": left <= right}[sign]


def _membership(left: Expression, texts: frozenset[str]) -> Expression:
    def membership(properties: Properties) -> Value:
        value = left(properties)
        return None if value is None else str(value) in texts

    return membership


def _text_test(test: Callable[[str, str], bool], left: Expression, right: Expression) -> Expression:
    def text_test(properties: Properties) -> Value:
        text, part = left(properties), right(properties)
        if not isinstance(text, str) or not isinstance(part, str) or not part:
            return None
        return test(text, part)

    return text_test
