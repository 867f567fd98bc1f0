"""A source to fill and a place to take it to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.store.making import SMALL, QuickFiles, Wall
from tests.unit.takeover.making import START_MS, FakeBroker

from dueline.takeover import Moved, Options, Source, take_over
from dueline.takeover.moving import Destination

TakeOver = Callable[..., Moved]
LEVELS = "1s 5s 10s 30s 1m"


@pytest.fixture
def fake(tmp_path: Path) -> FakeBroker:
    return FakeBroker(tmp_path / "source")


@pytest.fixture
def wall() -> Wall:
    """An hour after the source's broker ended."""
    return Wall(START_MS + 3_600_000)


@pytest.fixture
def to(tmp_path: Path, wall: Wall) -> Destination:
    options = replace(SMALL, levels=LEVELS)
    return Destination(
        folder=tmp_path / "data", store=options, clock=wall.clock(), files=QuickFiles()
    )


@pytest.fixture
def move(fake: FakeBroker, to: Destination) -> TakeOver:
    """Take the source over, which is saved if it is not yet."""

    def move(**options: object) -> Moved:
        if not fake.path.exists():
            fake.save()
        with Source(fake.path) as source:
            return take_over(source, to, Options(**{"levels": LEVELS, **options}))  # type: ignore[arg-type]

    return move
