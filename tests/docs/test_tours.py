"""The first hour of three readers, who have nothing but the documents.

What they type is taken from the pages; the tests say only what should come of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import commands, programs, section
from tests.docs.tour import Running, Tour
from tests.ports import free_port
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture
def tour(tmp_path: Path) -> Iterator[Tour]:
    with Tour(tmp_path) as reader:
        yield reader


def serve(tour: Tour, words: list[str]) -> Running:
    """Start a broker; the page says that it tells when it is ready."""
    serving = tour.start(words)
    serving.until_says("ready")
    return serving


def test_an_application_developer(tour: Tour) -> None:
    """`docs/start.md`, then the first how-to, then the end of the day."""
    page = section("start.md")
    starting, sending, pending, tailing = commands(page, {})
    serving = serve(tour, starting)

    assert "due 20" in tour.do(sending)
    assert "waiting: 1" in tour.do(pending)
    tail = tour.start(tailing)
    tail.until_says("your show begins")
    tail.stop()
    assert "late" in tail.output
    (program,) = programs(page)
    assert "received: your show begins" in tour.run(program)
    for program in programs(section("how-to/unpaid-orders.md")):
        assert "CANCELLED" in tour.run(program)

    assert serving.stop() == 0
    assert "Traceback" not in serving.output


def test_a_data_engineer(tour: Tour) -> None:
    """`docs/spark.md`: a plain session, and a transform."""
    page = section("spark.md")
    deciding = section("spark.md", "Decide on the way: a transform")
    (transform,) = programs(deciding)
    (tour.folder / "mymodule.py").write_text(transform)
    serving, _ = commands(deciding, {})
    serve(tour, serving)

    printed = tour.run("\n".join(programs(page)) + "\nspark.stop()\n")
    assert "2 scheduled" in printed
    assert "|reminders|    2|" in printed  # within the hour: scheduled, and written once more
    tour.do(["dueline", "send", "shows", "a test", "--tag", "test", "--delay", "1s"])
    tour.do(["dueline", "send", "shows", "a show", "--delay", "2s"])
    tail = tour.start(["dueline", "tail", "shows", "--from", "start"])
    tail.until_says("a show")
    assert "a test" not in tail.output


def on_a_cluster(tour: Tour) -> str:
    """`docs/spark.md`, on a cluster: its pipeline runs there. Returns the cluster's address."""
    port = free_port()
    places = {
        "spark://10.0.0.9:7077": f"spark://127.0.0.1:{port}",
        "10.0.0.9": "127.0.0.1",
        "7077": str(port),
        "10.0.0.5:8815": tour.flight,
        "--cores 8 --memory 8g": "--cores 2 --memory 4g --host 127.0.0.1",
    }
    master, worker, serving, delivering = commands(section("spark.md", "On a cluster"), places)
    tour.start([*master, "--webui-port", "0"])
    tour.start([*worker, "--webui-port", "0"])
    tour.start(serving).until_says("accepting on")
    tour.start(delivering, DUELINE_DELIVERY_CONF="spark.cores.max=1")
    return f"spark://127.0.0.1:{port}"


def test_a_data_engineer_with_a_cluster(tour: Tour) -> None:
    on_a_cluster(tour)

    tour.do(["dueline", "send", "shows", "by the cluster", "--delay", "1s"])
    tail = tour.start(["dueline", "tail", "shows", "--from", "start"])
    tail.until_says("by the cluster")


@pytest.mark.soak
def test_a_data_engineer_with_a_job_on_a_cluster(tour: Tour) -> None:
    address = on_a_cluster(tour)
    first, schedule = (
        programs(section("spark.md", heading))[0]
        for heading in ("In a session of your own", "Schedule a DataFrame")
    )
    submitted = f"--master {address} --conf spark.cores.max=1 pyspark-shell"

    printed = tour.run(f"{first}\n{schedule}\nspark.stop()\n", PYSPARK_SUBMIT_ARGS=submitted)

    assert "2 scheduled" in printed


def test_an_operator(tour: Tour) -> None:
    """`docs/operating.md`: check, back up, restore, start again from the copy."""
    places = {
        "/var/lib/dueline": str(tour.folder / "dueline-data"),
        "/srv/dueline-copy": str(tour.folder / "copy"),
        "/backup": str(tour.folder / "backup"),
        "10.0.0.5:8815": tour.flight,
    }
    serving = tour.start(["dueline", "serve", "--no-spark"])
    serving.until_says("accepting on")
    tour.do(
        ["dueline", "send", "reminders", "in two months", "--delay", "60d", "--key", "order-17"]
    )

    stats = json.loads(tour.do(["dueline", "stats", "--json"]))
    assert stats["overdue"] == 0
    (check,) = commands(section("operating.md", "Check"), places)
    tour.do(check)
    here, elsewhere, stopped, listing = commands(section("operating.md", "Backup"), places)
    tour.do(here)
    tour.do(elsewhere)
    assert serving.stop() == 0
    tour.do(stopped)
    generations = [line for line in tour.do(listing).splitlines() if line.startswith("20")]
    assert len(generations) == 3

    newest = sorted(path for path in (tour.folder / "backup").iterdir() if path.name[0] == "2")[-1]
    restore, restore_one = commands(
        section("operating.md", "Restore"), {**places, "20261116T120000Z": newest.name}
    )
    tour.do(restore_one)
    (tour.folder / "dueline-data").rename(tour.folder / "lost")
    tour.do(restore)
    again = tour.start(["dueline", "serve", "--no-spark"])
    again.until_says("accepting on")
    wait_until(lambda: "order-17" in tour.do(["dueline", "pending", "--list"]), "the message")
    assert "cancelled" in tour.do(["dueline", "cancel", "order-17"])
