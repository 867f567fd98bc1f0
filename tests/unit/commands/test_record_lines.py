"""Entries of a log in words and as objects; the entries are made here, not read from a file."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.unit.store.making import Wall, carry_over, delayed, open_store
from tests.unit.store.recording import make_record

from dueline.commands.record_lines import as_json, as_lines
from dueline.message import encode_properties
from dueline.store.inspection import BLANK, DAMAGE, GAP, RECORD, Entry, entries, find_logs
from dueline.store.outcomes import Outcomes

NOW_MS = 1_700_000_000_000
NOBODY = Outcomes()


def lines(entry: Entry, outcomes: Outcomes = NOBODY, now_ms: int = NOW_MS) -> list[str]:
    return [line.strip() for line in as_lines(entry, outcomes, now_ms)]


def of_record(**fields: Any) -> Entry:
    return Entry(kind=RECORD, position=197, size=250, record=make_record(position=197, **fields))


def control(body: bytes) -> Entry:
    return of_record(topic=b"DUELINE_SYS_CONTROL", body=body, store_ms=NOW_MS)


def control_body(kind: bytes, *numbers: int, start: int = 0, count: int = 0) -> bytes:
    """As the page on the format says it."""
    return struct.pack(f"<cqqq{len(numbers)}q", kind, start, count, len(numbers), *numbers)


# --- what is no record ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (GAP, "40  gap: compacted away (60 bytes)"),
        (BLANK, "40  blank: goes on in the next segment (60 bytes)"),
    ],
)
def test_space_between_records_is_one_line(kind: str, words: str) -> None:
    entry = Entry(kind=kind, position=40, size=60)

    assert lines(entry) == [words]
    assert as_json(entry, "delay", NOBODY) == {
        "log": "delay",
        "kind": kind,
        "position": 40,
        "size": 60,
    }


def test_damage_says_where_it_ends_and_why() -> None:
    entry = Entry(kind=DAMAGE, position=40, size=60, reason="torn: body CRC")

    assert lines(entry) == ["40  DAMAGE up to 100 (60 bytes): torn: body CRC"]
    assert as_json(entry, "commit", NOBODY)["reason"] == "torn: body CRC"


# --- control records ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words", "name"),
    [
        (control_body(b"C", 4, 7), "cancelled 4, 7", "cancel"),
        (control_body(b"X", 4, 7), "expired 4, 7", "expire"),
        (
            control_body(b"E", start=96, count=3),
            "end of a group of 3 records from 96 on",
            "end",
        ),
        (
            control_body(b"E", 5, start=96, count=3),
            "end of a group of 3 records from 96 on; done without a delivery: 5",
            "end",
        ),
    ],
    ids=["cancel", "expire", "end", "end-with-dropped"],
)
def test_a_control_record_says_what_it_did(body: bytes, words: str, name: str) -> None:
    assert lines(control(body)) == [f"197  control: {words} (250 bytes)"]
    found = as_json(control(body), "delay", NOBODY)
    assert (found["kind"], found["control"]) == ("control", name)


def test_of_many_numbers_people_see_a_dozen_and_programs_all() -> None:
    entry = control(control_body(b"C", *range(14)))

    (line,) = lines(entry)

    assert "cancelled 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more (" in line
    assert as_json(entry, "delay", NOBODY)["numbers"] == list(range(14))
    assert "more" not in lines(control(control_body(b"C", *range(12))))[0]


def test_a_control_record_that_is_none_of_ours_is_shown_with_its_reason() -> None:
    entry = control(b"?" * 25)

    (line,) = lines(entry)

    assert "expected a kind and its numbers, found b'????" in line
    found = as_json(entry, "delay", NOBODY)
    assert found["kind"] == "control"
    assert "control record at 197" in found["reason"]


# --- messages -------------------------------------------------------------------------------------


def test_an_ordinary_message_has_a_place_a_time_and_a_body() -> None:
    entry = of_record(queue_id=3, queue_offset=12, properties=encode_properties({"TAGS": "g"}))

    first, properties, body = lines(entry)

    assert first.startswith("197  orders/3 @12  stored 2023-11-1")
    assert first.endswith("250 bytes")
    assert (properties, body) == ("TAGS=g", "body, 4 bytes: body")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"sys_flag": 0x4}, "  half"),
        ({"sys_flag": 0x8}, "  committed"),
        ({"sys_flag": 0xC}, "  rolled back"),
        ({"reconsume_times": 2}, "  retry 2"),
        ({"sys_flag": 0x8, "reconsume_times": 2}, "  committed  retry 2"),
        ({"sys_flag": 0x2}, ""),
    ],
)
def test_transactions_and_attempts_are_named(fields: dict[str, int], words: str) -> None:
    assert lines(of_record(**fields))[0].endswith(f"250 bytes{words}")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", ""),
        (b"a" * 100, "a" * 100),
        (b"a" * 101, "a" * 100 + "…"),
        (b"a" * 99 + "é".encode(), "a" * 99 + "…"),  # cut in the middle of a character
        (b"a" * 98 + "é".encode(), "a" * 98 + "é"),
        (b"ab\xc3", "6162c3"),  # nothing was cut: it is no text
        (b"\xff" * 101, "ff" * 100 + "…"),
        (b"a\0b", "610062"),
    ],
)
def test_a_body_is_text_if_it_can_be(body: bytes, shown: str) -> None:
    assert lines(of_record(body=body))[-1] == f"body, {len(body)} bytes: {shown}".strip()


def test_a_compressed_body_is_read_and_not_blown_up() -> None:
    packed = zlib.compress(b"x" * (4 << 20), 9)

    assert lines(of_record(body=packed, sys_flag=1))[-1] == (
        f"body, {len(packed)} bytes: (compressed) {'x' * 100}…"
    )
    wrong = of_record(body=b"no zlib", sys_flag=1)
    assert lines(wrong)[-1] == f"body, 7 bytes: (compressed) {b'no zlib'.hex()}"


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    assert "stored 9223372036854775807 ms" in lines(of_record(store_ms=(1 << 63) - 1))[0]


def test_an_object_is_json_whatever_the_bytes_are() -> None:
    entry = of_record(
        topic=b"caf\xc3\xa9\xff", body=b"\xff\0", properties=encode_properties({"a": "\udc80"})
    )

    found = json.loads(json.dumps(as_json(entry, "commit", NOBODY)))

    assert found["topic"] == "café\ufffd"
    assert base64.b64decode(found["body_base64"]) == b"\xff\0"
    assert "due_ms" not in found
    assert "state" not in found


# --- delayed messages -----------------------------------------------------------------------------


def test_a_delayed_message_is_followed_from_waiting_to_the_gate(tmp_path: Path) -> None:
    wall = Wall(NOW_MS)
    with open_store(tmp_path, wall) as store:
        store.put(delayed(90_000, b"x", topic="calls"))
        delay = find_logs(tmp_path)[1]
        (waiting,) = entries(delay)
        outcomes = Outcomes(tmp_path)
        said = lines(waiting, outcomes)[1]
        assert said.startswith("for calls/0, due 2023-11-1")
        assert said.endswith(", in 1 m 30 s, number 0, pending")
        late = lines(waiting, outcomes, NOW_MS + 90_000)[1]
        assert ", in " not in late
        found = as_json(waiting, "delay", outcomes)
        assert (found["due_ms"], found["real_topic"]) == (NOW_MS + 90_000, "calls")
        assert (found["seq"], found["state"]) == (0, "pending")

        carry_over(store)
        carried = next(entries(find_logs(tmp_path)[0]))
        outcomes = Outcomes(tmp_path)

    at_gate = "number 0, delivered, waits at the gate for another 1 m 30 s"
    assert lines(carried, outcomes)[1] == at_gate
    assert lines(carried, outcomes, NOW_MS + 90_000)[1] == "number 0, delivered"
    assert lines(waiting, outcomes)[1].endswith("number 0, delivered")
    assert lines(waiting, NOBODY)[1].endswith("number 0"), "no store: nobody knows its state"
