"""What the kernel says of signatures is what the standard library says of them."""

from __future__ import annotations

import base64
import binascii
import hmac
import random
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.unit.wire.signature_making import KEYS, Signed, pads_of, turn_of

from dueline import compiled
from dueline.wire.turn_signatures import (
    IS_SIGNED,
    NOT_ASKED,
    NOT_SIGNED,
    SIGNATURE_KERNELS,
    SIZE_MAX,
    KeyTable,
    checked,
)

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def kernels() -> Any:
    assert compiled.load([SIGNATURE_KERNELS])
    return compiled.ready(SIGNATURE_KERNELS)


def found(kernels: Any, sends: list[Signed], keys: list[bytes]) -> list[int]:
    """What is said of sends that all have one case, with these keys."""
    case_of = np.zeros(len(sends), dtype=np.int64)
    table = KeyTable.of([[pads_of(key) for key in keys]])
    found, left_count = checked(kernels, turn_of(sends), case_of, table)
    said: list[int] = found.tolist()
    assert left_count == said.count(NOT_ASKED)
    return said


def expected(send: Signed, keys: list[bytes]) -> int:
    try:
        digest = binascii.a2b_base64(send.signature, strict_mode=True)
    except binascii.Error:
        return NOT_SIGNED
    return int(any(hmac.digest(key, send.content, "sha1") == digest for key in keys))


def test_contents_of_every_length_around_the_borders_of_blocks(kernels: Any) -> None:
    lengths = [*range(1, 200), *(64 * blocks + more for blocks in (16, 30) for more in range(64))]
    generator = random.Random(20)
    sends = []
    for length in lengths:
        content = generator.randbytes(length - 1)
        cut = generator.randrange(length)
        send = Signed(text=content[:cut], body=content[cut:])
        sends.append(send.with_key(KEYS[length % 3]))

    for place, key in enumerate(KEYS):
        signed = found(kernels, sends, [key])
        assert signed == [int(length % 3 == place) for length in lengths]
    assert found(kernels, sends, KEYS) == [IS_SIGNED] * len(sends)


def test_more_users_than_there_are_lanes_each_with_keys_of_their_own(kernels: Any) -> None:
    """Each user has an old key and a new one; every third send is signed by the next user."""
    users = [[b"old of %d" % user, b"new of %d" % user] for user in range(45)]
    sends, signers = [], []
    for number in range(135):
        signer = (number + (number % 3 == 0)) % 45
        key = users[signer][number % 2]
        sends.append(Signed(body=b"%d" % number).with_key(key))
        signers.append(signer)
    case_of = np.arange(135, dtype=np.int64) % 45
    pads = [[pads_of(key) for key in keys] for keys in users]

    said = checked(kernels, turn_of(sends), case_of, KeyTable.of(pads))[0].tolist()

    assert said == [int(signer == number % 45) for number, signer in enumerate(signers)]
    assert {IS_SIGNED, NOT_SIGNED} == set(said)


_SENDS = st.builds(
    Signed,
    user=st.binary(max_size=9),
    text=st.binary(max_size=130),
    body=st.binary(max_size=130),
)


@given(st.lists(st.tuples(_SENDS, st.integers(0, 3)), min_size=1, max_size=70), st.integers(0, 99))
def test_signed_altered_and_foreign_sends_side_by_side(
    kernels: Any, made: list[tuple[Signed, int]], seed: int
) -> None:
    generator = random.Random(seed)
    sends = []
    for send, kind in made:
        signed = send.with_key(KEYS[kind % 2])
        if kind >= 2:
            signed = altered(generator, signed)
        sends.append(signed)

    for keys in (KEYS[:1], KEYS[:2], []):
        assert found(kernels, sends, keys) == [expected(send, keys) for send in sends]


def altered(generator: random.Random, send: Signed) -> Signed:
    """With a bit of the content or of the signature turned, or another signature."""
    if generator.randrange(2) and send.body:
        body = bytearray(send.body)
        body[generator.randrange(len(body))] ^= 1 << generator.randrange(8)
        return replace(send, body=bytes(body))
    digest = bytearray(base64.b64decode(send.signature))
    digest[generator.randrange(20)] ^= 1 << generator.randrange(8)
    return replace(send, signature=base64.b64encode(bytes(digest)))


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        b"=" * 28,
        b"A" * 28,
        b"A" * 27 + b"=",
        b"A" * 26 + b"==",
        b"no base64 at all, but of 28" + b"=",
        base64.b64encode(b"x" * 19),
        base64.b64encode(b"x" * 21),
    ],
)
def test_what_is_no_signature_signs_nothing(kernels: Any, signature: bytes) -> None:
    sends = [Signed(body=b"b", signature=signature), Signed(body=b"b").with_key(KEYS[0])]

    assert found(kernels, sends, KEYS[:1]) == [NOT_SIGNED, IS_SIGNED]


def test_letters_are_those_of_the_standard_library(kernels: Any) -> None:
    """Each byte in turn takes the place of each letter of a right signature."""
    send = Signed(body=b"b").with_key(KEYS[0])
    sends = []
    for place in (0, 13, 26):
        for byte in range(256):
            signature = bytearray(send.signature)
            signature[place] = byte
            sends.append(replace(send, signature=bytes(signature)))

    assert found(kernels, sends, KEYS[:1]) == [expected(each, KEYS[:1]) for each in sends]


def test_long_contents_are_left_to_the_caller_and_so_are_a_few_that_are_not_short(
    kernels: Any,
) -> None:
    short = Signed(body=b"x" * 100).with_key(KEYS[0])
    middle = Signed(body=b"x" * 20_000).with_key(KEYS[0])
    longest = Signed(body=b"x" * (SIZE_MAX - 1)).with_key(KEYS[0])
    long = Signed(body=b"x" * SIZE_MAX).with_key(KEYS[0])

    assert found(kernels, [short], KEYS[:1]) == [IS_SIGNED]
    assert found(kernels, [middle] * 2, KEYS[:1]) == [NOT_ASKED] * 2
    assert found(kernels, [middle] * 8, KEYS[:1]) == [IS_SIGNED] * 8
    assert found(kernels, [*[longest] * 16, long], KEYS[:1]) == [*[IS_SIGNED] * 16, NOT_ASKED]
    assert found(kernels, [long, *[longest] * 40], KEYS[:1]) == [NOT_ASKED, *[IS_SIGNED] * 40]
    assert found(kernels, [middle, long], []) == [NOT_SIGNED] * 2


def test_long_contents_with_several_keys_have_the_answers_of_the_standard_library(
    kernels: Any,
) -> None:
    generator = random.Random(21)
    sends = [
        Signed(body=generator.randbytes(generator.randrange(5_000, 9_000))).with_key(
            generator.choice(KEYS)
        )
        for _ in range(70)
    ]

    said = found(kernels, sends, KEYS[:2])

    assert {said_of for said_of in said if said_of != NOT_ASKED} == {IS_SIGNED, NOT_SIGNED}
    for send, said_of in zip(sends, said, strict=True):
        assert said_of in (NOT_ASKED, expected(send, KEYS[:2]))


def test_places_outside_of_the_arrays_are_signed_by_nobody(kernels: Any) -> None:
    turn = turn_of([Signed(body=b"b").with_key(KEYS[0])] * 40)
    pads = [[pads_of(KEYS[0])]]
    case_of = np.zeros(40, dtype=np.int64)
    case_of[1], case_of[2] = -1, 1
    turn.frames[3:, :] = np.random.default_rng(20).integers(-99, 99_999, (37, len(turn.frames[0])))

    signed = checked(kernels, turn, case_of, KeyTable.of(pads))[0].tolist()

    assert signed[:3] == [IS_SIGNED, NOT_SIGNED, NOT_SIGNED]
    assert IS_SIGNED not in signed[3:]
