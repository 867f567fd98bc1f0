"""Who can reach a broker: nobody from other machines, unless an operator has thought of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from dueline.config import Config
from dueline.errors import InvalidRequest
from dueline.settings import parse_address

__all__ = ["check_exposure", "exposed_settings", "reach_of_spark"]


def check_exposure(config: Config) -> None:
    """Refuse to listen beyond loopback without access control.

    Raises:
        InvalidRequest: names the settings, and says how to switch access control on.
    """
    exposed = exposed_settings(config)
    if not exposed or config.access.enabled or config.listen.insecure:
        return
    found = ", ".join(f"{name} = {address}" for name, address in exposed.items())
    raise InvalidRequest(
        f"expected addresses of loopback while access control is off, found {found}: everybody "
        "who reaches the port could do everything. Switch it on: access.enabled = true and a first "
        "super user in access.super_user_file (docs/security.md); or say --insecure if the network "
        "is yours alone",
        field="listen.insecure",
    )


def exposed_settings(config: Config) -> dict[str, str]:
    """The addresses that other machines can call, by setting."""
    listen = config.listen
    addresses = {
        "listen.flight": listen.flight,
        "listen.name_server": listen.name_server,
        "listen.remoting": listen.remoting,
        "listen.grpc": listen.grpc,
    }
    return {
        name: address
        for name, address in addresses.items()
        if address is not None and not _is_loopback(parse_address(address)[0])
    }


def reach_of_spark(config: Config) -> str:
    """Where Spark's driver listens, in words."""
    conf, master = config.delivery.conf, config.delivery.master
    if master.startswith("local"):
        bound = conf.get("spark.driver.bindAddress", "127.0.0.1")
        return f"Spark listens on {bound} on free ports, for itself; its pages are {_pages(conf)}"
    bound = conf.get("spark.driver.bindAddress") or conf.get("spark.driver.host") or "this machine"
    secured = conf.get("spark.authenticate") == "true"
    return (
        f"Spark listens on {bound}, for the cluster {master}, "
        f"{'with' if secured else 'WITHOUT'} spark.authenticate; its pages are {_pages(conf)}"
    )


def _pages(conf: Mapping[str, str]) -> str:
    return "on" if conf.get("spark.ui.enabled") == "true" else "off"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
