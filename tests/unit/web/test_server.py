import socket

import pytest

from dueline.errors import InvalidRequest, Unavailable
from dueline.web.server import WebOptions, serve


def test_a_taken_port_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(Unavailable, match="taken by another process"):
            serve(WebOptions(listen=address, broker="127.0.0.1:1"), on_listening=lambda _: None)


def test_without_access_control_it_listens_on_loopback_only() -> None:
    with pytest.raises(InvalidRequest, match="expected an address of loopback"):
        serve(WebOptions(listen="0.0.0.0:0", broker="127.0.0.1:1"), on_listening=lambda _: None)
