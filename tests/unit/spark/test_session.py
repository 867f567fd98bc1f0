"""What a session is started with: private on this machine, let in from others."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.authority import Authority

from dueline.spark import session
from dueline.spark.session import SessionOptions

TOKEN = "@pipeline:a-secret"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DUELINE_TOKEN", "DUELINE_TOKEN_FILE", "DUELINE_CA", "DUELINE_SERVER_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_a_session_on_this_machine_keeps_other_users_out(tmp_path: Path) -> None:
    found = session._placed(SessionOptions(master="local[2]"), tmp_path)

    assert found["spark.authenticate"] == "true"
    assert found["spark.network.crypto.enabled"] == "true"
    assert found["spark.io.encryption.enabled"] == "true"
    assert found["spark.driver.bindAddress"] == "127.0.0.1"


def test_a_cluster_has_secrets_of_its_own(tmp_path: Path) -> None:
    found = session._placed(SessionOptions(master="spark://10.0.0.9:7077"), tmp_path)

    assert "spark.authenticate" not in found


def test_executors_elsewhere_get_the_token_and_the_authority_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    path = tmp_path / "pipeline.token"
    path.write_text(f"{TOKEN}\n")
    monkeypatch.setenv("DUELINE_TOKEN_FILE", str(path))
    monkeypatch.setenv("DUELINE_CA", authority.ca)
    monkeypatch.setenv("DUELINE_SERVER_NAME", "broker.example")

    assert session._trusted(SessionOptions(master="spark://10.0.0.9:7077")) == {
        "spark.executorEnv.DUELINE_TOKEN": TOKEN,
        "spark.executorEnv.DUELINE_CA": Path(authority.ca).read_text(),
        "spark.executorEnv.DUELINE_SERVER_NAME": "broker.example",
    }
    assert session._trusted(SessionOptions(master="local[*]")) == {}, "they have it already"


def test_without_tokens_nothing_is_handed_over() -> None:
    assert session._trusted(SessionOptions(master="spark://10.0.0.9:7077")) == {}
