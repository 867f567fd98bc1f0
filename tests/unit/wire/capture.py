"""The captured frames as values, read without the code under test."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "golden"
_LINE = re.compile(
    r"\S+ (?P<source>\d+)->(?P<target>\d+) len=(?P<length>\d+) type=(?P<type>[01]) "
    r"hdr=(?P<header>.*?) body\[(?P<size>\d+)\]=(?P<body>b['\"].*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One frame of a capture."""

    line: int
    serialization: int
    header: bytes
    body: bytes
    is_body_whole: bool
    length: int
    is_to_server: bool

    @property
    def frame(self) -> bytes:
        """The frame's bytes; a body that the recorder cut stays cut and the lengths follow it."""
        word = self.serialization << 24 | len(self.header)
        length = 4 + len(self.header) + len(self.body)
        return length.to_bytes(4, "big") + word.to_bytes(4, "big") + self.header + self.body

    @property
    def fields(self) -> dict[str, Any]:
        """A JSON header's fields, by the standard library."""
        fields = json.loads(self.header)
        assert isinstance(fields, dict)
        return fields


@cache
def captured(name: str) -> tuple[Captured, ...]:
    """All frames of `wire-json.txt` or `wire-binary.txt`."""
    lines = (_FOLDER / name).read_text().splitlines()
    return tuple(_captured(number, line) for number, line in enumerate(lines, start=1))


def _captured(number: int, line: str) -> Captured:
    match = _LINE.fullmatch(line)
    assert match, f"line {number} is no captured frame: {line[:100]}"
    text, body = match["header"], ast.literal_eval(match["body"])
    return Captured(
        line=number,
        serialization=int(match["type"]),
        header=bytes.fromhex(text) if match["type"] == "1" else text.encode(),
        body=body,
        is_body_whole=len(body) == int(match["size"]),
        length=int(match["length"]),
        is_to_server=match["target"] in ("9876", "10911"),
    )


JSON_FRAMES = captured("wire-json.txt")
BINARY_FRAMES = captured("wire-binary.txt")
ALL_FRAMES = JSON_FRAMES + BINARY_FRAMES
OF_BROKERS = (103, 104)
"""Requests that only brokers send, to a name server of another kind than ours."""
