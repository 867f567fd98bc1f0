"""The web process in this process: on a port of its own, in front of a broker without Spark."""

import http.client
import json
import ssl
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from tests.ports import free_port
from tests.waiting import PATIENCE_S, wait_until

from dueline.server.tls import Tls
from dueline.web.app import make_app
from dueline.web.gateway import Gateway
from dueline.web.listener import Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A web process that listens on a port."""

    port: int
    context: ssl.SSLContext | None = None
    """None: plain text."""

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request; `body` is sent as JSON, `data` as it is."""
        connection = self._connection()
        sent = dict(headers or {})
        if body is not None:
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, data, sent)
            found = connection.getresponse()
            lower = {name.lower(): value for name, value in found.getheaders()}
            return Answer(status=found.status, headers=lower, body=found.read())
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.context is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=PATIENCE_S, context=self.context
        )

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)


@contextmanager
def site_of(
    broker_address: str, *, tls: Tls | None = None, hosts: Collection[str] | None = ()
) -> Iterator[Site]:
    """Pages and API of a broker, as long as it lasts."""
    port = free_port()
    app = make_app(Gateway(broker_address), hosts=hosts)
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", ws="none")
    server = Listener(config, tls)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started or None, "a web process")
        yield Site(port=port)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
