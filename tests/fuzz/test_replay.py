"""The saved inputs of all fuzzing so far, and a thousand changed ones; `make fuzz` goes on."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.fuzz.corpus import saved
from tests.fuzz.targets import TARGETS

MUTANT_COUNT = 1_000


@pytest.mark.parametrize("name", TARGETS)
def test_saved_inputs_are_read_or_refused(name: str) -> None:
    inputs = [*TARGETS[name].seeds(), *saved(name)]

    assert len(saved(name)) >= 5
    for data in inputs:
        TARGETS[name].run(data)


@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs_are_read_or_refused(name: str) -> None:
    generator = random.Random(name)
    inputs = [*TARGETS[name].seeds(), *saved(name)]

    for data in mutants(generator, inputs):
        try:
            TARGETS[name].run(data)
        except Exception as error:
            raise AssertionError(f"target {name}, input {data!r}") from error


def mutants(generator: random.Random, inputs: list[bytes]) -> Iterator[bytes]:
    """Bytes changed, pieces cut out, doubled, or taken from another input."""
    for _ in range(MUTANT_COUNT):
        data = bytearray(generator.choice(inputs))
        for _ in range(generator.randrange(1, 4)):
            start = generator.randrange(len(data) + 1)
            end = generator.randrange(start, len(data) + 1)
            match generator.randrange(4):
                case 0:
                    data[start : start + 1] = generator.randbytes(1)
                case 1:
                    del data[start:end]
                case 2:
                    data[start:start] = data[start:end]
                case _:
                    data[start:end] = generator.choice(inputs)[start:end]
        yield bytes(data[:4_096])
