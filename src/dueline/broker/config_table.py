"""Tables of settings that survive a restart: each is one JSON file, in RocketMQ's form.

    {"dataVersion": {"counter": 3, "timestamp": 1700000000000},
     "topicConfigTable": {"orders": {"topicName": "orders", "readQueueNums": 4, …}}}

An entry is a frozen dataclass whose fields are the JSON's names in snake case. What a class does
not know is ignored, what is absent or null has its default, and None is not written.

Changes are in memory at once and on disk after `save`, which writes and syncs a file: those who
answer a client call it before they do, and an event loop calls it elsewhere. The table has bounds
of entries and bytes, since peers can make it grow. Any thread may call anything.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, Generic, Protocol, TypeVar, get_args, get_origin, get_type_hints

from dueline.budget import Budget
from dueline.clock import Clock
from dueline.errors import InvalidRequest, LimitExceeded
from dueline.json_fields import camel_case, read_bool, read_int, read_text, unexpected
from dueline.store.files import Files

__all__ = ["ConfigTable", "Entry", "Form", "Snapshot", "entry_from_json", "entry_to_json"]

ENTRY_SIZE_BYTES_MAX: Final = 64 << 10


class Entry(Protocol):
    """What a table holds."""

    @property
    def name(self) -> str: ...

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, with its text in the file."""


E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(Generic[E]):
    """What a table is for, what it is called, and how many entries it may have."""

    kind: type[E]
    one: str
    many: str
    key: str
    """Of the table in the file."""
    count_max: int
    without_file: str
    """What happens if an operator removes a damaged file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Generic[E]):
    """All entries at one moment; `counter` grows with every change."""

    counter: int
    changed_ms: int
    entries: Mapping[str, E]


class ConfigTable(Generic[E]):
    """Entries by name, and their file."""

    def __init__(
        self, path: Path, files: Files, form: Form[E], *, clock: Clock, size_bytes_max: int
    ) -> None:
        self._path = path
        self._files = files
        self._form = form
        self._clock = clock
        self._lock = threading.Lock()
        self._save_lock = threading.Lock()
        self._entries: dict[str, E] = {}
        self._texts: dict[str, tuple[E, str]] = {}  # as they stand in the file
        self._unsaved: dict[str, int] = {}  # by name: the table's version that the file lacks
        self.budget: Final = Budget(form.many, size_bytes_max)
        self._counter = 0
        self._saved_counter = 0
        self._changed_ms = clock.now_ms()
        if files.exists(path):
            self._load(files.read(path))

    def _load(self, data: bytes) -> None:
        form = self._form
        try:
            found = json.loads(data)
            table = found[form.key]
            self._entries = {
                name: entry_from_json(form.kind, value, name) for name, value in table.items()
            }
            counter = int(found.get("dataVersion", {}).get("counter", 0))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(f"{type(error).__name__}: {error}") from error
        except InvalidRequest as error:
            raise self._damaged(error.message) from error
        self.budget.add(sum(entry.size_bytes for entry in self._entries.values()))
        self._counter = self._saved_counter = counter

    def _damaged(self, found: str) -> InvalidRequest:
        return InvalidRequest(
            f"{self._path}: expected {self._form.many} as JSON, found: {found}; repair the file, "
            f"or remove it: {self._form.without_file}",
            path=str(self._path),
        )

    # Reading

    def get(self, name: str) -> E | None:
        return self._entries.get(name)

    def names(self) -> list[str]:
        """In order."""
        with self._lock:
            return sorted(self._entries)

    def snapshot(self) -> Snapshot[E]:
        with self._lock:
            return Snapshot(
                counter=self._counter, changed_ms=self._changed_ms, entries=dict(self._entries)
            )

    # Changing

    def put(self, entry: E) -> E:
        """Add or replace an entry.

        Raises:
            InvalidRequest: it is too large.
            LimitExceeded: there are too many.
        """
        form, size = self._form, entry.size_bytes
        if size > ENTRY_SIZE_BYTES_MAX:
            raise InvalidRequest(
                f"{form.one} {entry.name}: expected a configuration of at most "
                f"{ENTRY_SIZE_BYTES_MAX} bytes, found {size}",
                limit=ENTRY_SIZE_BYTES_MAX,
                found=size,
            )
        with self._lock:
            known = self._entries.get(entry.name)
            if known is None and len(self._entries) >= form.count_max:
                raise LimitExceeded(
                    f"{form.many}: expected at most {form.count_max}, found as many; delete some "
                    "first",
                    limit=form.count_max,
                    found=len(self._entries) + 1,
                )
            self.budget.take(size - (0 if known is None else known.size_bytes))
            self._entries[entry.name] = entry
            self._touch(entry.name)
        return entry

    def add_built_in(self, entry: E) -> None:
        """Have an entry that needs no file, unless the file has it."""
        with self._lock:
            if entry.name not in self._entries:
                self.budget.add(entry.size_bytes)
                self._entries[entry.name] = entry

    def adopt(self, entry: E) -> E:
        """Have an entry for what is there already, whatever the bounds say; a known one stays."""
        with self._lock:
            if entry.name not in self._entries:
                self.budget.add(entry.size_bytes)
                self._entries[entry.name] = entry
                self._touch(entry.name)
            return self._entries[entry.name]

    def remove(self, name: str) -> bool:
        """Forget an entry; False if there is none."""
        with self._lock:
            known = self._entries.pop(name, None)
            if known is None:
                return False
            self._texts.pop(name, None)
            self.budget.give(known.size_bytes)
            self._touch(name)
            return True

    def _touch(self, name: str) -> None:
        self._counter += 1
        self._unsaved[name] = self._counter
        self._changed_ms = self._clock.now_ms()

    # The file

    @property
    def is_saved(self) -> bool:
        """Is everything on disk?"""
        return self._counter == self._saved_counter

    def has_saved(self, name: str) -> bool:
        """Is what is known of this entry on disk?"""
        return name not in self._unsaved

    def save(self) -> None:
        """Write the file if anything changed since; returns when it is on disk."""
        with self._save_lock:
            now = self.snapshot()
            if now.counter == self._saved_counter:
                return
            self._files.make_folder(self._path.parent)
            self._files.replace(self._path, [self._text(now).encode()])
            self._saved_counter = now.counter
            with self._lock:
                self._unsaved = {name: at for name, at in self._unsaved.items() if at > now.counter}

    def _text(self, now: Snapshot[E]) -> str:
        """The file; of thousands of entries only the new ones are put into words again."""
        for name, entry in now.entries.items():
            if name not in self._texts or self._texts[name][0] is not entry:
                text = f"{_dumps(name)}:{_dumps(entry_to_json(entry))}"
                self._texts[name] = entry, text
        entries = ",".join(self._texts[name][1] for name in now.entries)
        version = _dumps({"counter": now.counter, "timestamp": now.changed_ms})
        return f'{{"dataVersion":{version},{_dumps(self._form.key)}:{{{entries}}}}}'


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


# Entries and their JSON


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """Plain JSON values, without those that are None."""
    found = {}
    for name, key, _ in _fields(type(entry)):
        value = getattr(entry, name)
        if value is not None:
            found[key] = value
    return found


def entry_from_json(kind: type[E], value: object, place: str) -> E:
    """The entry that a JSON value says.

    Args:
        place: where it stands, for the error.

    Raises:
        InvalidRequest: says what cannot be.
    """
    if not isinstance(value, dict):
        raise unexpected(place, "an object", value)
    found = {}
    for name, key, read in _fields(kind):
        item = value.get(key)
        if item is not None:
            found[name] = read(item, f"{place}.{key}")
    try:
        return kind(**found)
    except TypeError as error:
        raise unexpected(place, "all that has no default", value) from error


_Read = Callable[[Any, str], Any]


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, str, _Read], ...]:
    """Name, name in JSON and reader of each field."""
    hints = get_type_hints(kind)
    return tuple(
        (field.name, camel_case(field.name), _reader(hints[field.name]))
        for field in dataclasses.fields(kind)
    )


def _reader(hint: Any) -> _Read:
    if get_origin(hint) is UnionType:
        (hint,) = [choice for choice in get_args(hint) if choice is not type(None)]
    if get_origin(hint) is dict:
        return _read_texts
    return _READERS[hint]


def _read_texts(value: Any, place: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise unexpected(place, "an object", value)
    return {name: read_text(text, f"{place}.{name:.80}") for name, text in value.items()}


_READERS: Final[dict[Any, _Read]] = {
    int: read_int,
    bool: read_bool,
    str: read_text,
    Any: lambda value, place: value,
}
