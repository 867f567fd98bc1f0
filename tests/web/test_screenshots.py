"""Pictures of the pages, as a browser shows them.

`SCREENSHOTS=1` puts those of the guide into docs/images, `SCREENSHOTS=FOLDER` all of them there.
"""

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.serve.conftest import Served
from tests.unit.web.local import Site
from tests.waiting import wait_until
from tests.web.conftest import Browser

from dueline.flight import protocol
from dueline.store.schema import SCHEDULE_SCHEMA

pytestmark = [pytest.mark.slow, pytest.mark.spark]

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WANTED = os.environ.get("SCREENSHOTS", "")
TOPICS = {"reminders": 5, "orders_unpaid": 4, "renewals": 2, "retries": 2, "invoices": 1}


def rows(count: int) -> pa.Table:
    """A shop: much of it within the hour, a crowd in the evening, some for months."""
    chance = random.Random(7)
    plain = []
    for number in range(count):
        kind = chance.random()
        if kind < 0.4:
            delay_s = 90 + chance.expovariate(1 / 900)
        elif kind < 0.6:
            delay_s = max(chance.gauss(10 * 3600, 3600), 60)
        else:
            delay_s = chance.uniform(60, (7 if kind < 0.85 else 60) * 86_400)
        amount = chance.randint(1, 900)
        plain.append(
            {
                "topic": chance.choices(list(TOPICS), list(TOPICS.values()))[0],
                "body": f'{{"order": {number}, "amount": {amount}, "currency": "EUR"}}'.encode(),
                "delay_ms": int(delay_s * 1_000),
                "tags": chance.choice(["eu", "us"]),
                "keys": f"order-{number} customer-{number % 97}",
                "properties": [("region", chance.choice(["eu", "us", "apac"]))],
            }
        )
    return pa.Table.from_pylist(plain, schema=SCHEDULE_SCHEMA)


@pytest.fixture(scope="module")
def shop(served: Served, site: Site) -> None:
    with served.client() as client:
        client.stage("shop", SCHEDULE_SCHEMA, rows(3_000).to_batches())
        client.call(protocol.PutRows(tokens=("shop",)), protocol.RowsPut)
    for topic, rule in (
        ("reminders", {"rate": 50}),
        ("renewals", {"is_paused": True}),
        ("retries", {"expiry": "1h"}),
    ):
        _post(site, f"/api/v1/topics/{topic}/rules", rule)
    for number, topic in enumerate(("retries", "invoices", "renewals", "orders_unpaid")):
        keys = [f"parcel-{number}"]
        _post(site, "/api/v1/messages", {"topic": topic, "body": "{}", "keys": keys, "delay": "1s"})
    for order in (
        {"action": "cancel", "filter": {"topic": "invoices", "key": "order-1*"}},
        {"action": "shift", "shift": "2h", "filter": {"topic": "retries", "tag": "eu"}},
        {"action": "deliver", "filter": {"topic": "orders_unpaid", "key": "customer-11"}},
    ):
        _post(site, "/api/v1/jobs", order)
    wait_until(lambda: _is_done(site) or None, "the jobs, and what is due")


def _post(site: Site, path: str, body: Any) -> None:
    answer = site.ask("POST", path, body)
    assert answer.status == 200, answer.text


def _is_done(site: Site) -> bool:
    jobs = site.get("/api/v1/jobs").json["jobs"]
    delivered = site.get("/api/v1/ledger?outcome=delivered").json["rows"]
    return all(each["ended_ms"] for each in jobs) and len(delivered) > 3


WIDE, PHONE = 1240, 390
KEPT = (
    ("overview", "/", (WIDE, 770), "light"),
    ("pending", "/pending?topic=orders_unpaid&key=order-1*", (WIDE, 720), "light"),
    ("message", "/message?name=order-17", (WIDE, 430), "light"),
    ("phone", "/", (PHONE, 780), "dark"),
    ("topics", "/topics", (WIDE, 480), "light"),
    ("ledger", "/ledger?outcome=delivered", (WIDE, 480), "light"),
    ("jobs", "/jobs", (WIDE, 360), "dark"),
)
SEEN = tuple(
    (f"{name}-{theme}-{size[0]}", path, size, theme)
    for name, path in (
        ("audit", "/audit"),
        ("jobs", "/jobs"),
        ("ledger", "/ledger"),
        ("message", "/message?name=parcel-1"),
        ("held", "/message?name=parcel-2"),
        ("topics", "/topics"),
    )
    for size, theme in (((WIDE, 700), "light"), ((WIDE, 700), "dark"), ((PHONE, 780), "light"))
)
"""To be looked at; with `SCREENSHOTS=a folder` they are there."""


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("name", "path", "size", "theme"), [*KEPT, *SEEN])
def test_a_picture_is_taken(  # noqa: PLR0913 - what it is given by pytest
    browser: Browser, tmp_path: Path, name: str, path: str, size: tuple[int, int], theme: str
) -> None:
    width, height = size
    browser.look(width=width, height=height, theme=theme)
    browser.open(path)
    overflow = browser.run("return document.documentElement.scrollWidth - window.innerWidth")
    assert overflow <= 0, "it is wider than the screen"
    if width == WIDE:
        hidden = (
            "return [...document.querySelectorAll('.table')]"
            ".filter(table => table.scrollWidth > table.clientWidth).length"
        )
        assert browser.run(hidden) == 0, "a table has columns that one must scroll to"
    if path == "/":
        wait_until(lambda: len(browser.all("#road .column .s1")) > 5 or None, "the road")
        wait_until(lambda: browser.all("#day-flow svg") or None, "the day")
    elif "pending" in path:
        wait_until(lambda: "Counting" not in browser.find("#matching").text or None, "the count")
    folder = tmp_path
    if WANTED:
        folder = Path(WANTED) if WANTED != "1" else IMAGES if "-" not in name else tmp_path
    folder.mkdir(exist_ok=True)
    picture = folder / f"{name}.png"

    assert browser.driver.save_screenshot(str(picture))

    data = picture.read_bytes()
    assert (int.from_bytes(data[16:20]), int.from_bytes(data[20:24])) == size
    assert 10_000 < len(data) < 300_000
