"""What operators may choose about the gRPC port, and the bounds that nobody needs to choose."""

from __future__ import annotations

from dataclasses import dataclass

from dueline.broker.inflight.receiving import COUNT_MAX, WAIT_MS_MAX

__all__ = ["GrpcOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcOptions:
    """The port's settings."""

    address: str = "127.0.0.1:8081"
    invisible_ms_min: int = 10_000
    polling_ms_default: int = 20_000
    polling_ms_max: int = WAIT_MS_MAX
    receive_count_max: int = COUNT_MAX
    send_count_max: int = 1_024
    call_count_max: int = 20_000
    """Calls and streams of all clients at a time, but for those that wait for messages."""
    stream_count_max: int = 2_048
    """Calls and streams of one connection at a time; further ones wait at the client."""
    poll_count_max: int = 10_000
    """Calls that wait for messages, of all clients; shared out when they are many."""
    signature_age_ms_max: int = 0
    """How far the time in a signature may be from ours; 0: any time."""
    request_size_max: int = 16 << 20
    client_count_max: int = 100_000
    handshake_ms_max: int = 10_000
    """Until a connection has said a first byte, and then until it speaks as a client does."""
    message_ms_max: int = 60_000
    """Until a request that has begun is whole, and until a client has taken an answer."""
    gone_after_ms: int = 5_000
    """A client whose stream ended and did not come back within this time has gone."""
