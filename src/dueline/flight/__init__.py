"""Arrow Flight between the broker and what runs outside of it: Spark's tasks, bulk jobs, tools.

`protocol` has the requests and answers as values, `client` sends them. The service that answers is
`dueline.server.flight`. The wire is described in `docs/protocol/flight.md`.
"""

from dueline.flight.client import FlightClient
from dueline.flight.protocol import Slice, WindowCorner

__all__ = ["FlightClient", "Slice", "WindowCorner"]
