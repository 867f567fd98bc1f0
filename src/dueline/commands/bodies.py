"""Bodies of messages, for people and for programs.

>>> body_fields(b"order 17"), body_fields(b"\\xff")
({'body': 'order 17'}, {'body_base64': '/w=='})
"""

from __future__ import annotations

import base64

__all__ = ["body_fields", "body_text"]


def body_text(body: bytes) -> str:
    """Text; bytes that are none are shown as escapes."""
    return body.decode("utf-8", "backslashreplace")


def body_fields(body: bytes) -> dict[str, str]:
    """For JSON, so that no body is changed: text as it is, anything else in base 64."""
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode("ascii")}
