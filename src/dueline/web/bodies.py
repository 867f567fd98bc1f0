"""A message's body to look at: as text, as JSON or as bytes in hexadecimal, no more than a bound.

>>> forms_of(b'{"a": 1}'), forms_of(b"plain"), forms_of(bytes([0, 255]))
(['json', 'text', 'hex'], ['text', 'hex'], ['hex'])
"""

from __future__ import annotations

import codecs
import json
from typing import Final

__all__ = ["SHOWN_BYTES_MAX", "forms_of", "show_body"]

SHOWN_BYTES_MAX: Final = 64 << 10
_HEX_WIDTH: Final = 16


def forms_of(body: bytes) -> list[str]:
    """The ways in which a body can be shown, the best one first."""
    text = _text(body)
    if text is None:
        return ["hex"]
    return ["json", "text", "hex"] if _parsed(text) is not None else ["text", "hex"]


def show_body(body: bytes, form: str) -> str:
    """A body in one of its forms."""
    if form == "json":
        text = _text(body)
        return json.dumps(_parsed(text or ""), indent=2, ensure_ascii=False)[:SHOWN_BYTES_MAX]
    shown = body[:SHOWN_BYTES_MAX]
    if form == "text":
        return shown.decode("utf-8", "replace")
    lines = []
    for start in range(0, len(shown), _HEX_WIDTH):
        part = shown[start : start + _HEX_WIDTH]
        plain = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * _HEX_WIDTH}} {plain}")
    return "\n".join(lines)


def _text(body: bytes) -> str | None:
    """The text that a body is; a bound may have cut its last character."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return None
    return text if _is_readable(text) else None


def _is_readable(text: str) -> bool:
    return not any(ord(each) < 32 and each not in "\t\n\r" for each in text)


def _parsed(text: str) -> object | None:
    """An object or a list; None if it is no JSON, or only a word of it."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None
