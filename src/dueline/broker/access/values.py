"""Who asks, what for, and of what: the words of access control, those of RocketMQ's ACL 2.0.

    user  ──has──▶  policies:  Allow | Deny,  actions,  a resource,  source addresses

A request asks for one of some actions on resources of literal names, `Topic:orders`. A policy names
what it speaks of by a literal name, by a prefix or not at all: `Topic:orders`, `Topic:order*`,
`Topic:*`, and `*` is everything there is. Names of types and actions are read in any case, and
written as RocketMQ writes them.

    >>> Resource.parse("topic:order*")
    Resource(type=<ResourceType.TOPIC: 4>, name='order', pattern=<Pattern.PREFIX: 3>)
    >>> str(_)
    'Topic:order*'
    >>> names_of(parse_actions(["pub", "Get"]))
    ['Pub', 'Get']

Values without behaviour of their own; they are keys of dictionaries on hot paths, so actions are
bits and resources are tuples.
"""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from dueline.admission import RETRY_PREFIX, is_closed
from dueline.errors import InvalidRequest

__all__ = [
    "ANONYMOUS",
    "CLUSTER",
    "Action",
    "Caller",
    "Network",
    "Pattern",
    "Policy",
    "PolicyType",
    "Resource",
    "ResourceType",
    "check_name",
    "group",
    "names_of",
    "parse_actions",
    "parse_network",
    "topic",
]

NAME_SIZE_MAX: Final = 255
"""Characters of a resource's name; the longest topics, those of groups, have as many."""
USER_NAME: Final = re.compile(r"[A-Za-z0-9_.@%|+-]{1,64}")
"""No colon, slash, comma or blank: signatures and headers separate names by these."""
OWN_PREFIX: Final = "@"
"""Of names that are the broker's own."""


class Action(enum.IntFlag):
    """What is done; several together mean any of them."""

    PUB = 1
    SUB = 2
    CREATE = 4
    UPDATE = 8
    DELETE = 16
    GET = 32
    LIST = 64

    ALL = 127


_ACTION_NAMES: Final = {
    action: action.name.capitalize() for action in Action if action.name and action != Action.ALL
}
_ACTIONS: Final = {name.lower(): action for action, name in _ACTION_NAMES.items()} | {
    "all": Action.ALL
}


class ResourceType(enum.IntEnum):
    """What there is to have rights on. Nothing asks for a NAMESPACE: names of topics have it."""

    ANY = 1
    CLUSTER = 2
    NAMESPACE = 3
    TOPIC = 4
    GROUP = 5


_TYPES: Final = {kind.name.lower(): kind for kind in ResourceType if kind is not ResourceType.ANY}


class Pattern(enum.IntEnum):
    """How a policy names what it speaks of."""

    ANY = 1
    LITERAL = 2
    PREFIX = 3


class PolicyType(enum.Enum):
    """A default policy counts only if no custom one speaks of the request."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


class Resource(NamedTuple):
    """Something that a request asks for (a literal), or that a policy speaks of."""

    type: ResourceType
    name: str = ""
    pattern: Pattern = Pattern.LITERAL

    @staticmethod
    def parse(text: str) -> Resource:
        """A resource as policies write it.

        Raises:
            InvalidRequest: says what was expected.
        """
        if text == "*":
            return Resource(ResourceType.ANY, "", Pattern.ANY)
        kind, colon, name = text.partition(":")
        found = _TYPES.get(kind.lower())
        if found is None or not colon or not 0 < len(name) <= NAME_SIZE_MAX:
            raise InvalidRequest(
                "resource: expected *, or Cluster, Namespace, Topic or Group with :name, :prefix* "
                f"or :*, found {text[:200]!r}",
                field="resource",
            )
        if name == "*":
            return Resource(found, "", Pattern.ANY)
        pattern = Pattern.PREFIX if name.endswith("*") else Pattern.LITERAL
        name = name.removesuffix("*")
        if "*" in name:
            raise InvalidRequest(
                f"resource: expected * at the end of the name only, found {text[:200]!r}",
                field="resource",
            )
        return Resource(found, name, pattern)

    def __str__(self) -> str:
        if self.type is ResourceType.ANY:
            return "*"
        return f"{self.type.name.capitalize()}:{self.name}" + (
            "" if self.pattern is Pattern.LITERAL else "*"
        )

    def covers(self, wanted: Resource) -> bool:
        """Does a policy on this speak of a literal resource?"""
        if self.type is ResourceType.ANY:
            return True
        if self.type != wanted.type:
            return False
        if self.pattern is Pattern.LITERAL:
            return self.name == wanted.name
        return wanted.name.startswith(self.name)  # of any: the empty prefix


CLUSTER: Final = Resource(ResourceType.CLUSTER)
"""This cluster, whatever its name: all that belongs to no topic and no group."""


def topic(name: str) -> Resource:
    """The resource behind a topic's name.

    A group's retry topic is the group's. What only the broker writes, such as the half messages of
    transactions, has messages of every topic: rights on it are rights on the cluster.
    """
    if name.startswith(RETRY_PREFIX):
        return Resource(ResourceType.GROUP, name.removeprefix(RETRY_PREFIX))
    if is_closed(name):
        return CLUSTER
    return Resource(ResourceType.TOPIC, name)


def group(name: str) -> Resource:
    """The resource of a consumer group, also if it is named by its retry topic."""
    return Resource(ResourceType.GROUP, name.removeprefix(RETRY_PREFIX))


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a user may do, or may not; without `sources`, from everywhere."""

    resource: Resource
    actions: Action
    is_allowed: bool
    sources: tuple[Network, ...] = ()
    type: PolicyType = PolicyType.CUSTOM


class Caller(NamedTuple):
    """Who asks: a user, or nobody that we know; from where; and how that was found out."""

    user: str | None
    address: str
    method: str = ""


ANONYMOUS: Final = Caller(None, "")


def check_name(name: str) -> None:
    """Refuse names that no user can have.

    Raises:
        InvalidRequest: says what was expected.
    """
    if not USER_NAME.fullmatch(name) or name.startswith(OWN_PREFIX):
        raise InvalidRequest(
            "user: expected a name of 1 to 64 letters, digits and _ . @ % | + -, not beginning "
            f"with @, found {name!r:.200}",
            field="user",
        )


def parse_actions(names: Iterable[str]) -> Action:
    """Actions by name.

    Raises:
        InvalidRequest: an unknown name, or none at all.
    """
    found = Action(0)
    for name in names:
        action = _ACTIONS.get(name.strip().lower())
        if action is None:
            raise InvalidRequest(
                f"actions: expected {', '.join(_ACTION_NAMES.values())} or All, found "
                f"{name[:200]!r}",
                field="actions",
            )
        found |= action
    if not found:
        raise InvalidRequest("actions: expected one or more, found none", field="actions")
    return found


def names_of(actions: Action) -> list[str]:
    """The names of actions, as RocketMQ writes them."""
    if actions == Action.ALL:
        return ["All"]
    return [name for action, name in _ACTION_NAMES.items() if action & actions]


def parse_network(text: str) -> Network:
    """An address, or a range of them as in 10.0.0.0/8.

    Raises:
        InvalidRequest: it is none.
    """
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise InvalidRequest(
            f"source: expected an address or a range such as 10.0.0.0/8, found {text[:200]!r}",
            field="sources",
        ) from None
