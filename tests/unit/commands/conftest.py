"""The command line in this process, against a broker in this process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.server.local import running, small_config

from dueline import cli
from dueline.server.process import BrokerProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `dueline WORDS…` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Ran:
        capsys.readouterr()
        try:
            code = cli.main(words)
        except SystemExit as end:  # argparse
            code = int(str(end.code))
        captured = capsys.readouterr()
        return Ran(code=code, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    """A running broker that the commands talk to by default."""
    # Delays far beyond any use, so that dates in tests do not come to pass.
    config = small_config(tmp_path / "data", **{"store.delay_max": "90000d"})
    with running(config) as broker:
        names = broker.remoting_options.name_server
        assert names is not None
        monkeypatch.setenv("DUELINE_BROKER", broker.address)
        monkeypatch.setenv("DUELINE_NAME_SERVER", f"{names.host}:{names.port}")
        yield broker
