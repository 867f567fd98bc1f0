"""Java's classes as Spark needs them, kept from one start to the next.

Half of what Spark's start costs is Java loading and checking some fifteen thousand classes. Java
can write what it has loaded to a file when it ends and map that file the next time (class-data
sharing). That is done once per machine, by a process of its own (`archiving`); every session uses
the file::

    ~/.cache/dueline/classes/<digest>.jsa        160 MB; the digest is that of Java and of Spark

Several processes may start and end at once: each writes a draft of its own and gives it the name
when Java has ended well. A file that Java does not like, it ignores. Without a place to write to,
everything works as before.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from dueline.cache import cache_folder

__all__ = ["ClassArchive", "archive_for"]

_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
"""Java warns of each class that it cannot keep, thousands of lines."""

WRITING_S_MAX: Final = 300.0
KEPT_S_MAX: Final = 30 * 86_400.0
"""How long an archive is kept that nobody uses."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassArchive:
    """The file of one Java with one Spark, which may be there or not."""

    path: Path

    @property
    def options_to_read(self) -> str:
        """What Java is told in order to use the file; empty if it is not there."""
        try:
            os.utime(self.path)  # in use: `sweep` lets it be
        except FileNotFoundError:
            return ""
        except OSError:  # another user's, which may be read all the same
            pass
        return f"-XX:SharedArchiveFile={self.path} -Xshare:auto {_QUIET}"

    @property
    def options_to_write(self) -> str:
        """What Java is told in order to use the file, or to write it if it is not there."""
        return self.options_to_read or f"-XX:ArchiveClassesAtExit={self._draft} {_QUIET}"

    @property
    def _draft(self) -> Path:
        return self.path.with_suffix(f".{os.getpid()}")

    def keep(self, java: subprocess.Popen[bytes]) -> None:
        """Let Java end, and keep what it was told to write."""
        if self.path.exists():
            return
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            if java.stdin is not None:
                java.stdin.close()
            if java.wait(WRITING_S_MAX) == 0 and self._draft.exists():
                self._draft.replace(self.path)
        self.sweep()

    def sweep(self) -> None:
        """Remove drafts whose writers are gone, and archives that nobody has used for a while."""
        with contextlib.suppress(OSError):
            os.utime(self.path)
            now_s = self.path.stat().st_mtime
            for other in self.path.parent.glob("*.jsa"):
                if now_s - other.stat().st_mtime > KEPT_S_MAX:
                    other.unlink()
        for draft in self.path.parent.glob(f"{self.path.stem}.*"):
            if draft != self.path and not Path(f"/proc/{draft.suffix[1:]}").exists():
                draft.unlink(missing_ok=True)


def archive_for(home: Path, environ: Mapping[str, str]) -> ClassArchive | None:
    """The archive of the Java at `home`; None where there is no place for one."""
    spark = Path(pyspark.__file__).parent
    parts = (home, _changed_ns(home / "bin" / "java"), spark, _changed_ns(spark / "jars"))
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]
    try:
        folder = cache_folder(environ) / "classes"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        log.info("Spark starts without an archive of classes: %s", error)
        return None
    return ClassArchive(path=folder / f"{digest}.jsa")


def _changed_ns(path: Path) -> int:
    """A Java or a Spark that was replaced has other classes."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
