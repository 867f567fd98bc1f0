"""Patterns of pulls: what matches says the same to the codec, and what says something else does
not match."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from dueline.wire import Command, FrameDecoder
from dueline.wire.headers import PullRequest
from dueline.wire.pull_pattern import PullPattern

NUMBERS = ("queueId", "queueOffset", "commitOffset")


def header(**changes: Any) -> PullRequest:
    fields: dict[str, Any] = {
        "consumer_group": "readers",
        "topic": "orders",
        "queue_id": 3,
        "queue_offset": 4711,
        "max_msg_nums": 32,
        "sys_flag": 2,
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "sub_version": 1_700_000_000_000,
    }
    return PullRequest(**{**fields, **changes})


def frame(opaque: int = 8, code: int = 11, **changes: Any) -> bytes:
    return Command(code=code, opaque=opaque, ext=header(**changes).encode()).encode()


def raw(text: str, body: bytes = b"") -> bytes:
    """A frame with a header as somebody wrote it."""
    data = text.encode()
    size = len(data)
    return (4 + size + len(body)).to_bytes(4, "big") + size.to_bytes(4, "big") + data + body


def decoded(data: bytes) -> Command:
    (cut,) = FrameDecoder().feed(data)
    return Command.decode(cut)


def pattern_of(data: bytes) -> PullPattern | None:
    return PullPattern.of(data, decoded(data))


def match(pattern: PullPattern | None, data: bytes) -> tuple[int, ...] | None:
    assert pattern is not None
    found = pattern.match(data, 0, len(data))
    return None if found is None else found[:4]


SECRET = b"a secret of readers"


def signed_frame(opaque: int = 8, **changes: Any) -> bytes:
    """As RocketMQ's hook signs: the values of all fields by their names."""
    ext = {**header(**changes).encode(), "AccessKey": "readers", "SecurityToken": "tök"}
    content = "".join(ext[name] for name in sorted(ext)).encode()
    digest = hmac.digest(SECRET, content, "sha1")
    ext["Signature"] = base64.b64encode(digest).decode()
    return Command(code=11, opaque=opaque, ext=ext).encode()


def test_pulls_with_other_numbers_match() -> None:
    pattern = pattern_of(frame())

    assert match(pattern, frame()) == (3, 4711, 0, 8)
    other = frame(opaque=123_456_789, queue_id=0, queue_offset=10**17, commit_offset=99)
    assert match(pattern, other) == (0, 10**17, 99, 123_456_789)
    many = frame() + other + frame()
    assert pattern is not None
    found = pattern.match(many, len(frame()), len(frame()) + len(other))
    assert found is not None
    assert found[:4] == match(pattern, other)
    assert not pattern.is_signed
    assert (found.content, found.signature) == (b"", b"")


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": "order"},
        {"consumer_group": "readers2"},
        {"max_msg_nums": 33},
        {"sub_version": 17},
        {"subscription": "*"},
        {"code": 361},
        {"commit_offset": -1},
        {"opaque": -8},
        {"opaque": 1_234_567_890},
        {"queue_offset": 10**18},
    ],
)
def test_pulls_that_say_something_else_do_not_match(changes: dict[str, Any]) -> None:
    assert match(pattern_of(frame()), frame(**changes)) is None


@pytest.mark.parametrize(
    "text",
    [
        # Names twice, escaped, at another place, and numbers that are none.
        '{"code":11,"extFields":{%s,"queueOffset":"5"},"opaque":8}',
        '{"code":11,"extFields":{%s,"queue\\u004fffset":"5"},"opaque":8}',
        '{"code":11,"extFields":{%s,"topic2":"opaque"},"opaque":8}',
        '{"code":11,"x":{"queueOffset":"4711"},"extFields":{%s},"opaque":8}',
        '{"code":11,"extFields":{%s},"opaque":8,"opaque":9}',
        '{"code":11,"extFields":{%s},"opaque": 8}',
        '{"code":11,"extFields":{%s},"opaque":-8}',
    ],
)
def test_what_could_be_misread_makes_no_pattern(text: str) -> None:
    ext = json.dumps({"queueId": "3", "queueOffset": "4711", "commitOffset": "0"})[1:-1]
    assert pattern_of(raw(text % ext.replace(" ", ""))) is None


def test_a_number_that_stands_where_it_means_nothing_makes_no_pattern() -> None:
    text = '{"code":11,"x":{"queueOffset":"4711"},"extFields":{"queueId":"3","commitOffset":"0"},'
    assert pattern_of(raw(text + '"opaque":8}')) is None
    assert pattern_of(raw(text.replace('"0"}', '"0","topic":"t"}') + '"opaque":8}')) is None


def test_a_pull_with_a_body_or_a_binary_header_makes_no_pattern() -> None:
    data = frame()
    assert pattern_of(raw(data[8:].decode(), body=b"x")) is None
    command = decoded(data)
    binary = Command(
        code=11, opaque=8, ext=command.ext, serialization=type(command.serialization)(1)
    )
    assert pattern_of(binary.encode()) is None


_TEXT = st.text('abz:,"\\{}09é', max_size=4)
_ORDER = st.permutations([*NUMBERS, "topic", "consumerGroup"])


@st.composite
def frames(draw: st.DrawFn) -> list[bytes]:
    """Two headers that are alike, or nearly so, as JSON in any order."""
    names, opaque_first = draw(_ORDER), draw(st.booleans())
    texts = {"topic": draw(_TEXT), "consumerGroup": draw(_TEXT)}
    found = []
    for _ in range(2):
        numbers = st.integers(-3, 10**19) | st.integers(0, 50)
        ext: dict[str, Any] = {name: str(draw(numbers)) for name in NUMBERS} | texts
        if draw(st.integers(0, 9)) == 0:
            ext["topic"] = draw(_TEXT)
        fields: dict[str, Any] = {"code": 11, "extFields": {name: ext[name] for name in names}}
        opaque = {"opaque": draw(st.integers(-5, 1 << 31))}
        whole = {**opaque, **fields} if opaque_first else {**fields, **opaque}
        text = json.dumps(whole, separators=(",", ":"), ensure_ascii=draw(st.booleans()))
        if draw(st.integers(0, 5)) == 0:
            place = draw(st.integers(0, len(text)))
            text = text[:place] + draw(st.sampled_from(["0", "00", '"', ",", " "])) + text[place:]
        found.append(raw(text))
    return found


@given(frames())
def test_what_matches_says_the_same_to_the_codec(pair: list[bytes]) -> None:
    first = pair[0]
    try:
        command = decoded(first)
    except Exception:  # noqa: BLE001 - the codec's own tests say what it refuses
        return
    pattern = PullPattern.of(first, command)
    if pattern is None:
        return
    for data in pair:
        found = pattern.match(data, 0, len(data))
        if found is None:
            assert data is not first or any(len(command.ext[name]) > 9 for name in NUMBERS)
            continue
        read = decoded(data)
        assert [int(read.ext[name]) for name in NUMBERS] == list(found[:3])
        assert read.opaque == found.opaque
        assert {**read.ext, **dict.fromkeys(NUMBERS, "")} == {
            **command.ext,
            **dict.fromkeys(NUMBERS, ""),
        }
        assert (read.code, read.flag, read.version) == (command.code, command.flag, command.version)


@given(st.binary(max_size=400), st.integers(0, 400), st.integers(0, 400))
def test_cut_and_foreign_bytes_do_not_match(data: bytes, cut: int, place: int) -> None:
    pattern = pattern_of(frame())
    whole = frame()
    changed = whole[:place] + data + whole[place:]

    assert pattern is not None
    assert pattern.match(data, 0, len(data)) is None
    assert pattern.match(whole[:cut], 0, min(cut, len(whole))) is None or cut >= len(whole)
    found = pattern.match(changed, 0, len(changed))
    assert found is None or decoded(raw(changed[8:].decode())).ext["queueOffset"] == str(
        found.queue_offset
    )


@given(
    opaque=st.integers(0, 10**9 - 1),
    queue_id=st.integers(0, 10**9 - 1),
    offset=st.integers(0, 10**18 - 1),
    commit_offset=st.integers(0, 10**18 - 1),
)
def test_what_was_signed_is_put_together_as_its_signer_did(
    opaque: int, queue_id: int, offset: int, commit_offset: int
) -> None:
    pattern = pattern_of(signed_frame())
    other = signed_frame(
        opaque=opaque, queue_id=queue_id, queue_offset=offset, commit_offset=commit_offset
    )

    assert pattern is not None
    found = pattern.match(other, 0, len(other))

    assert found is not None
    assert found[:4] == (queue_id, offset, commit_offset, opaque)
    assert base64.b64decode(found.signature) == hmac.digest(SECRET, found.content, "sha1")
    assert pattern.is_signed


def test_who_signs_is_part_of_the_pattern() -> None:
    pattern = pattern_of(signed_frame())

    assert (
        match(pattern, signed_frame().replace(b'"AccessKey":"readers"', b'"AccessKey":"others"'))
        is None
    )
    assert match(pattern, frame()) is None
    assert match(pattern_of(frame()), signed_frame()) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"Signature": ""},
        {"Signature": "no base64!"},
        {"SecurityToken": "back\\slash"},
        {"queueOffset": "x"},
    ],
)
def test_a_signed_pull_that_is_written_in_another_way_makes_no_pattern(
    changes: dict[str, str],
) -> None:
    ext = {**decoded(signed_frame()).ext, **changes}
    assert pattern_of(Command(code=11, opaque=8, ext=ext).encode()) is None
