"""What each action, ticket and upload of the Flight port asks of its caller.

Windows, slices and commits are the pipeline's: they take SUB and PUB on the cluster, which is all
that the pipeline's own user has. What looks at everything takes GET on the cluster; what names a
topic or a group takes rights on that. A backup has the files of all users, so only super users may.
Where the right depends on what is found, by a key or by rows, the verb asks again (`callers`).

An action without a line here is not served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from dueline.broker.access import CLUSTER, Action, Resource, group, topic
from dueline.broker.pipeline import SCHEDULE_SCHEMA
from dueline.flight import protocol

__all__ = ["ACTIONS", "SUPER", "Needs", "needs_of_rows", "needs_of_ticket"]

Needs = tuple[Action, tuple[Resource, ...]]
"""One of the actions on each of the resources; no resources: it is enough to be a user."""

USER: Final[Needs] = (Action(0), ())
SUPER: Final[Needs] = (Action.ALL, ())
"""Only super users."""
READ_ALL: Final[Needs] = (Action.GET, (CLUSTER,))
CHANGE_ALL: Final[Needs] = (Action.UPDATE, (CLUSTER,))
PIPELINE_READS: Final[Needs] = (Action.SUB, (CLUSTER,))
PIPELINE_WRITES: Final[Needs] = (Action.PUB, (CLUSTER,))

_SEE: Final = Action.PUB | Action.SUB | Action.GET
_READ: Final = Action.SUB | Action.GET


def _of_topic(actions: Action) -> Callable[[Any], Needs]:
    return lambda request: (actions, (topic(request.topic),))


def _of_group(actions: Action) -> Callable[[Any], Needs]:
    return lambda request: (actions, (group(request.group),))


def _of_topic_if_any(request: Any) -> Needs:
    return READ_ALL if request.topic is None else (_SEE, (topic(request.topic),))


def _of_job(request: Any) -> Needs:
    """A job of one topic, or one that may touch any."""
    if request.numbers is None and request.filter is not None and request.filter.topic is not None:
        return Action.PUB, (topic(request.filter.topic),)
    return CHANGE_ALL


ACTIONS: Final[dict[str, Needs | Callable[[Any], Needs]]] = {
    # The pipeline's
    "describe": USER,
    "next_window": PIPELINE_READS,
    "plan_window": PIPELINE_READS,
    "commit_window": PIPELINE_WRITES,
    "complain": PIPELINE_WRITES,
    # Of jobs, with tokens that nobody guesses
    "discard": USER,
    "put_rows": USER,  # and PUB on every topic of the rows
    "plan_pending": USER,  # times and no messages
    "list_queues": _of_topic(_READ),
    # Delayed messages
    "cancel": USER,  # and PUB on the topics of what is found
    "reschedule": USER,
    "look_up": USER,  # and a right on them
    "count_pending": _of_topic_if_any,
    "stats": READ_ALL,
    "report": (Action.GET | Action.SUB, (CLUSTER,)),  # the web process says if all is ready
    "count_matching": lambda request: _of_topic_if_any(request.filter),
    "list_matching": lambda request: _of_topic_if_any(request.filter),
    "look_ahead": _of_topic_if_any,
    "describe_message": USER,  # and a right on the topics of what is found
    "change_numbers": CHANGE_ALL,
    "start_job": _of_job,
    "find_job": READ_ALL,
    "list_jobs": READ_ALL,
    "stop_job": CHANGE_ALL,
    "set_rule": _of_topic(Action.UPDATE),
    "list_rules": READ_ALL,
    "forecast": READ_ALL,
    "list_ledger": _of_topic_if_any,
    # Users
    "add_user": CHANGE_ALL,
    "update_user": CHANGE_ALL,
    "rotate_user": CHANGE_ALL,
    "delete_user": CHANGE_ALL,
    "grant": CHANGE_ALL,
    "revoke": CHANGE_ALL,
    "list_users": READ_ALL,
    "read_audit": READ_ALL,
    # Backups
    "begin_backup": SUPER,
    "renew_backup": SUPER,
    "end_backup": SUPER,
    # People
    "measure": READ_ALL,
    "read_history": READ_ALL,
    "list_settings": READ_ALL,
    "list_topics": READ_ALL,
    "list_groups": READ_ALL,
    "list_undecided": READ_ALL,
    "create_topic": _of_topic(Action.CREATE | Action.UPDATE),
    "delete_topic": _of_topic(Action.DELETE),
    "reset_group": lambda request: (Action.UPDATE, (group(request.group), topic(request.topic))),
    "list_dead_letters": _of_group(_READ),
    "resend_dead_letter": _of_group(Action.SUB | Action.UPDATE),
    "read_traces": READ_ALL,
    "inspect": USER,  # and a right on the topics of what is found
    "send": _of_topic(Action.PUB),
}


def needs_of_ticket(ticket: protocol.Ticket) -> Needs:
    """What a stream of rows to the caller asks for."""
    if ticket.slice is not None:
        return PIPELINE_READS
    if ticket.pending is not None:
        names = ticket.pending.topics
        return READ_ALL if names is None else (_READ, tuple(map(topic, names)))
    if ticket.found is not None:
        return USER  # and a right on the topics of what is found
    if ticket.messages is not None:
        return _READ, (topic(ticket.messages.topic),)
    return READ_ALL if ticket.ledger is not None else SUPER  # a backup


def needs_of_rows(schema: pa.Schema) -> Needs:
    """What a stream of rows from the caller asks for: deliveries are the pipeline's."""
    return USER if schema.equals(SCHEDULE_SCHEMA) else PIPELINE_WRITES
