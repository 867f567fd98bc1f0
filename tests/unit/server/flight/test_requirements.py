"""Every action, ticket and upload of the Flight port asks for something."""

import pyarrow as pa

from dueline.broker.access import CLUSTER, Action
from dueline.broker.pipeline import SCHEDULE_SCHEMA
from dueline.flight import console, operators, protocol
from dueline.server.flight.requirements import (
    ACTIONS,
    SUPER,
    needs_of_rows,
    needs_of_ticket,
)
from dueline.store.schema import routed_schema

PIPELINE = {"next_window", "plan_window", "commit_window", "complain"}


def test_every_action_asks() -> None:
    known = protocol.ACTIONS | operators.CONTROL_ACTIONS | console.CONSOLE_ACTIONS

    assert ACTIONS.keys() == known.keys()


def test_only_the_pipelines_actions_take_what_the_pipeline_has() -> None:
    for name, needs in ACTIONS.items():
        if not callable(needs) and needs[1] == (CLUSTER,):
            is_pipelines = bool(needs[0] & (Action.PUB | Action.SUB))
            # Whether it is at work may be asked by the pipeline too, and by those who may look.
            assert is_pipelines == (name in PIPELINE or name == "report")
            assert name != "report" or needs[0] & Action.GET


def test_names_in_a_request_are_asked_for() -> None:
    def needs(name: str, **fields: object) -> set[str]:
        found = ACTIONS[name]
        kinds = protocol.ACTIONS | operators.CONTROL_ACTIONS | console.CONSOLE_ACTIONS
        assert callable(found)
        return set(map(str, found(kinds[name][0](**fields))[1]))

    assert needs("delete_topic", topic="orders") == {"Topic:orders"}
    assert needs("list_queues", topic="%RETRY%g") == {"Group:g"}
    assert needs("count_pending", bucket_ms=1, topic=None) == {str(CLUSTER)}
    assert needs("count_pending", bucket_ms=1, topic="orders") == {"Topic:orders"}
    assert needs("reset_group", group="g", topic="t", timestamp_ms=1) == {"Group:g", "Topic:t"}
    assert needs("send", topic="orders", body=b"") == {"Topic:orders"}
    assert needs("list_dead_letters", group="g") == {"Group:g"}


def test_a_ticket_asks_for_what_it_names() -> None:
    pending = protocol.ReadPending(start_ms=0, end_ms=1)
    some = pending.changed(topics=("a", "b"))
    messages = protocol.ReadMessages(topic="orders", queue_id=0, start=0, end=1)
    slices = protocol.ReadSlice(plan="p", index=0, run="r", batch=1, units_only=False)

    def resources(**fields: object) -> set[str]:
        return set(map(str, needs_of_ticket(protocol.Ticket(**fields))[1]))  # type: ignore[arg-type]

    assert resources(slice=slices) == {str(CLUSTER)}
    assert resources(pending=pending) == {str(CLUSTER)}
    assert resources(pending=some) == {"Topic:a", "Topic:b"}
    assert resources(messages=messages) == {"Topic:orders"}
    assert resources(found=protocol.FindPending(key="k")) == set()
    assert needs_of_ticket(protocol.Ticket(backup=protocol.ReadBackup(hold="h"))) is SUPER
    assert needs_of_ticket(protocol.Ticket()) is SUPER


def test_deliveries_are_the_pipelines() -> None:
    assert needs_of_rows(routed_schema(())) == (Action.PUB, (CLUSTER,))
    assert needs_of_rows(SCHEDULE_SCHEMA) == (Action(0), ())
    assert needs_of_rows(pa.schema([])) == (Action.PUB, (CLUSTER,))
