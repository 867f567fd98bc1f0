"""JSON with keys that are no strings."""

import pytest

from dueline.errors import InvalidRequest, LocalProtocolError
from dueline.wire import fastjson
from dueline.wire.fastjson import DEPTH_MAX, ObjectKey, dumps, loads


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a":[1,2.5,true,null,"x"]}', {"a": [1, 2.5, True, None, "x"]}),
        (b'{0:"h:1", 1 :"h:2"}', {"0": "h:1", "1": "h:2"}),
        (b'{"t":{{"q":0,"b":"x"}:1}}', {"t": {'{"b":"x","q":0}': 1}}),
        (b'{{"a":[]}:{}, {"a":[1]}:[{}]}', {'{"a":[]}': {}, '{"a":[1]}': [{}]}),
        (b' {"a" : [ ] , 5 : { } } ', {"a": [], "5": {}}),
        (b'{-1:"x"}', {"-1": "x"}),
    ],
)
def test_both_forms_are_read(data: bytes, value: object) -> None:
    assert loads(data) == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{1}",
        b"{1:}",
        b"{1:2",
        b"{1:2,}",
        b"{[]:1}",
        b"{true:1}",
        b"{1.5:1}",
        b'{{"a":1}}',
        b"{1:[1 2]}",
        b"{1:2} x",
        b"\xff",
        b"{" * 3000,
        b"[" * 3000 + b"]" * 3000,
        b"[" * 40 + b"]" * 40,
        b"{1:" * 40 + b"1" + b"}" * 40,
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1e999}',
        b"{1:-1e999}",
        b'{"a":"\\ud800"}',
        b'{"\\ud800":1}',
        b'{1:"\\ud800"}',
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_neither_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="expected JSON"):
        loads(data)


def test_object_key_is_written_as_an_object_and_others_as_strings() -> None:
    value = {"t": {ObjectKey('{"q":0}'): 1}, "n": {0: "a"}, "s": "\u8ba2\n"}

    assert dumps(value) == '{"t":{{"q":0}:1},"n":{"0":"a"},"s":"\u8ba2\\n"}'.encode()


def test_nothing_is_written_that_could_not_be_read() -> None:
    deep: object = 1
    for _ in range(DEPTH_MAX):
        deep = [deep]

    for value in (deep, float("inf"), float("nan"), "\ud800"):
        with pytest.raises(LocalProtocolError):
            dumps(value)


# Bodies of requests

REFUSED_REQUESTS = {
    "bytes": b'{"clientID":"' + b"x" * (1 << 20) + b'"}',
    "values": b"[" + b"1," * 60_000 + b"1]",
    "arrays": b"[" + b"[]," * 60_000 + b"[]]",
    "lenient": b'{"a":"' + b"x" * (16 << 10) + b'",1:2}',
    "blanks": b"{1:2" + b" " * (1 << 20) + b"}",
}


@pytest.mark.parametrize("name", REFUSED_REQUESTS)
def test_request_that_would_take_long_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="expected"):
        fastjson.loads_request(REFUSED_REQUESTS[name])


@pytest.mark.parametrize("data", [b'{"a":[1,{"b":null}]}', b"{1:2,{3:4}:[5]}", b'"\\u00e4"'])
def test_usual_request_is_read_as_any_body(data: bytes) -> None:
    assert fastjson.loads_request(data) == fastjson.loads(data)


@pytest.mark.parametrize(
    "data",
    [
        b"{1:2}}",
        b"{1:2,}",
        b"{1 2}",
        b"{1:2 3:4}",
        b"[1,{1:2},]",
        b"{1:tru}",
        b'{1:"a}',
        b"{1:01}",
        b"{1:1e999}",
        b"{[1]:2}",
        b"{true:2}",
        b"{1:}",
        b"{:1}",
        b'{1:"\\ud800"}',
        b"{1:" + b"[" * 40 + b"]" * 40 + b"}",
    ],
)
def test_broken_lenient_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        fastjson.loads(data)
