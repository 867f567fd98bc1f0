"""The Flight door: what the pipeline, bulk jobs, tables and commands ask, over Arrow Flight.

    door              the port: Flight's three kinds of calls, their number and their end
    actions           requests and answers in JSON: decode, call, encode; one module for each caller
    streams           rows and files that go out        uploads    rows that come in
    answering         errors, sizes                     waiting    calls that wait for something

The rules are in `dueline.broker`, the wire is described in `docs/protocol/flight.md` and
`docs/protocol/operators.md`.
"""

from dueline.server.flight.door import FlightDoor

__all__ = ["FlightDoor"]
