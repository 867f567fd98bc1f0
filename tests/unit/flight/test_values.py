"""Values over the wire: strict both ways."""

import pytest

from dueline.errors import RemoteProtocolError
from dueline.flight import protocol
from dueline.flight.values import Value


class Inner(Value, frozen=True, kw_only=True):
    number: int


class Outer(Value, frozen=True, kw_only=True):
    name: str
    is_set: bool
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    named: dict[str, int] | None = None


def check_both_ways(value: Value, data: bytes) -> None:
    assert value.encode() == data
    assert type(value).decode(data) == value


def test_values_have_one_form() -> None:
    check_both_ways(
        Outer(
            name="ä", is_set=True, inner=Inner(number=1), many=(Inner(number=2),), named={"a": 3}
        ),
        b'{"name":"\xc3\xa4","is_set":true,"inner":{"number":1},"many":[{"number":2}],'
        b'"named":{"a":3}}',
    )
    check_both_ways(
        Outer(name="", is_set=False),
        b'{"name":"","is_set":false,"inner":null,"many":[],"named":null}',
    )


def test_requests_have_one_form() -> None:
    corner = protocol.WindowCorner(due_ms=5, seq=-1, end=1 << 40)
    check_both_ways(
        protocol.PlanWindow(end=corner, slice_count_max=2, slice_row_count_min=1),
        b'{"end":{"due_ms":5,"seq":-1,"end":1099511627776},"slice_count_max":2,'
        b'"slice_row_count_min":1}',
    )
    check_both_ways(protocol.WindowEnd(end=None), b'{"end":null}')


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"{", "expected JSON"),
        (b"[1]", "Outer: Expected `object`"),
        (b'{"name":"a"}', "Outer: .*missing required field `is_set`"),
        (b'{"name":"a","is_set":true,"new":1}', "Outer: .*unknown field `new`"),
        (b'{"name":1,"is_set":true}', r"at `\$.name`"),
        (b'{"name":"a","is_set":1}', r"at `\$.is_set`"),
        (b'{"name":"a","is_set":true,"inner":{"number":true}}', r"at `\$.inner.number`"),
        (b'{"name":"a","is_set":true,"many":{"number":1}}', r"at `\$.many`"),
        (b'{"name":"a","is_set":true,"named":{"a":"b"}}', r"at `\$.named\[...\]`"),
        (b'{"name":null,"is_set":true}', r"at `\$.name`"),
    ],
)
def test_other_forms_are_refused_by_name(data: bytes, found: str) -> None:
    with pytest.raises(RemoteProtocolError, match=found):
        Outer.decode(data)
