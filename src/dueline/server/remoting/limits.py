"""What a peer may use: every queue and every wait of the remoting servers has a bound here."""

from __future__ import annotations

from dataclasses import dataclass

from dueline.wire import FRAME_SIZE_BYTES_MAX

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds per connection and overall; what is over them gets "busy" or is closed."""

    connection_count_max: int = 10_000
    request_count_max: int = 4_096
    """Requests of one connection that are not answered yet, waiting pulls among them."""
    request_size_bytes_max: int = 64 << 20
    """The bytes of these, and what their fields take in memory."""
    total_request_count_max: int = 100_000
    waiting_count_max: int = 80_000
    """Pulls and pops of all connections that wait for messages; shared out when they are many."""
    total_request_size_bytes_max: int = 256 << 20
    frame_size_bytes_max: int = FRAME_SIZE_BYTES_MAX
    held_size_bytes_max: int = 256 << 20
    """Bytes of unfinished frames, of all connections together."""
    unsent_size_bytes_max: int = 4 << 20
    """Answers that a peer does not read; beyond this it is not read from either."""
    total_unsent_size_bytes_max: int = 256 << 20
    """The same of all connections together; beyond this those that do not read are closed."""
    idle_s_max: float = 120.0
    half_frame_s_max: float = 30.0
    stuck_s_max: float = 60.0
    """How long a peer may leave its answers unread."""
