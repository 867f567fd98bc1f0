import json
import os
from pathlib import Path

import pytest
from tests.unit.commands.conftest import Run

from dueline.config import load
from dueline.errors import InvalidRequest


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("DUELINE_"):
            monkeypatch.delenv(name)


def test_what_is_printed_is_itself_a_configuration(run: Run, tmp_path: Path) -> None:
    words = ("--data", "/some/where", "--set", "delivery.conf=a.b=c", "--ahead", "7s")
    ran = run("config", *words, "--set", "store.retention=24h")
    (tmp_path / "all.toml").write_text(ran.out)

    read = load(file=tmp_path / "all.toml").config

    assert (
        read
        == load(
            flags={
                "data": "/some/where",
                "delivery.conf": "a.b=c",
                "delivery.ahead": "7s",
                "store.retention": "24h",
            }
        ).config
    )


def test_each_value_is_shown_with_its_origin(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dueline.toml").write_text('[store]\nflush = "async"\n')
    monkeypatch.setenv("DUELINE_LISTEN_FLIGHT", "127.0.0.1:1")

    shown = json.loads(run("config", "--json", "--log-level", "debug").out)

    assert shown["store.flush"] == {"value": "async", "origin": "file dueline.toml"}
    assert shown["listen.flight"]["origin"] == "environment DUELINE_LISTEN_FLIGHT"
    assert shown["log_level"] == {"value": "debug", "origin": "command line"}
    assert shown["data"]["origin"] == "default"


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_secrets_are_shown_only_when_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    names = ("a.keyPassword", "b.SECRET", "c.access.token", "d.fs.key", "e.credentials", "f.cores")
    conf = ",".join(f"{name}=hidden-{name[0]}" for name in names)
    monkeypatch.setenv("DUELINE_DELIVERY_CONF", conf)

    plain, whole = run("config", *words).out, run("config", *words, "--show-secrets").out

    assert [name for name in names if f"hidden-{name[0]}" in plain] == ["f.cores"]
    assert [name for name in names if name in plain] == list(names)
    assert [name for name in names if f"hidden-{name[0]}" in whole] == list(names)


def test_a_file_with_masks_for_secrets_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUELINE_DELIVERY_CONF", "a.password=x")
    (tmp_path / "shown.toml").write_text(run("config").out)
    monkeypatch.delenv("DUELINE_DELIVERY_CONF")

    with pytest.raises(InvalidRequest, match="that `dueline config` shows for secrets"):
        load(file=tmp_path / "shown.toml")


def test_the_file_can_be_named_by_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.toml").write_text('name = "shard-7"\n')
    monkeypatch.setenv("DUELINE_CONFIG", "other.toml")

    assert 'name = "shard-7"' in run("config").out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--set", "store.flsh=async"), "did you mean store.flush?"),
        (("--set", "store.flush"), "--set: expected name=value"),
        (("--set", "store.flush=maybe"), 'expected "sync" or "async", found \'maybe\''),
        (("--flight", "8815"), "expected host:port"),
        (("--config", "none.toml"), "none.toml: expected a readable file"),
    ],
)
def test_mistakes_are_told(run: Run, words: tuple[str, ...], text: str) -> None:
    ran = run("config", *words)

    assert ran.code == 2
    assert text in ran.err
