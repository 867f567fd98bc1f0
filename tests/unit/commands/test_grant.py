"""What users may do, on the command line."""

import json

import pytest
from tests.unit.commands.conftest import Run


@pytest.mark.usefixtures("broker")
def test_policies_are_granted_listed_and_taken_away(run: Run) -> None:
    run("user", "add", "billing")

    added = run("grant", "add", "billing", "Topic:orders", "Pub,Sub")
    denied = run("grant", "add", "billing", "Group:*", "all", "--deny", "--source", "10.0.0.0/8")
    listed = [json.loads(line) for line in run("grant", "--json").lines]

    assert added.out == "user billing has 1 policies\n"
    assert denied.code == 0
    assert [(each["user"], each["resource"], each["decision"]) for each in listed] == [
        ("billing", "Topic:orders", "Allow"),
        ("billing", "Group:*", "Deny"),
    ]
    assert listed[1]["sources"] == ["10.0.0.0/8"]
    assert run("grant").lines[1].split() == ["billing", "Allow", "Topic:orders", "Pub,Sub"]
    one = run("grant", "delete", "billing", "Topic:orders")
    assert one.out == "user billing: 1 policies taken away\n"
    assert json.loads(run("grant", "delete", "billing", "--json").out)["revoked"] == 1


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("add", "nobody", "Topic:a", "Pub"), "found none of this name"),
        (("add", "billing", "Queue:a", "Pub"), "resource: expected"),
        (("add", "billing", "Topic:a", "Write"), "actions: expected"),
        (("add", "billing", "Topic:a", "Pub", "--source", "home"), "source: expected"),
        (("delete", "nobody"), "found none of this name"),
    ],
)
def test_what_is_no_policy_is_refused(run: Run, words: tuple[str, ...], text: str) -> None:
    run("user", "add", "billing")

    ran = run("grant", *words)

    assert (ran.code, text in ran.err) == (2, True), ran.err
