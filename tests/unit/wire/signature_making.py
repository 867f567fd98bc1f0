"""Signed frames as a turn has them, made by hand, for tests of what checks signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dueline.wire.turn import (
    FRAME_BODY_START,
    FRAME_CHANNEL,
    FRAME_END,
    FRAME_HEAD,
    FRAME_IS_FAST,
    FRAME_SIGNATURE_END,
    FRAME_SIGNATURE_START,
    FRAME_SIGNED_END,
    FRAME_SIGNED_START,
    FRAME_USER_END,
    FRAME_WIDTH,
    Turn,
)

KEYS = [b"a secret", b"k" * 64, b"another, of more than one block: " + b"x" * 60]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A send: the user's name stands first in what was signed."""

    user: bytes = b"u"
    text: bytes = b""
    body: bytes = b""
    signature: bytes = b""
    channel: int = 0
    head: int = 0

    @property
    def content(self) -> bytes:
        return self.user + self.text + self.body

    def with_key(self, key: bytes) -> Signed:
        digest = hmac.digest(key, self.content, "sha1")
        return replace(self, signature=base64.b64encode(digest))


def turn_of(sends: Sequence[Signed]) -> Turn:
    data, texts = bytearray(b"before"), bytearray(b"first")
    frames = np.zeros((len(sends), FRAME_WIDTH), dtype=np.int64)
    for frame, send in zip(frames, sends, strict=True):
        frame[FRAME_IS_FAST] = 1
        frame[FRAME_CHANNEL], frame[FRAME_HEAD] = send.channel, send.head
        frame[FRAME_SIGNATURE_START] = len(data)
        data += send.signature
        frame[FRAME_SIGNATURE_END] = len(data)
        data += b","
        frame[FRAME_BODY_START] = len(data)
        data += send.body
        frame[FRAME_END] = len(data)
        frame[FRAME_SIGNED_START] = len(texts)
        frame[FRAME_USER_END] = len(texts) + len(send.user)
        texts += send.user + send.text
        frame[FRAME_SIGNED_END] = len(texts)
    nothing = np.empty((0, 0), dtype=np.int64)
    return Turn(
        np.frombuffer(bytes(data), dtype=np.uint8),
        np.frombuffer(bytes(texts), dtype=np.uint8),
        frames,
        nothing,
        nothing,
    )


def pads_of(key: bytes) -> bytes:
    """The two blocks with which HMAC begins, as RFC 2104 says."""
    if len(key) > 64:
        key = hashlib.sha1(key).digest()
    block = key.ljust(64, b"\0")
    return bytes(byte ^ 0x36 for byte in block) + bytes(byte ^ 0x5C for byte in block)
