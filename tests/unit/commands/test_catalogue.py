"""What holds for every command: examples, JSON, a place in docs/commands.md."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.golden.layout import STORE
from tests.unit.commands.conftest import Run

from dueline.broker.access import ANONYMOUS, NewUser
from dueline.commands import demo
from dueline.commands.catalogue import COMMANDS, parser_of
from dueline.message import Message
from dueline.server.process import BrokerProcess

DOCS = Path(__file__).parents[3] / "docs" / "commands.md"
CASES: dict[str, tuple[str, ...]] = {
    "send": ("orders", "x"),
    "tail": ("orders", "--from", "start", "--count", "1"),
    "pending": ("--list",),
    "messages": ("orders",),
    "cancel": ("order-17",),
    "reschedule": ("order-17", "--delay", "1h"),
    "topics": (),
    "groups": (),
    "dead-letters": ("billing", "--resend-all"),
    "user": ("add", "billing"),
    "grant": ("add", "clerk", "Topic:orders", "Pub"),
    "audit": (),
    "stats": (),
    "top": ("--once",),
    "config": (),
    "check": ("data",),
    "backup": ("copies",),
    "restore": ("copies", "restored"),
    "log": ("data/store",),
    "import": (str(STORE), "--dry-run", "--assume-pending"),
    "completion": ("bash",),
}
ELSEWHERE = {"restart", "serve", "web", "deliver", "cluster", "demo", "sql"}
"""They run for long, or become another program: below, and in tests of their own."""


def objects(text: str) -> list[Any]:
    """One JSON value, or one per line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def test_every_command_has_a_case() -> None:
    assert set(CASES) | ELSEWHERE == set(COMMANDS)


@pytest.fixture
def filled(broker: BrokerProcess) -> BrokerProcess:
    broker.broker.topics.ensure("orders", queue_count=1)
    properties = {"KEYS": "order-17", "TIMER_DELAY_MS": "3600000"}
    broker.store.put(Message(topic="orders", body=b"1", properties=properties))
    broker.store.put(Message(topic="orders", body=b"2"))
    broker.broker.consumer_groups.ensure("billing")
    broker.store.put(Message(topic="%DLQ%billing", body=b"3"))
    broker.broker.users.add(ANONYMOUS, NewUser(name="clerk"))
    broker.broker.trail.changed(ANONYMOUS, door="test", what="change")
    return broker


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", CASES)
def test_every_command_speaks_json(run: Run, name: str) -> None:
    if name == "restore":
        assert run("backup", "copies").code == 0

    ran = run(name, *CASES[name], "--json")

    assert ran.code in (0, 1), ran.err
    assert objects(ran.out)
    assert all(isinstance(each, dict | list) for each in objects(ran.out))


def test_serve_speaks_json_and_says_its_ports(tmp_path: Path) -> None:
    ports = [f"--{name}=127.0.0.1:0" for name in ("flight", "name-server", "remoting", "grpc")]
    ports.append("--http=off")
    words = ("serve", "--no-spark", "--tethered", "--json", "--data", str(tmp_path / "data"))
    with subprocess.Popen(
        [sys.executable, "-m", "dueline", *words, *ports],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        found = []
        for line in process.stdout:
            found.append(json.loads(line))
            if found[-1]["event"] == "listening":
                process.stdin.close()  # it is tethered: it stops

    assert process.returncode == 0
    assert set(found[0]) == {"time_ms", "event", "text"}
    (listening,) = (each for each in found if each["event"] == "listening")
    for name in ("flight", "name_server", "remoting"):
        assert not listening[name].endswith(":0")


def test_deliver_says_its_brokers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dueline.spark.delivery.main", lambda words: 0)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(os, "environ", dict(os.environ))

    ran = run("deliver", "--broker", "10.0.0.5:8815", "--json")

    (found,) = objects(ran.out)
    assert found["brokers"] == ["10.0.0.5:8815"]


def test_demo_prints_its_summary_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def show(*words: object, **more: object) -> tuple[dict[str, int], list[object]]:
        return {"a": 1}, []

    monkeypatch.setattr(demo, "_broker", nullcontext)
    monkeypatch.setattr(demo, "_show", show)

    ran = run("demo", "--json")

    assert ran.code == 1
    assert objects(ran.out) == [{"arrived": 0, "late_ms": {}, "early": 0, "lost": 1, "twice": 0}]
    assert "starting a broker" in ran.err


# --- docs/commands.md -----------------------------------------------------------------------------


def reference(name: str, parser: argparse.ArgumentParser, *, level: str = "##") -> Iterator[str]:
    """A command's part of the page, as lines."""
    yield f"{level} `dueline {name}`"
    yield ""
    summary = parser.description or ""
    yield f"{summary[0].upper()}{summary[1:]}."
    yield ""
    yield "| argument | meaning |"
    yield "|---|---|"
    inner: dict[str, argparse.ArgumentParser] = {}
    formatter = parser._get_formatter()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            inner = action.choices
        elif "--help" not in action.option_strings:
            words = formatter._format_args(action, (action.dest.upper()))
            names = " ".join([*action.option_strings, words]).strip()
            text = formatter._expand_help(action) if action.help else ""
            yield f"| `{names}` | {text} |".replace("|  |", "| |")
    for each, its_parser in inner.items():
        yield ""
        yield from reference(f"{name} {each}", its_parser, level=f"{level}#")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_every_command_with_its_arguments(name: str) -> None:
    expected = "\n".join(reference(name, parser_of(name)))

    assert expected in DOCS.read_text(), f"docs/commands.md: expected\n\n{expected}"


def test_the_page_has_no_other_commands() -> None:
    headings = [line for line in DOCS.read_text().splitlines() if line.startswith("## `dueline ")]

    assert headings == [f"## `dueline {name}`" for name in COMMANDS]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_name_the_command(name: str) -> None:
    help_text = parser_of(name).format_help()

    _, _, examples = help_text.partition("examples:\n")
    assert f"dueline {name}" in examples
