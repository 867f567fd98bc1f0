"""The broker's own log, which only its owner may read: messages and addresses stand in it."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path

from dueline.store.files import Files

__all__ = ["LogFile"]


class LogFile(RotatingFileHandler):
    """A log file that is renamed when it has grown, and begun anew.

    Lines that cannot be written, as on a full disk, are left out: the caller has other work to do.
    """

    def _open(self) -> TextIOWrapper:
        file = Files().open_to_append(Path(self.baseFilename))
        return TextIOWrapper(file, encoding="utf-8", write_through=True)

    def handleError(self, record: LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)
