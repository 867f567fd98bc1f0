"""A reader with a terminal: a folder, a broker of its own, and commands as the pages have them.

Only addresses and folders differ from the pages: ports are free ones, told to every command by a
file of settings that `DUELINE_CONFIG` names, as a reader whose ports are taken would do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.ports import free_ports
from tests.serve.conftest import clean_environment
from tests.waiting import PATIENCE_S, wait_until

__all__ = ["Running", "Tour"]


class Running:
    """A command in a terminal of its own, which goes on until it is ended."""

    def __init__(self, words: Sequence[str], folder: Path, environ: dict[str, str]) -> None:
        self.words = words
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            words,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def until_says(self, text: str) -> None:
        """Wait until it has printed something."""

        def said() -> bool:
            assert text in self.output or self.process.poll() is None, self.output
            return text in self.output

        wait_until(said, f"{self.words}: {text!r}")

    def stop(self, number: int = signal.SIGINT) -> int:
        """End it as a person would: Ctrl-C."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Tour:
    """One reader; what is started ends with the tour."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = free_ports(3)
        self.flight, self.name_server, self.remoting = (f"127.0.0.1:{port}" for port in ports)
        settings = folder / "dueline.toml"
        settings.write_text(
            f'data = "{folder / "dueline-data"}"\n\n[listen]\nflight = "{self.flight}"\n'
            f'name_server = "{self.name_server}"\nremoting = "{self.remoting}"\ngrpc = "off"\n'
        )
        self._environ = clean_environment(
            DUELINE_CONFIG=str(settings), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"
        )
        self._running: list[Running] = []

    def __enter__(self) -> Tour:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for running in reversed(self._running):
            running.end()

    def here(self, text: str) -> str:
        """A page's program with this reader's addresses."""
        return text.replace("127.0.0.1:9876", self.name_server).replace(
            "127.0.0.1:8815", self.flight
        )

    def start(self, words: Sequence[str], **environ: str) -> Running:
        """A command that stays."""
        running = Running(_command(words), self.folder, {**self._environ, **environ})
        self._running.append(running)
        return running

    def do(self, words: Sequence[str], **environ: str) -> str:
        """A command that ends; returns what it printed."""
        done = subprocess.run(
            _command(words),
            cwd=self.folder,
            env={**self._environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def run(self, program: str, **environ: str) -> str:
        """A Python program, in a process of its own."""
        path = self.folder / "program.py"
        path.write_text(self.here(program))
        paths = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        return self.do([sys.executable, str(path)], PYTHONPATH=paths.rstrip(os.pathsep), **environ)


def _command(words: Sequence[str]) -> list[str]:
    if words[0] != "dueline":
        return list(words)
    return [sys.executable, "-m", "dueline", *words[1:]]
