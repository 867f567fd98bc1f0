"""The gRPC port as a part of a broker, which may be off: then nothing of gRPC is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dueline.broker import Broker
from dueline.config import Config
from dueline.server.connections import Connections
from dueline.server.grpc.options import GrpcOptions
from dueline.server.threads import OnFailure
from dueline.server.tls import Tls

if TYPE_CHECKING:
    from dueline.server.grpc.server import GrpcServer

__all__ = ["GrpcPort", "grpc_options"]


class GrpcPort:
    """`start` it after the writer of messages; `stop` it after that has answered everybody."""

    def __init__(
        self,
        broker: Broker,
        options: GrpcOptions | None,
        *,
        tls: Tls | None = None,
        connections: Connections | None = None,
        on_failure: OnFailure,
    ) -> None:
        """Prepare.

        Args:
            options: None: the port is off.
        """
        self.server: GrpcServer | None = None
        if options is not None:
            # A broker without the port starts without gRPC.
            from dueline.server.grpc.server import GrpcServer

            self.server = GrpcServer(
                broker,
                options,
                tls=tls,
                connections=connections,
                on_failure=on_failure,
            )

    @property
    def port(self) -> int | None:
        """The port, or None if it is off."""
        return self.server.port if self.server is not None else None

    def start(self) -> None:
        """Serve.

        Raises:
            Unavailable: the port is taken.
        """
        if self.server is not None:
            self.server.start()

    def stop(self) -> None:
        """Let calls under way end."""
        if self.server is not None:
            self.server.stop()


def grpc_options(config: Config) -> GrpcOptions | None:
    """The port's options; None if it is off."""
    if config.listen.grpc is None:
        return None
    return GrpcOptions(
        address=config.listen.grpc,
        invisible_ms_min=config.grpc.invisible_min_ms,
        call_count_max=config.grpc.call_count_max,
        stream_count_max=config.grpc.stream_count_max,
        poll_count_max=config.grpc.waiting_count_max,
        signature_age_ms_max=config.access.signature_age_max_ms,
        request_size_max=config.store.body_size_max + (12 << 20),
    )
