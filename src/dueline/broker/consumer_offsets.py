"""How far each consumer group has read, kept in one small file.

    {"offsetTable": {"orders@billing": {"0": 17, "1": 20}}}

That is RocketMQ's `consumerOffset.json`: topic and group joined with `@`, then an offset per queue.
As there, it is written now and then and on a clean stop, not with every change: after a crash a
group may see its last few messages again, never skip one. Any thread may call.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from dueline.budget import Budget
from dueline.errors import InvalidRequest
from dueline.message import check_topic
from dueline.store.files import Files

__all__ = ["ConsumerOffsets"]


OFFSETS_SIZE_BYTES_MAX: Final = 128 << 20
_TABLE_SIZE: Final = 512
_QUEUE_SIZE: Final = 128

OnReset = Callable[[str, str, Mapping[int, int]], None]


class ConsumerOffsets:
    """Offsets by group, topic and queue."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files
        self._table: dict[tuple[str, str], dict[int, int]] = {}
        self.budget: Final = Budget("consumer offsets", OFFSETS_SIZE_BYTES_MAX)
        self._is_changed = False
        self._lock = threading.Lock()
        self._on_reset: list[OnReset] = []
        if files.exists(path):
            self._table = _decode(files.read(path), path)
            self.budget.add(sum(_size(*each) for each in self._table.items()))

    def get(self, group: str, topic: str) -> dict[int, int]:
        """The next offset to read of each queue that the group has read from."""
        with self._lock:
            return dict(self._table.get((topic, group), {}))

    def set(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Remember where the group goes on; queues that are not named stay as they are.

        Raises:
            InvalidRequest: names or numbers that cannot be.
            LimitExceeded: more groups, topics and queues than can be remembered.
        """
        check_group(group)
        check_topic(topic)
        if any(queue_id < 0 or offset < 0 for queue_id, offset in offsets.items()):
            raise InvalidRequest(f"offsets: expected 0 or more, found {dict(offsets)!r:.200}")
        with self._lock:
            known = self._table.get((topic, group))
            if known is None:
                self.budget.take(_size((topic, group), offsets))
                self._table[topic, group] = dict(offsets)
            else:
                if not known.keys() >= offsets.keys():
                    self.budget.take(_QUEUE_SIZE * len(offsets.keys() - known.keys()))
                known.update(offsets)
            self._is_changed = True

    def on_reset(self, callback: OnReset) -> None:
        """Call with group, topic and offsets when an operator sends a group elsewhere."""
        self._on_reset.append(callback)

    def reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Send a group elsewhere, also back: unlike `set`, which says how far it has come.

        Raises:
            InvalidRequest: names or numbers that cannot be.
        """
        self.set(group, topic, offsets)
        for callback in self._on_reset:
            callback(group, topic, offsets)

    def topics_of(self, group: str) -> list[str]:
        """The topics that a group has read from."""
        with self._lock:
            return sorted(topic for topic, name in self._table if name == group)

    def all(self) -> dict[tuple[str, str], dict[int, int]]:
        """Everything, by topic and group."""
        with self._lock:
            return {key: dict(queues) for key, queues in self._table.items()}

    def remove(self, group: str) -> None:
        """Forget a group: it starts anew."""
        with self._lock:
            kept = {key: queues for key, queues in self._table.items() if key[1] != group}
            gone = [each for each in self._table.items() if each[0][1] == group]
            self.budget.give(sum(_size(*each) for each in gone))
            self._is_changed |= len(kept) != len(self._table)
            self._table = kept

    def save(self) -> bool:
        """Write the file if anything changed since; returns whether it did."""
        with self._lock:
            if not self._is_changed:
                return False
            table = {
                f"{topic}@{group}": {str(queue_id): offset for queue_id, offset in queues.items()}
                for (topic, group), queues in self._table.items()
            }
            self._is_changed = False
        try:
            self._files.replace(self._path, [json.dumps({"offsetTable": table}, indent=1).encode()])
        except BaseException:
            self._is_changed = True  # it is still to be written
            raise
        return True


def _size(key: tuple[str, str], queues: Mapping[int, int]) -> int:
    return _TABLE_SIZE + len(key[0]) + len(key[1]) + _QUEUE_SIZE * len(queues)


def check_group(group: str) -> None:
    """A group's name follows the rules of a topic's."""
    try:
        check_topic(group)
    except InvalidRequest as error:
        raise InvalidRequest(error.message.replace("topic:", "group:"), field="group") from error


def _decode(data: bytes, path: Path) -> dict[tuple[str, str], dict[int, int]]:
    try:
        table = json.loads(data)["offsetTable"]
        found = {}
        for name, queues in table.items():
            topic, _, group = name.partition("@")
            found[topic, group] = {int(queue_id): int(at) for queue_id, at in queues.items()}
        return found
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidRequest(
            f"{path}: expected consumer offsets as JSON, found: {error}; repair the file, or "
            "remove it and let the groups start anew",
            path=str(path),
        ) from error
