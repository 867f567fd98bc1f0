"""Who calls at the wrong port is told which one it is, in their own protocol.

    HTTP        a response 400 of HTTP/1.1 with the words; a gRPC client says that this is no HTTP/2
    4.x frame   a response with the words as its remark

TLS has no words for it: such a connection is closed. Nor has gRPC before its first call: a GOAWAY
frame carries words, but clients connect again at once when they get one, for ever.
"""

from __future__ import annotations

from typing import Final

from dueline.errors import ProtocolError
from dueline.wire import Command, FrameDecoder, ResponseCode

__all__ = [
    "BROKER_PORT",
    "GRPC_PORT",
    "NAME_SERVER_PORT",
    "TLS_ONLY",
    "answer_to_frame",
    "answer_to_http",
]

_OTHERS: Final = (
    "Others: listen.name_server (9876) and listen.remoting (10911) for RocketMQ 4.x clients, "
    "listen.grpc (8081) for 5.x clients, listen.flight (8815) for Spark and the commands."
)
NAME_SERVER_PORT: Final = f"This is listen.name_server, for RocketMQ 4.x clients. {_OTHERS}"
BROKER_PORT: Final = f"This is listen.remoting, for RocketMQ 4.x clients. {_OTHERS}"
TLS_ONLY: Final = (
    "This port speaks TLS only (tls.mode = enforcing). Turn TLS on in the client: "
    "-Dtls.enable=true for Java's 4.x clients, WithTls(true) for Go's, ca= or --ca for Dueline's."
)
GRPC_PORT: Final = f"This is listen.grpc, for RocketMQ 5.x clients. {_OTHERS}"

_HTTP_STARTS: Final = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"PRI ")


def answer_to_http(first: bytes, words: str) -> bytes | None:
    """What to say to a peer that begins with these bytes; None if that is no HTTP."""
    return _http_response(words) if first[:4] in _HTTP_STARTS else None


def answer_to_frame(first: bytes, words: str) -> bytes | None:
    """The same for a whole request of the 4.x protocol."""
    try:
        frame = next(FrameDecoder().feed(first), None)
        if frame is None:
            return None
        request = Command.decode(frame)
    except ProtocolError:
        return None
    return request.reply(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=words).encode()


def _http_response(words: str) -> bytes:
    body = f"{words}\n".encode()
    head = (
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
