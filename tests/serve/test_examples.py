"""The examples do what their text says."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.serve.conftest import TOPIC, Served, outgoing, receive, send, served
from tests.waiting import wait_until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def orders(database: Path, action: str, *order_ids: str) -> None:
    """The shop's side, as the example's text calls it."""
    script = EXAMPLES / "unpaid_orders.py"
    subprocess.run([sys.executable, script, database, action, *order_ids], check=True)


def deliver_now(serving: Served) -> None:
    """Whatever time the payments took: all that waits is due now."""
    words = ("reschedule", "--where", f"topic = '{TOPIC}'", "--now", "--yes")
    command = [sys.executable, "-m", "dueline", *words, "--broker", serving.address]
    subprocess.run(command, check=True)


def test_a_reminder_for_an_order_that_was_paid_meanwhile_is_dropped(tmp_path: Path) -> None:
    database = tmp_path / "orders.db"
    orders(database, "create", "1", "2", "3")
    words = ("--transform", "unpaid_orders:unpaid_only", "--ahead", "2s")
    environ = {"ORDERS_DB": str(database), "PYTHONPATH": str(EXAMPLES)}

    with served(tmp_path / "data", *words, **environ) as serving:
        send(serving, outgoing("first", delay_ms=1, key="1"))
        serving.wait_until_ready()
        receive(serving, 1)
        send(
            serving,
            *[outgoing(f"order {key}", delay_ms=3_600_000, key=key) for key in ("1", "2", "3")],
            outgoing("no order", delay_ms=3_600_000),
        )
        orders(database, "pay", "1", "3")
        deliver_now(serving)

        bodies = [arrival.body for arrival in receive(serving, 3)]
        wait_until(lambda: serving.report().pending == 0, "nothing to be left")
        report = serving.report()

    assert bodies[0] == "first"
    assert sorted(bodies[1:]) == ["no order", "order 2"]
    assert (report.delivered, report.dropped) == (3, 2)
