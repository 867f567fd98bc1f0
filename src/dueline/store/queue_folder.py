"""Where the files of a consume queue are: consumequeue/TOPIC/QUEUE.

Topics that differ in capital letters only are different topics. Where a disk does not tell them
apart, as usual on macOS and Windows, capitals are written down behind the name: of `Orders` the
first letter is one, of `ORDERS` all six.

    >>> queue_folder(Path("q"), "Orders", 3, folds_case=True).as_posix()
    'q/Orders~1/3'
    >>> queue_folder(Path("q"), "ORDERS", 3, folds_case=True).as_posix()
    'q/ORDERS~3f/3'
    >>> queue_folder(Path("q"), "orders", 3, folds_case=True).as_posix()
    'q/orders/3'
    >>> queue_folder(Path("q"), "Orders", 3, folds_case=False).as_posix()
    'q/Orders/3'

No topic has a `~` in its name. On other disks the layout is RocketMQ's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from dueline.store.files import Files

__all__ = ["folds_case", "queue_folder", "tell_apart"]

_PLAIN_NAME: Final = re.compile("[%|a-zA-Z0-9_-]+")


def queue_folder(root: Path, topic: str, queue_id: int, *, folds_case: bool) -> Path:
    """The folder of a topic's queue."""
    return root / (_folder_name(topic) if folds_case else topic) / str(queue_id)


def _folder_name(topic: str) -> str:
    capitals = sum(1 << at for at, letter in enumerate(topic) if letter.isupper())
    return f"{topic}~{capitals:x}" if capitals else topic


def folds_case(files: Files, root: Path) -> bool:
    """Does the disk take names for equal that differ in capitals? `root` exists and has letters."""
    return files.exists(root.with_name(root.name.swapcase()))


def tell_apart(files: Files, root: Path) -> None:
    """On a disk that folds case, give folders of an earlier version their names."""
    for name in files.names(root, _PLAIN_NAME, are_folders=True):
        if _folder_name(name) != name:
            files.rename(root / name, root / _folder_name(name))
