"""Secrets: made, kept on disk, compared.

A signature can only be checked by someone who has the secret itself, so the secrets of users that
sign are *sealed*: encrypted (AES-256-GCM, bound to the user's name) with a key that is in a file of
its own, which only the owner may read. Who has a copy of the users' file and not of the key has no
secret. A *token* is a secret that is shown instead of being used to sign: of these only a hash is
kept. Tokens are always made here, from 32 random bytes, so that no dictionary has them and a plain
SHA-256 is enough.

Comparisons take the same time wherever the first difference is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from binascii import b2a_base64
from collections.abc import Iterable
from functools import lru_cache
from hmac import compare_digest
from pathlib import Path
from typing import Final, TypeAlias

from dueline.errors import InvalidRequest, StoreError
from dueline.store.files import Files

__all__ = [
    "Begun",
    "Seal",
    "begun",
    "check_secret",
    "has_signed",
    "is_same",
    "new_secret",
    "pads_of",
    "signature_of",
    "token_hash",
]

Begun: TypeAlias = "tuple[hashlib._Hash, hashlib._Hash]"
"""The inner and the outer hash of HMAC, which have taken in a secret."""

SECRET_SIZE_MIN: Final = 8
SECRET_SIZE_MAX: Final = 256
_KEY_SIZE_BYTES: Final = 32
_NONCE_SIZE_BYTES: Final = 12
_PADS_MAX: Final = 4_096
_BLOCK_SIZE_BYTES: Final = 64
_PIECE_SIZE_BYTES: Final = 31 * _BLOCK_SIZE_BYTES
"""`hashlib` gives the interpreter's lock away while it hashes 2,048 bytes and more."""
_PIECES_SIZE_MAX: Final = 64 << 10
"""Up to so much, getting the lock back from another thread takes longer than hashing."""
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


def new_secret() -> str:
    """A secret that nobody guesses: 32 random bytes as letters, digits, - and _."""
    return secrets.token_urlsafe(32)


def check_secret(secret: str) -> None:
    """Refuse secrets that cannot be typed, or that are too short to be any.

    Raises:
        InvalidRequest: says what was expected, and not what was found.
    """
    if not SECRET_SIZE_MIN <= len(secret) <= SECRET_SIZE_MAX or not secret.isprintable():
        raise InvalidRequest(
            f"secret: expected {SECRET_SIZE_MIN} to {SECRET_SIZE_MAX} printable characters, found "
            f"{len(secret)} characters",
            field="secret",
        )


def token_hash(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def signature_of(secret: bytes, *contents: bytes | memoryview) -> bytes:
    """The signature of contents in a row by a secret: HMAC with SHA-1, as RocketMQ's clients make.

    As RFC 2104 writes it, from where both hashes have taken in the secret: `hmac` looks the hash
    up by name and begins anew, and takes three times as long.
    """
    both = begun(secret)
    inner, outer = both[0].copy(), both[1].copy()
    for content in contents:
        if _PIECE_SIZE_BYTES < len(content) <= _PIECES_SIZE_MAX:
            view = memoryview(content)
            for start in range(0, len(view), _PIECE_SIZE_BYTES):
                inner.update(view[start : start + _PIECE_SIZE_BYTES])
        else:
            inner.update(content)
    outer.update(inner.digest())
    return outer.digest()


def has_signed(both: Iterable[Begun], content: bytes, signature: bytes) -> bool:
    """Has one who knows one of these secrets signed this? The same as `signature_of` and `is_same`
    say, for those who keep what `begun` has made of a secret and ask often.

    Args:
        signature: as clients write it, in base64; another way to write the same is not known here.
    """
    for begun_inner, begun_outer in both:
        inner, outer = begun_inner.copy(), begun_outer.copy()
        inner.update(content)
        outer.update(inner.digest())
        if compare_digest(b2a_base64(outer.digest(), newline=False), signature):
            return True
    return False


@lru_cache(maxsize=_PADS_MAX)
def begun(secret: bytes) -> Begun:
    """What signatures by a secret begin with."""
    inner, outer = pads_of(secret)
    return hashlib.sha1(inner), hashlib.sha1(outer)


@lru_cache(maxsize=_PADS_MAX)
def pads_of(secret: bytes) -> tuple[bytes, bytes]:
    """A secret as HMAC begins its two hashes with it: a block for the inner, one for the outer."""
    if len(secret) > _BLOCK_SIZE_BYTES:
        secret = hashlib.sha1(secret).digest()
    block = secret.ljust(_BLOCK_SIZE_BYTES, b"\0")
    return block.translate(_INNER), block.translate(_OUTER)


def is_same(found: bytes, expected: bytes) -> bool:
    """Are they equal? Takes as long for the last byte as for the first."""
    return compare_digest(found, expected)


class Seal:
    """Encrypts secrets with the key of one file, which is made if it is not there."""

    def __init__(self, path: Path, files: Files) -> None:
        """Read the key, or make one.

        Raises:
            StoreError: the file holds no key.
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # some 30 ms to load

        if not files.exists(path):
            files.make_folder(path.parent)
            files.replace(path, [base64.b64encode(os.urandom(_KEY_SIZE_BYTES)) + b"\n"])
        self._path = path
        try:
            self._cipher = AESGCM(base64.b64decode(files.read(path).strip(), validate=True))
        except (ValueError, binascii.Error):
            raise StoreError(
                f"{path}: expected a key of {_KEY_SIZE_BYTES} bytes in base64, found something "
                "else; put the right file there, or start without users that sign",
                path=str(path),
            ) from None

    def seal(self, secret: str, name: str) -> str:
        """A secret as it is kept."""
        nonce = os.urandom(_NONCE_SIZE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, secret.encode(), name.encode())
        return base64.b64encode(sealed).decode()

    def unseal(self, text: str, name: str) -> str:
        """The secret that was sealed for this user.

        Raises:
            StoreError: it was sealed with another key, or for another user, or was changed.
        """
        from cryptography.exceptions import InvalidTag

        try:
            sealed = base64.b64decode(text, validate=True)
            secret = self._cipher.decrypt(
                sealed[:_NONCE_SIZE_BYTES], sealed[_NONCE_SIZE_BYTES:], name.encode()
            )
        except (InvalidTag, ValueError, binascii.Error):
            raise StoreError(
                f"the secret of user {name}: expected it sealed with the key in {self._path}, "
                "found that it was not; put the right key there, or give the user a new secret",
                path=str(self._path),
            ) from None
        return secret.decode()
