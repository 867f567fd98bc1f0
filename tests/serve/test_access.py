"""Access control of `dueline serve`: what was answered holds, whatever ends the broker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.interop.guarded import ADMIN, CLERK, GUARDED, WRONG, add_people
from tests.serve.conftest import served
from tests.waiting import wait_until

from dueline.client import Producer
from dueline.credentials import Credentials
from dueline.errors import BrokerError

pytestmark = pytest.mark.slow


def test_users_and_policies_hold_when_the_broker_is_killed(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--no-spark", **GUARDED) as serving:
        serving.who = ADMIN
        add_people(serving)
        before = serving.broker_pid

        os.kill(before, signal.SIGKILL)
        wait_until(lambda: _is_back(serving.name_server, CLERK), "its return")

        assert serving.broker_pid != before
        for who, topic in ((WRONG, "mine"), (CLERK, "theirs")):
            with (
                Producer(serving.name_server, credentials=who) as producer,
                pytest.raises(BrokerError, match="expected"),
            ):
                producer.send(topic, b"body")


def _is_back(name_server: str, who: Credentials) -> bool:
    """Whether a send passes; it is only asked for while the broker may be away."""
    try:
        with Producer(name_server, credentials=who, timeout_s=2.0) as producer:
            producer.send("mine", b"body")
    except BrokerError:
        return False
    return True
