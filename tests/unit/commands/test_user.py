"""Users on the command line: secrets are made and shown once, or read, and never on the line."""

import io
import json
from pathlib import Path

import pytest
from tests.unit.commands.conftest import Run

from dueline.server.process import BrokerProcess


def listed(run: Run) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in map(json.loads, run("user", "--json").lines)}


def test_a_user_is_made_with_a_secret_that_is_shown_once(broker: BrokerProcess, run: Run) -> None:
    made = run("user", "add", "billing")
    again = run("user", "show", "billing", "--json")

    secret = made.lines[1].removeprefix("secret: ")
    assert broker.broker.access.authenticate_basic("billing", secret, address="").user == "billing"
    assert secret not in again.out
    assert made.code == again.code == 0
    assert run("user", "add", "billing").code == 2


def test_a_secret_is_read_from_a_file_standard_input_or_a_prompt(
    broker: BrokerProcess, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("from standard input\n"))
    monkeypatch.setattr("getpass.getpass", lambda prompt: "from a prompt")

    for name, words in (
        ("file", ("--secret-file", str(tmp_path / "secret"))),
        ("standard input", ("--secret-stdin",)),
        ("prompt", ("--prompt",)),
    ):
        user = name.replace(" ", "-")
        ran = run("user", "add", user, *words, "--json")
        assert json.loads(ran.out) == {"name": user}
        found = broker.broker.access.authenticate_basic(
            user, f"from {'a ' if name != 'standard input' else ''}{name}", address=""
        )
        assert found.user == user
    assert run("user", "add", "x", "--secret-file", str(tmp_path / "none")).code == 2


def test_users_are_changed_rotated_and_deleted(broker: BrokerProcess, run: Run) -> None:
    run("user", "add", "admin", "--super")
    run("user", "add", "reports", "--token")

    assert listed(run)["reports"]["is_token"] is True
    assert run("user", "update", "reports", "--disable").out == "user reports: Normal, disabled\n"
    assert listed(run)["reports"]["is_enabled"] is False
    assert run("user", "update", "reports").code == 2
    rotated = json.loads(run("user", "rotate", "reports", "--keep", "7d", "--json").out)
    run("user", "update", "reports", "--enable", "--json")
    access = broker.broker.access
    assert access.authenticate_basic("reports", rotated["secret"], address="").user == "reports"
    assert "is valid until" in run("user", "show", "reports").out
    assert json.loads(run("user", "delete", "reports", "--json").out)["is_deleted"] is True
    assert run("user", "delete", "admin").code == 2, "the last super user"
    assert run("user", "show", "nobody").code == 2
    assert [line.split()[0] for line in run("user").lines] == ["USER", "admin"]


def test_users_of_a_4x_broker_are_taken_over(
    broker: BrokerProcess, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "plain_acl.yml").write_text(
        "accounts:\n"
        "- accessKey: RocketMQ\n"
        "  secretKey: 12345678\n"
        "  whiteRemoteAddress: 10.0.0.*\n"
        "  defaultTopicPerm: DENY\n"
        "  topicPerms: [orders=PUB|SUB]\n"
    )

    first = run("user", "import", "plain_acl.yml")
    second = run("user", "import", "plain_acl.yml", "--json")

    assert first.out == "user RocketMQ: made\n"
    assert "whiteRemoteAddress of RocketMQ is left behind" in first.err
    assert json.loads(second.out) == {"name": "RocketMQ", "is_new": False}
    access = broker.broker.access
    assert access.authenticate_basic("RocketMQ", "12345678", address="").user == "RocketMQ"
    (user,) = map(json.loads, run("user", "--json").lines)
    assert [(each["resource"], each["decision"], each["type"]) for each in user["policies"]] == [
        ("Topic:*", "Deny", "Default"),
        ("Topic:orders", "Allow", "Custom"),
    ]
