"""The gRPC port as a part of a broker, which may be off: then nothing of gRPC is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from dueline.broker import Broker
from dueline.config import Config
from dueline.server.connections import Connections
from dueline.server.grpc.options import GrpcOptions
from dueline.server.threads import OnFailure
from dueline.store.files import Files

if TYPE_CHECKING:
    from dueline.server.grpc.server import GrpcServer

__all__ = ["GrpcPort", "grpc_options"]

TLS_FOLDER: Final = "tls"


class GrpcPort:
    """`start` it after the writer of messages; `stop` it after that has answered everybody."""

    def __init__(  # noqa: PLR0913 - what it stands on, and keyword-only the rest
        self,
        broker: Broker,
        options: GrpcOptions | None,
        *,
        folder: Path,
        files: Files,
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
                folder=folder / TLS_FOLDER,
                files=files,
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
            InvalidRequest: a certificate that cannot be read.
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
        tls=config.grpc.tls,
        certificate=config.grpc.certificate,
        private_key=config.grpc.private_key,
        invisible_ms_min=config.grpc.invisible_min_ms,
        call_count_max=config.grpc.call_count_max,
        stream_count_max=config.grpc.stream_count_max,
        poll_count_max=config.grpc.waiting_count_max,
        request_size_max=config.store.body_size_max + (12 << 20),
    )
