"""RocketMQ 4.x's users as users of ACL 2.0."""

from pathlib import Path

import pytest

from dueline.errors import InvalidRequest
from dueline.takeover.plain_acl import PlainAccount, PlainPolicy, read_plain_acl


def test_accounts_become_users_with_policies(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(
        """
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      - groupA=DENY
      - groupB=PUB|SUB
  - accessKey: rocketmq2
    secretKey: "abcdefgh"
    whiteRemoteAddress: 192.168.1.*
    admin: true
"""
    )

    found = read_plain_acl(path)

    def policy(resource: str, decision: str, *actions: str, kind: str = "Custom") -> PlainPolicy:
        return PlainPolicy(resource=resource, actions=actions, decision=decision, type=kind)

    assert found.accounts == (
        PlainAccount(
            name="RocketMQ",
            secret="12345678",
            is_super=False,
            policies=(
                policy("Topic:*", "Deny", "All", kind="Default"),
                policy("Topic:topicA", "Deny", "All"),
                policy("Topic:topicB", "Allow", "Pub", "Sub"),
                policy("Topic:topicC", "Allow", "Sub"),
                policy("Group:*", "Allow", "Sub", kind="Default"),
                policy("Group:groupA", "Deny", "All"),
                policy("Group:groupB", "Allow", "Pub", "Sub"),
            ),
        ),
        PlainAccount(name="rocketmq2", secret="abcdefgh", is_super=True, policies=()),
    )
    assert len(found.notes) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "accounts: 7",
        "accounts: [7]",
        "accounts: [{accessKey: a}]",
        "accounts: [{accessKey: true, secretKey: x}]",
        "accounts: [{accessKey: a, secretKey: x, topicPerms: 7}]",
        "accounts: [{accessKey: a, secretKey: x, topicPerms: [orders]}]",
        "accounts: [{accessKey: a, secretKey: x, defaultTopicPerm: WRITE}]",
        "accounts: {",
        "a: !!python/object/apply:os.system [true]",
    ],
)
def test_what_is_none_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(text)

    with pytest.raises(InvalidRequest, match=r"plain_acl\.yml"):
        read_plain_acl(path)
    with pytest.raises(InvalidRequest, match="none"):
        read_plain_acl(tmp_path / "none")
