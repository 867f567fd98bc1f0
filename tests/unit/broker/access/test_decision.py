"""Which policy decides, against a plain model that asks one rule after the other."""

import ipaddress
import itertools

from hypothesis import given
from hypothesis import strategies as st

from dueline.broker.access.decision import decide
from dueline.broker.access.values import (
    Action,
    Pattern,
    Policy,
    PolicyType,
    Resource,
    ResourceType,
    parse_network,
)

_NAMES = ["", "a", "ab", "abc", "b", "ba"]
_ADDRESSES = ["10.0.0.1", "10.0.0.2", "192.168.1.1", "::1", "unknown"]
_NETWORKS = ["10.0.0.0/8", "10.0.0.1", "192.168.0.0/16", "::/0"]
_SINGLE = [action for action in Action if action != Action.ALL]


def _policies() -> st.SearchStrategy[Policy]:
    named = st.builds(
        Resource,
        st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER]),
        st.sampled_from(_NAMES[1:]),
        st.sampled_from([Pattern.LITERAL, Pattern.PREFIX]),
    )
    whole = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]).map(
        lambda kind: Resource(kind, "", Pattern.ANY)
    )
    return st.builds(
        Policy,
        resource=named | whole | st.just(Resource(ResourceType.ANY, "", Pattern.ANY)),
        actions=st.sets(st.sampled_from(_SINGLE), min_size=1).map(lambda found: Action(sum(found))),
        is_allowed=st.booleans(),
        sources=st.lists(st.sampled_from(_NETWORKS), max_size=2).map(
            lambda found: tuple(map(parse_network, found))
        ),
        type=st.sampled_from(PolicyType),
    )


@given(
    policies=st.lists(_policies(), max_size=8),
    actions=st.sets(st.sampled_from(_SINGLE), min_size=1, max_size=3),
    kind=st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER]),
    name=st.sampled_from(_NAMES[1:]),
    address=st.sampled_from(_ADDRESSES),
)
def test_the_most_specific_policy_decides_and_of_equals_the_one_that_denies(
    policies: list[Policy], actions: set[Action], kind: ResourceType, name: str, address: str
) -> None:
    found = decide(policies, Action(sum(actions)), Resource(kind, name), address)

    assert (None if found is None else found.is_allowed) == _model(
        policies, actions, kind, name, address
    )


def _model(
    policies: list[Policy], actions: set[Action], kind: ResourceType, name: str, address: str
) -> bool | None:
    """Tries the ways to name a resource from the most to the least specific."""
    ways = [
        (kind, name, Pattern.LITERAL),
        *((kind, name[:size], Pattern.PREFIX) for size in range(len(name), 0, -1)),
        (kind, "", Pattern.ANY),
        (ResourceType.ANY, "", Pattern.ANY),
    ]
    for policy_type, way in itertools.product((PolicyType.CUSTOM, PolicyType.DEFAULT), ways):
        said = {
            policy.is_allowed
            for policy in policies
            if policy.type is policy_type
            and tuple(policy.resource) == way
            and any(action in policy.actions for action in actions)
            and _comes_from(policy, address)
        }
        if said:
            return said == {True}
    return None


def _comes_from(policy: Policy, address: str) -> bool:
    if not policy.sources:
        return True
    if address == "unknown":
        return False
    found = ipaddress.ip_address(address)
    return any(
        int(network.network_address) <= int(found) <= int(network.broadcast_address)
        for network in policy.sources
        if network.version == found.version
    )
