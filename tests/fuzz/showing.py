"""Records with changed bytes, for the kernel that writes what consumers receive."""

from __future__ import annotations

import random
from typing import Any

from tests.unit.store.recording import make_record
from tests.unit.wire.turn_oracle import changed

from dueline.broker.inflight import Held
from dueline.message import encode_properties
from dueline.server.grpc.message_table import write_table
from dueline.store.record import MARK_DELAYED, MARK_PRESENT, seal

HEAD = b"\x0a\x03\x12\x01t"
PROPERTIES: tuple[dict[str, str], ...] = (
    {"TAGS": "a", "KEYS": "k1 k2", "UNIQ_KEY": "A1", "own": "x" * 130, "WAIT": "true"},
    {"KEYS": " ", "a": "b", "c": "d", "e": "f"},
    {"TRACE_CONTEXT": "t"},
    {},
)


class Showing:
    """Receives of a few records."""

    def __init__(self, generator: random.Random, plain_kernels: Any, kernels: Any) -> None:
        self._generator = generator
        self._kernels = plain_kernels, kernels
        self.shown_count = 0

    def check(self) -> None:
        held = [self._held() for _ in range(self._generator.randrange(1, 4))]
        plain, kernels = self._kernels
        data, ends = write_table(plain, kernels, held, HEAD, b"\x7a\x02\x08\x1e\x80\x01")
        assert ends == sorted(ends)
        assert ends[-1] == len(data)
        self.shown_count += bool(data)

    def _held(self) -> Held:
        generator = self._generator
        mark = generator.choice((MARK_PRESENT, MARK_PRESENT | MARK_DELAYED | 5))
        data = seal(
            make_record(
                properties=encode_properties(generator.choice(PROPERTIES)),
                body=generator.randbytes(generator.choice((0, 60, 130))),
                mark=mark,
            )
        )
        if generator.random() < 0.7:
            data = changed(generator, data)
        receipt = "r" * generator.choice((0, 5, 130))
        return Held(data, receipt=receipt, attempt=generator.randrange(1, 300), visible_ms=0)
