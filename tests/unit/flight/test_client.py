"""The Flight client against a server that the test plays: what it sends, and makes of answers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from dueline.credentials import Credentials
from dueline.errors import (
    BrokerError,
    InvalidRequest,
    LimitExceeded,
    RemoteProtocolError,
    Unavailable,
)
from dueline.flight import FlightClient, protocol
from dueline.flight.errors import to_flight
from dueline.flight.operators import OperatorClient, Report, Reported

SCHEMA = pa.schema([("n", pa.int64())])
TICKET = protocol.Ticket()


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


def description(version: int = protocol.PROTOCOL_VERSION) -> bytes:
    return protocol.Description(
        protocol=version, shard="s", now_ms=1, body_size_bytes_max=2, delay_ms_max=3
    ).encode()


class Played(flight.FlightServerBase):  # type: ignore[misc]
    """Answers as a test says; remembers what it was asked and by whom."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.headers: list[dict[str, list[str]]] = []
        self.actions: Callable[[], list[bytes]] = lambda: [description()]
        self.rows: Callable[[], Iterator[pa.RecordBatch]] = lambda: iter([batch(1), batch(2, 3)])
        self.take: Callable[[Any, Any], None] = lambda reader, writer: None
        super().__init__("grpc+tcp://127.0.0.1:0", middleware={"headers": _Headers(self)})

    def do_action(self, context: object, action: flight.Action) -> list[bytes]:
        self.asked.append((action.type, action.body.to_pybytes()))
        return self.actions()

    def do_get(self, context: object, ticket: flight.Ticket) -> flight.FlightDataStream:
        return flight.GeneratorStream(SCHEMA, self.rows())

    def do_put(self, context: object, descriptor: Any, reader: Any, writer: Any) -> None:
        self.asked.append(("put", descriptor.command))
        self.take(reader, writer)


class _Headers(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, server: Played) -> None:
        self._server = server

    def start_call(self, info: object, headers: dict[str, list[str]]) -> None:
        self._server.headers.append(headers)


@contextmanager
def playing(kind: type[FlightClient] = FlightClient, **given: Any) -> Iterator[tuple[Played, Any]]:
    with Played() as server, kind(f"127.0.0.1:{server.port}", **given) as client:
        yield server, client


def test_a_request_goes_out_under_its_name_and_its_answer_comes_back() -> None:
    with playing() as (server, client):
        found = client.describe()

    assert (found.shard, found.now_ms) == ("s", 1)
    assert [name for name, _ in server.asked] == ["describe"]
    assert "authorization" not in server.headers[0]


@pytest.mark.parametrize("count", [0, 2])
def test_an_action_has_one_answer(count: int) -> None:
    with playing() as (server, client):
        server.actions = lambda: [description()] * count
        with pytest.raises(RemoteProtocolError, match=f"expected one answer, found {count}"):
            client.describe()


def test_another_version_is_refused_with_both_numbers() -> None:
    other = protocol.PROTOCOL_VERSION + 1
    with playing() as (server, client):
        server.actions = lambda: [description(other)]
        with pytest.raises(
            RemoteProtocolError,
            match=f"version {protocol.PROTOCOL_VERSION}, found {other}; install the same version",
        ):
            client.describe()


def test_the_broker_s_error_is_raised_as_what_it_was() -> None:
    def refuse() -> list[bytes]:
        raise to_flight(LimitExceeded("too much", limit=7))

    with playing() as (server, client):
        server.actions = refuse
        with pytest.raises(LimitExceeded, match="too much") as caught:
            client.describe()

    assert caught.value.details["limit"] == 7
    assert caught.value.details["address"] == client.address


def test_commands_ask_in_the_same_way() -> None:
    with playing(OperatorClient) as (server, client):
        server.actions = list
        with pytest.raises(RemoteProtocolError, match="expected one answer, found 0"):
            client.ask(Report(), Reported)

    assert [name for name, _ in server.asked] == ["report"]


def test_who_asks_is_said_with_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUELINE_TOKEN", "env:es")
    ann = Credentials(name="ann", secret="s3cret")

    for given, token in ((ann, ann.token), (None, Credentials(name="env", secret="es").token)):
        with playing(credentials=given) as (server, client):
            client.describe()
            list(client.read(TICKET))
        assert [each["authorization"] for each in server.headers] == [[f"Bearer {token}"]] * 2


def test_a_secret_of_the_environment_does_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUELINE_TOKEN", "env:hush-hush")
    with FlightClient("127.0.0.1:1") as client:
        dumped = pickle.dumps(client)

    assert b"hush-hush" not in dumped
    with pickle.loads(dumped) as again:
        assert again.address == "127.0.0.1:1"
        assert again._credentials is not None
        assert again._credentials.name == "env"


def test_nobody_there_is_unavailable_in_every_way_to_ask() -> None:
    with FlightClient("127.0.0.1:1") as client:
        for use in (
            client.describe,
            lambda: list(client.read(TICKET)),
            lambda: client.stage("t", SCHEMA, [batch(1)]),
        ):
            with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1.*is it running"):
                use()


# --- streams --------------------------------------------------------------------------------------


def test_rows_come_batch_by_batch() -> None:
    with playing() as (_, client):
        assert [each.num_rows for each in client.read(TICKET)] == [1, 2]


def test_a_stream_that_fails_has_given_what_came_before() -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise to_flight(InvalidRequest("no more"))

    with playing() as (server, client):
        server.rows = rows
        stream = client.read(TICKET)
        assert next(stream).num_rows == 1
        with pytest.raises(BrokerError, match="no more"):
            next(stream)


def test_staged_rows_are_counted_by_the_broker() -> None:
    def take(reader: Any, writer: Any) -> None:
        writer.write(pa.py_buffer(str(reader.read_all().num_rows).encode()))

    with playing() as (server, client):
        server.take = take
        assert client.stage("token", SCHEMA, [batch(1), batch(2, 3)]) == 3

    ((_, command),) = server.asked
    assert protocol.StageRows.decode(command).token == "token"


def test_a_broker_that_counts_nothing_has_nothing() -> None:
    with playing() as (server, client):
        server.take = lambda reader, writer: reader.read_all()
        with pytest.raises(RemoteProtocolError, match="expected a row count, found nothing"):
            client.stage("token", SCHEMA, [batch(1)])


def test_a_stage_that_is_refused_says_why_and_not_that_the_stream_was_closed() -> None:
    def refuse(reader: Any, writer: Any) -> None:
        reader.read_chunk()
        raise to_flight(LimitExceeded("no room", limit=7))

    def write_on() -> None:
        stream = client.open_stage("token", SCHEMA)
        while True:
            stream.write(batch(*range(1_000)))

    with playing() as (server, client):
        server.take = refuse
        with pytest.raises(LimitExceeded, match="no room"):
            client.stage("token", SCHEMA, [batch(1)])
        with pytest.raises(LimitExceeded, match="no room"):
            write_on()
