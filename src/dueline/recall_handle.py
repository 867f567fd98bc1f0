"""A recall handle: what a producer gets with a delayed send, and shows to take the message back.

    v1 TOPIC BROKER DUE_MS UNIQUE_ID     as URL-safe base64

It is RocketMQ's own form, because RocketMQ's 5.x remoting client reads the broker's name from it.
A handle is a name and not a permission: the store looks for a message that was sent to that topic
with that unique id, and a handle that was made up reaches nothing else. Keys are not ids here, and
another topic's message is not found, however the handle was made.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Final, Self

from dueline.errors import InvalidRequest

__all__ = ["RecallHandle", "encode_handle"]

SIZE_MAX: Final = 64 * 1024
_VERSION: Final = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallHandle:
    """One message of one topic of one broker.

    >>> handle = RecallHandle(topic="t", broker_name="b", due_ms=17, unique_id="0A")
    >>> RecallHandle.decode(handle.encode()) == handle
    True
    """

    topic: str
    broker_name: str
    due_ms: int
    unique_id: str

    def encode(self) -> str:
        return encode_handle(self.topic, self.broker_name, self.due_ms, self.unique_id)

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read a handle; whether it is of this broker and for this topic, `check` says.

        Raises:
            InvalidRequest: it is none.
        """
        try:
            if len(text) > SIZE_MAX:
                raise ValueError  # noqa: TRY301 - said below, as for every other text that is none
            padded = text.encode("ascii") + b"=" * (-len(text) % 4)
            data = base64.b64decode(padded, altchars=b"-_", validate=True)
            words = data.decode("utf-8", "surrogateescape").split(" ", 4)
            version, topic, broker_name, due_ms, unique_id = words
            if version == _VERSION and unique_id:
                return cls(
                    topic=topic, broker_name=broker_name, due_ms=int(due_ms), unique_id=unique_id
                )
        except (ValueError, binascii.Error):
            pass
        raise InvalidRequest(
            "recall handle: expected one that a send was answered with, found another text",
            what="recall handle",
        )

    def check(self, *, topic: str, broker_name: str) -> None:
        """Raises InvalidRequest if it was made for another topic or by another broker."""
        for what, wanted, found in (
            ("topic", self.topic, topic),
            ("broker", broker_name, self.broker_name),
        ):
            if wanted != found:
                raise InvalidRequest(
                    f"recall: expected {what} {wanted[:200]!r}, found {found[:200]!r}",
                    what="recall handle",
                )


def encode_handle(topic: str, broker_name: str, due_ms: int, unique_id: str) -> str:
    """The text of a handle, without a value between: one is made for every delayed send."""
    text = f"{_VERSION} {topic} {broker_name} {due_ms} {unique_id}"
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogateescape")).decode()
