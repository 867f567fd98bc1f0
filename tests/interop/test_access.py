"""RocketMQ's own tool and its hook, with users: who may comes in, who may not is told why."""

from __future__ import annotations

from pathlib import Path

from tests.access.people import ADMIN, WRONG, SigningPeer, addresses, guarded_config
from tests.interop import toolchain
from tests.interop.mqadmin import mqadmin
from tests.unit.server.local import running

from dueline.credentials import Credentials


class Tool:
    """`mqadmin` of 5.x as one user: it signs with the hook of RocketMQ's own client."""

    def __init__(self, name_server: str, folder: Path, who: Credentials | None) -> None:
        self._name_server = name_server
        self._folder = folder / (who.name + str(len(who.secret)) if who is not None else "nobody")
        (self._folder / "conf").mkdir(parents=True)
        if who is not None:
            text = f"accessKey: {who.name}\nsecretKey: {who.secret}\n"
            (self._folder / "conf" / "tools.yml").write_text(text)

    def __call__(self, command: str, *words: str) -> str:
        return mqadmin(self._name_server, self._folder, command, *words, release="apache5")


def test_the_tool_makes_users_and_policies_that_hold_also_after_a_restart(tmp_path: Path) -> None:
    toolchain.build("apache5")
    config = guarded_config(tmp_path)
    made = Credentials(name="clerk", secret="asecretofclerk")
    with running(config) as broker:
        address, names, _ = addresses(broker)
        admin = Tool(names, tmp_path, ADMIN)

        assert "success" in admin("createUser", "-b", address, "-u", made.name, "-p", made.secret)
        assert "success" in admin(
            *("createAcl", "-b", address, "-s", "User:clerk", "-r", "Topic:orders*,Group:readers"),
            *("-a", "Pub,Sub", "-d", "Allow"),
        )
        assert "clerk" in admin("listUser", "-b", address)
        assert "Topic:orders*" in admin("getAcl", "-b", address, "-s", "User:clerk")
        refused = Tool(names, tmp_path, WRONG)("listUser", "-b", address)
        assert "one of them does not" in refused
        assert "access control is on" in Tool(names, tmp_path, None)("listUser", "-b", address)
    with running(config) as broker, SigningPeer(addresses(broker)[0], made) as peer:
        assert peer.send_message("orders").code == 0
        assert peer.send_message("payments").code == 16
