"""Secrets are sealed for one user with one key, and compared as a whole."""

import base64
import hashlib
import hmac
import stat
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from dueline.broker.access.secrets import (
    Seal,
    check_secret,
    is_same,
    new_secret,
    signature_of,
    token_hash,
)
from dueline.errors import InvalidRequest, StoreError
from dueline.store.files import Files


def test_a_sealed_secret_is_read_again_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "access" / "users.key"

    sealed = Seal(path, Files()).seal("a secret of mine", "billing")

    assert Seal(path, Files()).unseal(sealed, "billing") == "a secret of mine"
    assert b"a secret of mine" not in base64.b64decode(sealed)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_same_secret_is_sealed_differently_each_time(tmp_path: Path) -> None:
    seal = Seal(tmp_path / "key", Files())

    assert seal.seal("12345678", "a") != seal.seal("12345678", "a")


def test_a_secret_cannot_be_moved_to_another_user_or_key(tmp_path: Path) -> None:
    sealed = Seal(tmp_path / "one", Files()).seal("12345678", "billing")

    for seal, name in (
        (Seal(tmp_path / "one", Files()), "admin"),
        (Seal(tmp_path / "other", Files()), "billing"),
    ):
        with pytest.raises(StoreError, match="sealed with the key in"):
            seal.unseal(sealed, name)


@pytest.mark.parametrize(
    "sealed", ["", "AAAA", "not base64!", base64.b64encode(bytes(60)).decode()]
)
def test_what_was_never_sealed_is_refused(tmp_path: Path, sealed: str) -> None:
    with pytest.raises(StoreError):
        Seal(tmp_path / "key", Files()).unseal(sealed, "billing")


@pytest.mark.parametrize("data", [b"", b"short", base64.b64encode(bytes(7)), b"\xff" * 40])
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "key").write_bytes(data)

    with pytest.raises(StoreError, match="expected a key of 32 bytes"):
        Seal(tmp_path / "key", Files())


def test_a_signature_is_that_of_rfc_2202() -> None:
    assert signature_of(b"Jefe", b"what do ya want for nothing?").hex() == (
        "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"
    )


def test_secrets_that_are_made_are_long_and_different() -> None:
    made = {new_secret() for _ in range(100)}

    assert len(made) == 100
    assert all(len(secret) >= 40 and ":" not in secret for secret in made)
    for secret in made:
        check_secret(secret)


def test_a_refused_secret_is_not_repeated() -> None:
    for wrong in ("short", "x" * 257, "tab\tinside it"):
        with pytest.raises(InvalidRequest) as refused:
            check_secret(wrong)
        assert wrong not in str(refused.value)


def test_tokens_are_hashed_and_compared_as_a_whole() -> None:
    assert token_hash("abc") == hashlib.sha256(b"abc").hexdigest()
    assert is_same(b"abc", b"abc")
    assert not is_same(b"abc", b"abd")
    assert not is_same(b"abc", b"ab")


@given(secret=st.binary(max_size=200), content=st.binary(max_size=500))
def test_signatures_are_those_of_the_standard_library(secret: bytes, content: bytes) -> None:
    assert signature_of(secret, content) == hmac.digest(secret, content, "sha1")


@pytest.mark.parametrize(
    "size", [1_983, 1_984, 1_985, 2_048, 4_000, 65_535, 65_536, 65_537, 200_000]
)
def test_signatures_of_long_contents_are_those_of_the_standard_library(size: int) -> None:
    content = bytes(number * number % 251 for number in range(size))
    whole = hmac.digest(b"secret", b"head" + content, "sha1")

    assert signature_of(b"secret", b"head", content) == whole
    assert signature_of(b"secret", memoryview(b"head"), memoryview(content)) == whole
