"""The look before the leap."""

from __future__ import annotations

import pytest
from tests.unit.takeover.conftest import LEVELS
from tests.unit.takeover.making import FakeBroker

from dueline.errors import CorruptRecord, NotFound
from dueline.takeover import Source, Survey, survey
from dueline.takeover.rows import Choice


def look(fake: FakeBroker, **options: bool) -> Survey:
    if not fake.path.exists():
        fake.save()
    with Source(fake.path) as source:
        return survey(source, Choice(levels=LEVELS), size_max=4000, **options)  # type: ignore[arg-type]


def test_queues_begin_at_their_first_unread_message(fake: FakeBroker) -> None:
    for number in range(30):
        fake.message("orders", number % 3, bytes(300))
    fake.offsets = {"orders@g": {0: 4, 1: 0, 2: 10}}

    found = look(fake)

    spans = {name: (span.first, span.last, span.count) for name, span in found.queues.items()}
    assert spans == {("orders", 0): (4, 9, 6), ("orders", 1): (0, 9, 10)}
    assert found.record_count == 30
    assert found.mark is not None


def test_torn_end_is_no_damage(fake: FakeBroker) -> None:
    fake.message("orders", 0, b"whole")
    torn = fake.message("orders", 0, b"torn")
    segment = fake.save() / "commitlog" / ("0" * 20)
    data = bytearray(segment.read_bytes())
    data[torn + 60 :] = bytes(len(data) - torn - 60)
    segment.write_bytes(data)

    found = look(fake)

    assert (found.record_count, found.damage) == (1, [])
    assert [one.start for one in found.torn] == [torn]


def test_many_damaged_places_are_summed_up(fake: FakeBroker) -> None:
    positions = [fake.message("orders", 0, b"body") for _ in range(16)]
    segment = fake.save() / "commitlog" / ("0" * 20)
    data = bytearray(segment.read_bytes())
    for position in positions[:14:2]:
        data[position + 89] ^= 4
    segment.write_bytes(data)

    with pytest.raises(CorruptRecord, match=r"and 2 more; take the store of a replica") as caught:
        look(fake)

    assert len(caught.value.damage) == 7
    assert look(fake, skip_damaged=True).record_count == 9


def test_delayed_messages_without_progress_are_refused(fake: FakeBroker) -> None:
    fake.delayed("orders", 0, b"x", 1)
    fake.delay_offsets = None

    with pytest.raises(NotFound, match=r"delayOffset\.json.*1 messages.*--assume-pending"):
        look(fake)

    assert look(fake, assume_pending=True).record_count == 1


def test_no_delayed_messages_need_no_progress(fake: FakeBroker) -> None:
    fake.message("orders", 0, b"x")
    fake.delay_offsets = None

    assert look(fake).record_count == 1


def test_empty_log_has_no_mark(fake: FakeBroker) -> None:
    fake._place(100)

    assert look(fake).mark is None
