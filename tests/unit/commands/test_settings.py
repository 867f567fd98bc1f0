"""Settings on the command line: flags, `--set` and files, in this order."""

import argparse
from pathlib import Path

import pytest

from dueline.commands.settings import add_settings_arguments, load_settings
from dueline.config import Config
from dueline.errors import InvalidRequest


def loaded(*words: str, overrides: dict[str, str] | None = None) -> Config:
    parser = argparse.ArgumentParser()
    add_settings_arguments(parser)
    return load_settings(parser.parse_args(words), overrides).config


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DUELINE_CONFIG", raising=False)
    monkeypatch.delenv("DUELINE_LOG_LEVEL", raising=False)
    monkeypatch.chdir(tmp_path)


def test_a_flag_stands_for_its_setting() -> None:
    assert loaded("--log-level", "debug").log_level == "debug"
    assert loaded("--set", "log_level=error").log_level == "error"


def test_a_flag_wins_over_the_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('log_level = "error"\n')

    assert loaded("--config", str(file)).log_level == "error"
    monkeypatch.setenv("DUELINE_CONFIG", str(file))
    assert loaded().log_level == "error"
    monkeypatch.setenv("DUELINE_LOG_LEVEL", "warning")
    assert loaded().log_level == "warning"
    assert loaded("--log-level", "debug").log_level == "debug"
    assert loaded("--log-level", "debug", overrides={"log_level": "info"}).log_level == "info"


def test_what_is_no_assignment_is_told() -> None:
    with pytest.raises(InvalidRequest, match="--set: expected name=value, found 'log_level'"):
        loaded("--set", "log_level")
