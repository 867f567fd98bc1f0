"""The decision: do the policies of a user allow one of some actions on a resource?

A policy counts if it covers the resource, names one of the actions, and the caller's address is
among its sources. Of those that count the most specific one decides:

    a literal name  >  a longer prefix  >  a shorter one  >  any of the type  >  any at all

and of equals the one that denies. If no custom policy counts, the default ones are asked likewise;
if none of them counts either, the answer is no. These are the rules of RocketMQ's ACL 2.0.

Pure functions.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from dueline.broker.access.values import (
    Action,
    Pattern,
    Policy,
    PolicyType,
    Resource,
    ResourceType,
)

__all__ = ["decide"]


def decide(
    policies: Iterable[Policy], actions: Action, resource: Resource, address: str
) -> Policy | None:
    """The policy that decides about a request; None: none of them speaks of it."""
    counting = [
        policy
        for policy in policies
        if policy.actions & actions
        and policy.resource.covers(resource)
        and _is_from(policy, address)
    ]
    custom = [policy for policy in counting if policy.type is PolicyType.CUSTOM]
    return max(custom or counting, key=_weight, default=None)


def _weight(policy: Policy) -> tuple[int, int, bool]:
    resource = policy.resource
    if resource.type is ResourceType.ANY:
        return 0, 0, not policy.is_allowed
    if resource.pattern is Pattern.LITERAL:
        return 2, 0, not policy.is_allowed
    # Any of a type is the prefix of no length.
    return 1, len(resource.name), not policy.is_allowed


def _is_from(policy: Policy, address: str) -> bool:
    if not policy.sources:
        return True
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in policy.sources)
