"""The dashboard and the alert rules ask only for what is really exported, with its labels."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.server.local import carry, outgoing, running, send, small_config
from tests.unit.web.local import site_of
from tests.waiting import wait_until

MONITORING = Path(__file__).parents[2] / "monitoring"
NAME = re.compile(r"\b((?:dueline|rocketmq)_\w+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\bby \(([^)]*)\)")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """The labels of each name, from a broker to which something has happened."""
    config = small_config(tmp_path_factory.mktemp("broker"))
    with running(config) as broker, site_of(broker.address) as site:
        send(broker, outgoing("a"), outgoing("b", TIMER_DELAY_MS="1"))
        carry(broker.store)
        wait_until(lambda: broker.store.gate_row_count == 0 or None, "an open gate")
        broker.broker.offsets.set("billing", "orders", {0: 0})
        found: dict[str, set[str]] = {}
        for family in text_string_to_metric_families(site.get("/metrics").text):
            for each in family.samples:
                found.setdefault(each.name, set()).update(each.labels)
        yield found


def dashboard() -> Any:
    return json.loads((MONITORING / "grafana.json").read_text())


def rules() -> list[dict[str, Any]]:
    plain = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    return [rule for group in plain["groups"] for rule in group["rules"]]


def faults(expression: str, exported: dict[str, set[str]]) -> list[str]:
    """Names and labels of an expression that nobody exports."""
    found = []
    known: set[str] = set()
    for name, labels in NAME.findall(expression):
        if name not in exported:
            found.append(name)
            continue
        known |= exported[name]
        asked = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels)
        found += [f"{name}{{{label}}}" for label in asked if label not in exported[name]]
    for grouping in GROUPED.findall(expression):
        found += [label for label in re.findall(r"\w+", grouping) if known and label not in known]
    return found


def test_the_dashboard_shows_what_is_exported(exported: dict[str, set[str]]) -> None:
    expressions = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]

    assert len(expressions) > 15
    assert [each for expression in expressions for each in faults(expression, exported)] == []


def test_panels_do_not_lie_on_each_other() -> None:
    cells = [
        (panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy)
        for panel in dashboard()["panels"]
        for dx in range(panel["gridPos"]["w"])
        for dy in range(panel["gridPos"]["h"])
    ]

    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_the_alerts_watch_what_is_exported(exported: dict[str, set[str]]) -> None:
    for rule in rules():
        assert faults(rule["expr"], exported) == [], rule["alert"]
        used = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        own = [exported[name] for name, _ in NAME.findall(rule["expr"])]
        for label in used:
            assert label == "instance" or any(label in each for each in own), rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_every_alert_has_a_word_of_advice() -> None:
    page = (MONITORING.parent / "docs" / "operating.md").read_text()

    assert [rule["alert"] for rule in rules() if rule["alert"] not in page] == []


@pytest.mark.parametrize(
    "expression",
    [
        "dueline_nothing > 0",
        'dueline_overdue_messages{colour="red"}',
        "sum by (colour) (dueline_overdue_messages)",
    ],
)
def test_what_is_not_exported_is_noticed(exported: dict[str, set[str]], expression: str) -> None:
    assert faults(expression, exported)
