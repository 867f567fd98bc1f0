"""Other ways in: the VIP channel's port, and clients that sign their requests."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from pathlib import Path

from tests.ports import free_ports
from tests.remoting.peer import Peer, bodies_of
from tests.remoting.serving import RunningBroker
from tests.unit.server.local import running, small_config

from dueline.wire import Command, RequestCode


class SigningPeer(Peer):
    """A peer that signs as RocketMQ's ACL hook does: all values in the order of their names."""

    def send(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", flag: int = 0
    ) -> int:
        fields = {**(ext or {}), "AccessKey": "RocketMQ", "SecurityToken": "t"}
        content = "".join(fields[name] for name in sorted(fields)).encode() + body
        digest = hmac.digest(b"12345678", content, "sha1")
        signed = {**fields, "Signature": base64.b64encode(digest).decode()}
        return super().send(code, signed, body, flag)


def test_vip_channel_is_two_ports_below(tmp_path: Path) -> None:
    (port,) = free_ports(1, apart=2)
    config = small_config(tmp_path, **{"listen.remoting": f"127.0.0.1:{port}"})
    with running(config), Peer(f"127.0.0.1:{port - 2}") as vip, Peer(f"127.0.0.1:{port}") as peer:
        assert vip.send_message("orders", b"by VIP").code == 0

        assert bodies_of(peer.pull("orders")) == [b"by VIP"]


def test_taken_vip_port_is_done_without(tmp_path: Path) -> None:
    (port,) = free_ports(1, apart=2)
    addresses = {
        "listen.remoting": f"127.0.0.1:{port}",
        "listen.name_server": f"127.0.0.1:{port - 2}",
    }
    with running(small_config(tmp_path, **addresses)) as broker, Peer(f"127.0.0.1:{port}") as peer:
        assert peer.send_message("orders").code == 0
        assert broker.remoting_options.vip is None


def test_signed_requests_are_served_like_others(broker: RunningBroker) -> None:
    with SigningPeer(broker.address) as peer, SigningPeer(broker.name_server) as names:
        assert peer.send_message("orders", b"signed", TIMER_DELAY_MS="1").code == 0
        found: Command = peer.pull("orders", suspend_ms=30_000)
        route = names.call(RequestCode.GET_ROUTE_INFO_BY_TOPIC, {"topic": "orders"})

    assert bodies_of(found) == [b"signed"]
    assert (route.code, b'"brokerDatas"' in route.body) == (0, True)
