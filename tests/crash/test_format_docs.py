"""What docs/format/ says is true of the files of a real store.

The tables of the pages are read from the pages and used to take the files apart; no code of the
store decodes anything here.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.crash.script import STEPS, Driver

from dueline.store import Files

DOCS = Path(__file__).resolve().parents[2] / "docs" / "format"


def table(page: str, header: str) -> list[list[str]]:
    """The rows of the first table of a page whose header begins with a cell."""
    lines = (DOCS / page).read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(f"| {header} |"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return rows


def names_in(rows: list[list[str]]) -> set[str]:
    """The names in the first cells, of which some hold several."""
    return {name.strip("`") for row in rows for name in row[0].split(", ")}


def decode(page: str, data: bytes) -> dict[str, int]:
    """The fields with a fixed place, by the page's table; big-endian."""
    fields = [row for row in table(page, "at") if row[0].isdigit() and row[1].isdigit()]
    return {
        name: int.from_bytes(data[int(at) : int(at) + int(size)], "big")
        for at, size, name, *_ in fields
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    driver = Driver(tmp_path_factory.mktemp("docs") / "store", Files())
    driver.open()
    for step in STEPS[:28]:
        step.action(driver)
    driver.put_many("z", [80_000 + n for n in range(9)])
    driver.close()
    return driver.path


def first_file(folder: Path) -> Path:
    return min(path for path in folder.rglob("*") if path.is_file())


def records(path: Path) -> list[bytes]:
    """The records of a log's first segment, by their sizes."""
    return records_of(first_file(path))


def records_of(segment: Path) -> list[bytes]:
    """Each as it is to be read."""
    position = int(segment.name)
    found = []
    for data in stored_in(segment):
        found.append(unpacked(data, position) if is_packed(data) else data)
        position += len(data)
    return found


def stored_in(segment: Path) -> list[bytes]:
    """The records of a segment as they stand there."""
    data = segment.read_bytes()
    found = []
    at = 0
    while size := int.from_bytes(data[at : at + 4], "big"):
        record = data[at : at + size]
        if record[4] != 0xDA and not is_packed(record):
            break
        found.append(record)
        at += size
    return found


def is_packed(record: bytes) -> bool:
    return f"{int.from_bytes(record[4:8], 'big'):08X}" == magic_of("packed.md")


def magic_of(page: str) -> str:
    return next(row[3] for row in table(page, "at") if row[2] == "magic").strip("`")


def unpacked(data: bytes, position: int) -> bytes:
    """The record that a packed one stands for, in the words of the page."""
    fields = decode("packed.md", data)
    flags = fields["flags"]
    word = len(data) ^ position & 0xFFFFFFFF ^ position >> 32
    assert fields["total"] == len(data)
    assert fields["crc"] == zlib.crc32(data[12:]) ^ word
    rare = data[64:76] if flags & 8 else bytes(12)
    at = 76 if flags & 8 else 64
    body, at = data[at : at + fields["bodySize"]], at + fields["bodySize"]
    digits, at = data[at : at + fields["idSize"]].hex().upper(), at + fields["idSize"]
    topic, text = data[-fields["topicSize"] :].decode(), data[at : -fields["topicSize"]].decode()
    due = f"\x01{fields['when']}"
    if fields["idSize"]:
        text = put_in(text, fields["idAt"], "UNIQ_KEY\x01" + digits)
    if flags & 4:
        text = put_in(text, fields["dueAt"], "TIMER_DELIVER_MS" + due)
    text += "\x02TIMER_OUT_MS" + due if flags & 1 else ""
    text += f"\x02REAL_TOPIC\x01{topic}\x02REAL_QID\x01{fields['realQueue']}"
    log_topic = b"rmq_sys_wheel_timer" if flags & 1 else b"SCHEDULE_TOPIC_XXXX"
    mark = 3 << 61 | (flags >> 1 & 1) << 60 | fields["number"]
    tail = struct.pack("B19sH", 19, log_topic, 0)[:20] + struct.pack(">H", len(text))
    tail += text.encode()

    def header(mark: int) -> bytes:
        numbers = (0 if flags & 1 else fields["when"], rare[:4], fields["queueOffset"], position)
        start = struct.pack(
            ">IIII4sQQ4s",
            *(88 + len(body) + len(tail), int(magic_of("record.md"), 16)),
            *(zlib.crc32(body) & 0x7FFFFFFF, *numbers, rare[4:8]),
        )
        hosts = [data[at : at + 4] + b"\0\0" + data[at + 4 : at + 6] for at in (40, 46)]
        end = struct.pack(">4sQI", rare[8:], mark, len(body))
        times = [fields[name].to_bytes(8, "big") for name in ("bornMs", "storeMs")]
        return b"".join((start, times[0], hosts[0], times[1], hosts[1], end))

    unchecked = header(mark) + body + tail
    check = check_of(unchecked, decode("record.md", unchecked))
    return header(mark | check << 44) + body + tail


def put_in(text: str, at: int, entry: str) -> str:
    if at:
        return f"{text[:at]}\x02{entry}{text[at:]}"
    return f"{entry}\x02{text}" if text else entry


def tail_of(record: bytes) -> tuple[bytes, str, bytes]:
    """Everything behind the body, the topic and the properties."""
    tail = record[88 + int.from_bytes(record[84:88], "big") :]
    size = tail[0]
    return tail, tail[1 : 1 + size].decode(), tail[3 + size :]


@pytest.mark.parametrize("log", ["commitlog", "delaylog"])
def test_records_are_as_described(log: str, store: Path) -> None:
    magic = magic_of("record.md")
    position = packed_count = 0
    segment = first_file(store / log)
    for stored, record in zip(stored_in(segment), records_of(segment), strict=True):
        fields = decode("record.md", record)
        body = record[88 : 88 + fields["bodySize"]]

        assert fields["total"] == len(record)
        assert f"{fields['magic']:08X}" == magic
        assert fields["position"] == position
        assert fields["bodyCRC"] == zlib.crc32(body) & 0x7FFFFFFF
        assert fields["mark"] >> 62 == 1
        assert fields["mark"] >> 44 & 0xFFFF == check_of(record, fields)
        position += len(stored)
        packed_count += is_packed(stored)
    assert position > 4_000
    assert (packed_count > 30) == (log == "delaylog")


def check_of(record: bytes, fields: dict[str, int]) -> int:
    """The check, in the words of the page."""
    names = "total magic bodyCRC queueId flag sysFlag bornMs bornHost storeMs storeHost"
    values = [fields[name] for name in (*names.split(), "reconsumeTimes", "bodySize")]
    values.append(fields["mark"] & ~(0xFFFF << 44))
    words = [value >> shift & 0xFFFF for value in values for shift in (0, 16, 32, 48)]
    crc = zlib.crc32(tail_of(record)[0])
    return reduce(xor, words) ^ (crc ^ crc >> 5 ^ crc >> 8) & 0xFFFF


def test_delayed_records_have_the_properties_described(store: Path) -> None:
    names = {
        name.strip("`") for row in table("record.md", "property") for name in row[0].split(", ")
    }
    numbers = []
    for record in records(store / "delaylog"):
        _, topic, properties = tail_of(record)
        if topic == "DUELINE_SYS_CONTROL":
            continue
        mark = decode("record.md", record)["mark"]
        assert topic in ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")
        found = {entry.split(b"\x01")[0].decode() for entry in properties.split(b"\x02") if entry}
        expected = names - ({"DELAY"} if topic.startswith("rmq") else {"TIMER_OUT_MS"})
        assert expected <= found
        assert mark >> 61 & 1
        numbers.append(mark & (1 << 44) - 1)

    assert numbers == list(range(len(numbers)))


def test_control_records_are_as_described(store: Path) -> None:
    kinds = {row[0][:1] for row in table("control.md", "kind")}
    found = set()
    segments = [path for log in ("commitlog", "delaylog") for path in (store / log).iterdir()]
    for segment in segments:
        for record in records_of(segment):
            if tail_of(record)[1] != "DUELINE_SYS_CONTROL":
                continue
            fields = decode("record.md", record)
            body = record[88 : 88 + fields["bodySize"]]
            kind, start, count, number_count = struct.unpack_from("<cqqq", body)
            assert fields["sysFlag"] & 0xC == 0xC
            assert len(body) == 25 + 8 * number_count
            assert start <= fields["position"]
            assert count >= 0
            found.add(kind.decode())

    assert found == kinds


def test_consume_queue_units_are_as_described(store: Path) -> None:
    units = first_file(store / "consumequeue" / "t" / "0").read_bytes()
    log = first_file(store / "commitlog").read_bytes()

    for offset in range(2):
        unit = decode("consume-queue.md", units[20 * offset : 20 * offset + 20])
        record = decode("record.md", log[unit["position"] :])
        assert unit["size"] == record["total"]
        assert record["queueOffset"] == offset
        assert unit["tagsCode"] == 114_586  # "tag".hashCode() in Java


@pytest.mark.parametrize(
    ("folder", "title"), [("timeline", "## Runs"), ("index/delaylog", "## Key indexes")]
)
def test_column_files_are_as_described(folder: str, title: str, store: Path) -> None:
    page = (DOCS / "columns.md").read_text()
    section = page[page.index(title) :].split("\n## ")[0]
    described = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")][:2]
        for line in section.splitlines()
        if line.startswith("|")
    ][2:]

    for path in (store / folder).iterdir():
        data = path.read_bytes()
        size, check, magic = struct.unpack(">II8s", data[-16:])
        footer = data[-16 - size : -16]
        assert magic == b"DUECOLS1"
        assert zlib.crc32(footer) == check
        columns = json.loads(footer)["columns"]
        assert [name for name, *_ in columns] == [name for name, _ in described]
        for (_, dtype, count, at, crc, base), (_, told) in zip(columns, described, strict=True):
            assert at % 64 == 0
            assert zlib.crc32(data[at : at + count * np.dtype(dtype).itemsize]) == crc
            if told.startswith("narrow"):
                numbers = np.frombuffer(data, dtype, count, at).astype(np.int64)
                assert numbers.min() == 0, "the base is the least of them"
                assert dtype in {"|u1", "<u2", "<u4", "<u8"}
            else:
                assert (dtype, base) == (told, 0)


def test_key_hashes_are_as_described(store: Path) -> None:
    path = first_file(store / "index" / "delaylog")
    data = path.read_bytes()
    (size,) = struct.unpack(">I", data[-16:-12])
    columns = {name: rest for name, *rest in json.loads(data[-16 - size : -16])["columns"]}
    arrays: dict[str, Any] = {
        name: np.frombuffer(data, dtype, count, at).astype(np.int64) + base
        for name, (dtype, count, at, _, base) in columns.items()
    }
    record = records(store / "delaylog")[0]
    fields = decode("record.md", record)
    uid = next(
        entry.split(b"\x01")[1]
        for entry in tail_of(record)[2].split(b"\x02")
        if entry.startswith(b"UNIQ_KEY\x01")
    )

    entries = arrays["hash"] == int.from_bytes(uid, "little") % 4_093_082_899

    assert fields["position"] in arrays["position"][entries]
    assert np.all(np.diff(arrays["hash"]) >= 0)


def test_states_are_as_described(store: Path) -> None:
    data = (store / "timeline.states").read_bytes()
    assert data == (store / "timeline.states.mirror").read_bytes()
    line, _, packed = data.partition(b"\n")
    head = json.loads(line[9:])
    states = zlib.decompress(packed)

    assert int(line[:8], 16) == zlib.crc32(line[9:])
    assert head["crc"] == zlib.crc32(packed)
    assert len(states) == head["end"] - head["base"]
    assert set(states) == {int(row[0]) for row in table("states.md", "state")}
    described = re.findall(r'"meta": {(.*?)}', (DOCS / "states.md").read_text())[0]
    assert set(head["meta"]) == set(re.findall(r'"(\w+)"', described))


def test_checkpoint_is_as_described(store: Path) -> None:
    data = (store / "checkpoint.json").read_bytes()
    assert data == (store / "checkpoint.json.mirror").read_bytes()
    fields = json.loads(data[9:])
    described = {
        name.strip("`") for row in table("checkpoint.md", "field") for name in row[0].split(", ")
    }

    assert int(data[:8], 16) == zlib.crc32(data[9:])
    assert set(fields) == described
    for topic, queues in fields["queue_checks"].items():
        for queue, checks in queues.items():
            for first, (count, check) in checks.items():
                name = f"{int(first) * 20:020d}"
                units = (store / "consumequeue" / topic / queue / name).read_bytes()
                assert zlib.crc32(units[: 20 * count]) == check
