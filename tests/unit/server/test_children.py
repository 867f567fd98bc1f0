from pathlib import Path

import pytest
from tests.unit.commands.test_serve import ACCEPTING
from tests.unit.server.local import small_config

from dueline.config import load
from dueline.server.children import broker_of, others_of
from dueline.tls import VARIABLES


def test_a_broker_inherits_the_lock_and_is_given_up_some_time(tmp_path: Path) -> None:
    child = broker_of(small_config(tmp_path), lock=7)

    assert child.descriptors == (7,)
    assert child.tells
    assert child.restarts.failure_count_max is not None
    assert child.log_path == tmp_path / "broker.log"


@pytest.mark.parametrize(
    ("master", "is_local"), [("local[2]", True), ("spark://10.0.0.9:7077", False)]
)
def test_only_a_pipeline_on_this_machine_is_killed(
    tmp_path: Path, master: str, *, is_local: bool
) -> None:
    (child,) = others_of(small_config(tmp_path, **{"delivery.master": master}), ACCEPTING)

    assert (child.name, child.title) == ("pipeline", "Spark")
    assert child.is_killed is child.has_scratch is is_local
    assert ACCEPTING.local_address in child.command
    assert child.restarts.failure_count_max is None, "messages wait; it may work tomorrow"


def test_a_web_process_is_told_whom_to_ask_and_may_be_missing(tmp_path: Path) -> None:
    flags = {"delivery.enabled": "false", "listen.http": "127.0.0.1:0"}
    (child,) = others_of(small_config(tmp_path, **flags), ACCEPTING)

    assert (child.name, child.is_optional, child.tells) == ("web", True, True)
    assert ACCEPTING.local_address in child.command
    assert "127.0.0.1:0" in child.command


def test_a_web_process_encrypts_and_asks_for_users_as_its_broker_does(tmp_path: Path) -> None:
    flags = {
        "delivery.enabled": "false",
        "listen.http": "127.0.0.1:0",
        "access.enabled": "true",
        "access.certificate_users": "true",
        "tls.mode": "enforcing",
        "tls.client_ca": "ca.pem",
        "tls.require_client_certificate": "true",
    }
    config = small_config(tmp_path, **flags)
    (child,) = others_of(config, ACCEPTING)

    own = {name: text for name, text in child.environ.items() if name not in VARIABLES}
    found = load(environ=own)
    assert (found.config.tls, found.config.access.enabled) == (config.tls, True)
    assert found.config.tls_folder == config.tls_folder.absolute()


def test_without_a_pipeline_there_is_none(tmp_path: Path) -> None:
    config = small_config(tmp_path, **{"delivery.enabled": "false"})

    assert list(others_of(config, ACCEPTING)) == []
