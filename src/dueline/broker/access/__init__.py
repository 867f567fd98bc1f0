"""Access control: who may do what, from where, on which topics and groups.

values         actions, resources, policies, callers: the words of RocketMQ's ACL 2.0
decision       what the policies of a user say about a request
secrets        sealed, hashed, compared in constant time
users          users and their file
subject        the user whom a client's certificate names
access         the one place that doors ask: who is it, and may they?
management     adding users, turning secrets over, granting and revoking
trail          what was refused and what was changed, as lines on disk
"""

from __future__ import annotations

from dueline.broker.access.access import PIPELINE, Access, AccessOptions
from dueline.broker.access.management import Management, NewUser
from dueline.broker.access.subject import Certificate
from dueline.broker.access.trail import Trail
from dueline.broker.access.values import (
    ANONYMOUS,
    CLUSTER,
    Action,
    Caller,
    Policy,
    Resource,
    group,
    topic,
)

__all__ = [
    "ANONYMOUS",
    "CLUSTER",
    "PIPELINE",
    "Access",
    "AccessOptions",
    "Action",
    "Caller",
    "Certificate",
    "Management",
    "NewUser",
    "Policy",
    "Resource",
    "Trail",
    "group",
    "topic",
]
