"""The machinery of typed bodies."""

import dataclasses

import pytest
from tests.unit.wire.codecs import assert_codec

from dueline.errors import InvalidRequest
from dueline.wire.body import Body, JsonValue, body, json_name


@body
class Place(Body):
    """A key of maps."""

    name: str
    number: int


@body
class Sample(Body):
    """One field of each kind."""

    count: int
    ratio: float = 0.0
    is_last: bool = False
    text: str | None = None
    words: frozenset[str] = frozenset()
    places: list[Place] = dataclasses.field(default_factory=list)
    by_number: dict[int, str] = dataclasses.field(default_factory=dict)
    by_place: dict[Place, int] = dataclasses.field(default_factory=dict)
    other: JsonValue = json_name("OTHER", default=None)


def test_body_is_these_bytes() -> None:
    value = Sample(
        count=1,
        ratio=2.5,
        is_last=True,
        text="x",
        words=frozenset({"b", "a"}),
        places=[Place(name="p", number=1)],
        by_number={0: "h:1"},
        by_place={Place(name="q", number=2): 3},
        other={"any": [1]},
    )
    data = (
        b'{"count":1,"ratio":2.5,"isLast":true,"text":"x","words":["a","b"],'
        b'"places":[{"name":"p","number":1}],"byNumber":{"0":"h:1"},'
        b'"byPlace":{{"name":"q","number":2}:3},"OTHER":{"any":[1]}}'
    )

    assert_codec(data, value, decode=Sample.decode, encode=Sample.encode)


def test_absent_and_null_are_the_default() -> None:
    assert Sample.decode(b'{"count":1,"text":null,"places":null}') == Sample(count=1)


def test_defaults_are_not_shared() -> None:
    one, two = Sample.decode(b'{"count":1}'), Sample.decode(b'{"count":1}')

    one.places.append(Place(name="p", number=1))

    assert two.places == []


def test_integers_in_strings_are_read() -> None:
    assert Sample.decode(b'{"count":"-12"}').count == -12


def test_quoted_key_is_the_same_key() -> None:
    decoded = Sample.decode(rb'{"count":1,"byPlace":{"{\"number\":2,\"name\":\"q\"}":3}}')

    assert decoded.by_place == {Place(name="q", number=2): 3}


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b"[]", "body"),
        (b"{}", "body.count"),
        (b'{"count":true}', "body.count"),
        (b'{"count":"1x"}', "body.count"),
        (b'{"count":9223372036854775808}', "body.count"),
        (b'{"count":1,"ratio":"2"}', "body.ratio"),
        (b'{"count":1,"isLast":1}', "body.isLast"),
        (b'{"count":1,"text":5}', "body.text"),
        (b'{"count":1,"words":{}}', "body.words"),
        (b'{"count":1,"words":[1]}', "body.words[0]"),
        (b'{"count":1,"places":[{"name":"p"}]}', "body.places[0].number"),
        (b'{"count":1,"byNumber":[]}', "body.byNumber"),
        (b'{"count":1,"byNumber":{"x":"y"}}', "body.byNumber"),
        (b'{"count":1,"byPlace":{"x":1}}', "body"),
        (b'{"count":1,"byPlace":{"{}":1}}', "body.byPlace.name"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(data: bytes, path: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Sample.decode(data)

    assert caught.value.field == path


def test_body_that_could_not_be_read_again_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        Sample(count="x").check()  # type: ignore[arg-type]

    Sample(count=1).check()
