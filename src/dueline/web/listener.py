"""The port's way in: uvicorn behind the entrance that the broker's ports have.

uvicorn would take a certificate when it starts, and either TLS or plain text. Here the first byte
of a connection decides, and a certificate that was replaced is taken for the next one.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

import uvicorn

from dueline.server.connections import Connections
from dueline.server.tls import Entrance, EntranceOptions, Tls
from dueline.server.wrong_port import answer_to_http

__all__ = ["CONNECTION_COUNT_MAX", "Listener"]

CONNECTION_COUNT_MAX: Final = 1_000
_TLS_ONLY: Final = "This port speaks TLS only (tls.mode = enforcing): call https:// instead."


class Listener(uvicorn.Server):
    """uvicorn's server, whose connections have come in by an entrance."""

    def __init__(self, config: uvicorn.Config, tls: Tls | None) -> None:
        """Prepare.

        Args:
            tls: None: plain text only.
        """
        super().__init__(config)
        config.load()
        self._http = config.http_protocol_class
        config.http_protocol_class = self._enter  # type: ignore[assignment]
        self.entrance: Final = Entrance(
            EntranceOptions(
                name="web",
                make=self._let_in,
                refuse_plain=lambda first: answer_to_http(first, _TLS_ONLY),
                protocols=("http/1.1",),
            ),
            tls,
            Connections(CONNECTION_COUNT_MAX),
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Those who are not in yet need not be waited for."""
        self.entrance.close()
        await super().shutdown(sockets)

    def _enter(self, **_: Any) -> asyncio.Protocol:
        return self.entrance()

    def _let_in(self) -> asyncio.Protocol:
        return self._http(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
