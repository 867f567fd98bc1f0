import os
from pathlib import Path

import pytest
from tests.unit.commands.conftest import Run

from dueline.commands.connection import name_server


class Words:
    """Arguments as a command gets them."""

    def __init__(self, name_server: str | None = None, ca: str | None = None) -> None:
        self.command = "send"
        self.name_server = name_server
        self.ca = ca


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DUELINE_NAME_SERVER", "DUELINE_BROKER", "DUELINE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DUELINE_CA", "")  # which commands set for the clients of their process


def found(words: Words) -> str:
    return name_server(words)  # type: ignore[arg-type]


def test_the_flag_goes_before_the_variable_and_that_before_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found(Words()) == "127.0.0.1:9876"
    Path("dueline.toml").write_text('[listen]\nname_server = "10.0.0.1:1000"\n')
    assert found(Words()) == "10.0.0.1:1000"
    monkeypatch.setenv("DUELINE_NAME_SERVER", "10.0.0.2:2000")
    assert found(Words()) == "10.0.0.2:2000"
    assert found(Words("10.0.0.3:3000; 10.0.0.4:4000")) == "10.0.0.3:3000; 10.0.0.4:4000"


def test_whom_to_believe_comes_from_the_flag_the_variable_or_the_own_broker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Path("dueline.toml").write_text('data = "broker"\n[tls]\nmode = "enforcing"\n')

    found(Words("10.0.0.1:9876"))
    assert os.environ["DUELINE_CA"] == "", "another broker than that of the settings"
    found(Words())
    assert os.environ["DUELINE_CA"] == str(tmp_path / "broker" / "tls" / "certificate.pem")
    monkeypatch.setenv("DUELINE_CA", "of_the_variable.pem")
    found(Words())
    assert os.environ["DUELINE_CA"] == "of_the_variable.pem"
    found(Words(ca="of_the_flag.pem"))
    assert os.environ["DUELINE_CA"] == "of_the_flag.pem"


@pytest.mark.parametrize(
    ("listened", "called"), [("0.0.0.0:9876", "127.0.0.1:9876"), ("[::]:9876", "[::1]:9876")]
)
def test_an_address_that_means_all_is_called_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, listened: str, called: str
) -> None:
    monkeypatch.setenv("DUELINE_LISTEN_NAME_SERVER", listened)

    assert found(Words()) == called


@pytest.mark.parametrize("name", ["LISTEN_NAME_SERVER", "LISTEN_REMOTING"])
@pytest.mark.parametrize("words", [("send", "orders", "x"), ("tail", "orders")])
def test_a_protocol_that_is_off_is_told(
    monkeypatch: pytest.MonkeyPatch, run: Run, name: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv(f"DUELINE_{name}", "off")

    ran = run(*words)

    assert ran.code == 2
    assert f"{name.lower().replace('_', '.', 1)}: expected an address, found off" in ran.err
    assert "--name-server" in ran.err


def test_a_port_that_is_any_is_no_address(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setenv("DUELINE_LISTEN_NAME_SERVER", "127.0.0.1:0")
    monkeypatch.setenv("DUELINE_LISTEN_FLIGHT", "127.0.0.1:0")

    for words in (("send", "orders", "x"), ("stats",)):
        assert "name it on the command line" in run(*words).err
