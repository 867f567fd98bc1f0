"""The rules of quotas: what operators write, and which rule is whose.

    user:billing       sends:500 bytes:2MiB topics:10
    user:*             sends:100
    address:10.1.0.0/16  connections:50 polls:200
    topic:orders       sends:1000 pending:1000000

A rule is for one user, address or topic, for a network, or with `*` for each that has none of its
own. The most special one counts, and it alone: the name itself, then the narrowest network, then
`*`. What a rule does not name is not bounded by it.

| word | of whom | what |
|---|---|---|
| sends, bytes | user, address, topic | messages and bytes of bodies a second |
| topics | user, address | topics an hour that their sends create |
| connections, polls | address | connections, and requests that wait for messages, at a time |
| pending | topic | delayed messages that wait |
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from dueline.errors import InvalidRequest
from dueline.settings import SIZE

__all__ = ["NONE", "Allowance", "Rules", "parse_rules"]

_WORDS: Final = {
    "user": ("sends", "bytes", "topics"),
    "address": ("sends", "bytes", "topics", "connections", "polls"),
    "topic": ("sends", "bytes", "pending"),
}
_EACH: Final = "*"
_COUNT_MAX: Final = 1 << 53
RULE_COUNT_MAX: Final = 10_000

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What one user, address or topic may have; None: as much as there is."""

    sends: int | None = None
    bytes: int | None = None
    topics: int | None = None
    connections: int | None = None
    polls: int | None = None
    pending: int | None = None


NONE: Final = Allowance()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules; `of_…` finds the one that counts."""

    users: Mapping[str, Allowance]
    addresses: Mapping[str, Allowance]
    networks: tuple[tuple[_Network, Allowance], ...]
    """The narrowest first."""
    topics: Mapping[str, Allowance]

    @property
    def is_empty(self) -> bool:
        return not (self.users or self.addresses or self.networks or self.topics)

    def of_user(self, name: str | None) -> Allowance:
        if name is None or not self.users:
            return NONE
        return self.users.get(name) or self.users.get(_EACH, NONE)

    def of_topic(self, name: str) -> Allowance:
        if not self.topics:
            return NONE
        return self.topics.get(name) or self.topics.get(_EACH, NONE)

    def of_address(self, text: str) -> Allowance:
        """An address, or the network that stands for many of them."""
        found = self.addresses.get(text)
        if found is not None:
            return found
        if self.networks:
            for network, allowance in self.networks:
                if _is_within(text, network):
                    return allowance
        return self.addresses.get(_EACH, NONE)


def parse_rules(texts: Mapping[str, str]) -> Rules:
    """Read rules.

    Raises:
        InvalidRequest: says which rule, what was expected and what was found.
    """
    if len(texts) > RULE_COUNT_MAX:
        raise InvalidRequest(f"quotas.rules: expected at most {RULE_COUNT_MAX}, found {len(texts)}")
    found: dict[str, dict[str, Allowance]] = {"user": {}, "address": {}, "topic": {}}
    networks = []
    for subject, text in texts.items():
        kind, _, name = subject.partition(":")
        if kind not in found or not name:
            raise InvalidRequest(
                "quotas.rules: expected user:NAME, address:ADDRESS or topic:NAME, or * for the "
                f"name, found {subject!r:.200}"
            )
        allowance = _allowance(subject, kind, text)
        if kind == "address" and name != _EACH:
            network = _network(subject, name)
            if network.num_addresses > 1:
                networks.append((network, allowance))
                continue
            name = str(network.network_address)
        found[kind][name] = allowance
    networks.sort(key=lambda each: each[0].prefixlen, reverse=True)
    return Rules(
        users=found["user"],
        addresses=found["address"],
        networks=tuple(networks),
        topics=found["topic"],
    )


def _allowance(subject: str, kind: str, text: str) -> Allowance:
    words = _WORDS[kind]
    values: dict[str, int] = {}
    for part in text.split():
        word, _, number = part.partition(":")
        if word not in words or word in values:
            raise InvalidRequest(
                f"quotas.rules: {subject}: expected {', '.join(f'{each}:N' for each in words)}, "
                f"each at most once, found {part!r:.200}"
            )
        values[word] = _number(f"quotas.rules: {subject}: {word}", word, number)
    if not values:
        raise InvalidRequest(f"quotas.rules: {subject}: expected a bound, found none")
    assert values.keys() <= {field.name for field in fields(Allowance)}
    return Allowance(**values)


def _number(where: str, word: str, text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) < _COUNT_MAX:
        return int(text)
    if word == "bytes":
        return int(SIZE.parse(text, where=where))
    raise InvalidRequest(f"{where}: expected a whole number above 0, found {text!r:.200}")


def _network(subject: str, text: str) -> _Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InvalidRequest(
            f"quotas.rules: {subject}: expected an address such as 10.0.0.7 or a network such as "
            f"10.0.0.0/8, found: {error}"
        ) from error


def _is_within(text: str, network: _Network) -> bool:
    try:
        address = ipaddress.ip_network(text)
    except ValueError:
        return False
    return address.version == network.version and address.subnet_of(network)  # type: ignore[arg-type]
