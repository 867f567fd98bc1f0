"""One connection of the 4.x protocol, either end of it, without a socket.

    bytes that came ──▶ receive ──▶ requests of the peer, answers to ours
    call, notify, answer_frame ──▶ bytes to send

Either end may ask, and answers come in any order: `opaque` pairs an answer with its request. A
connection numbers its own requests and remembers those that wait for an answer, each with the
caller's own `token` (a future, say), which comes back with the answer, when its time is over
(`expire`) or when the connection ends (`close`). It counts the peer's requests until they are
answered (`is_busy`). What waits is bounded in both directions.

    >>> broker, client = Connection[str](), Connection[str]()
    >>> sent = client.call("my token", 105, {"topic": "TopicT"}, deadline_s=3.0)
    >>> (request,) = broker.receive(sent)
    >>> assert isinstance(request, Command)
    >>> reply = b"".join(answer_frame(request.reply(code=17)))
    >>> [(answer.token, answer.command.code) for answer in client.receive(reply)]
    [('my token', 17)]

It knows no clock: callers give the time, in seconds of any clock that does not go back. A violation
of the protocol is raised once for all: nothing behind it can be trusted, so every later call of
`receive` raises it again, and the connection has to be closed. A connection belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from dueline.errors import LimitExceeded, ProtocolError
from dueline.wire.codes import Language
from dueline.wire.command import NO_EXT, ONEWAY_FLAG, Command
from dueline.wire.frame import FRAME_SIZE_BYTES_MAX, FrameDecoder
from dueline.wire.send_answer import read_send_answer

__all__ = ["Answered", "Connection", "answer_frame"]

T = TypeVar("T")

CALL_COUNT_MAX: Final = 1_024
"""Requests to a peer that it has not answered."""
REQUEST_COUNT_MAX: Final = 4_096
"""Requests of a peer that are not answered yet."""
REQUEST_SIZE_BYTES_MAX: Final = 64 << 20
"""The bytes of these."""
OPAQUE_MAX: Final = 0x7FFFFFFF
_FIELD_SIZE_BYTES: Final = 200
"""What a header's field takes in memory beside its text."""


class Answered(NamedTuple, Generic[T]):
    """The peer's answer to a request of ours."""

    token: T | None
    """What `call` was given; None: nobody waits for this answer, or not any more."""
    command: Command


class _Call(NamedTuple, Generic[T]):
    token: T
    deadline_s: float


class Connection(Generic[T]):
    """What is under way between two peers."""

    __slots__ = (
        "_call_count_max",
        "_calls",
        "_decoder",
        "_error",
        "_language",
        "_opaque",
        "_request_count_max",
        "_request_size_bytes_max",
        "request_count",
        "request_size_bytes",
        "size_bytes",
    )

    def __init__(
        self,
        *,
        frame_size_bytes_max: int = FRAME_SIZE_BYTES_MAX,
        call_count_max: int = CALL_COUNT_MAX,
        request_count_max: int = REQUEST_COUNT_MAX,
        request_size_bytes_max: int = REQUEST_SIZE_BYTES_MAX,
        language: Language = Language.JAVA,
    ) -> None:
        self._decoder = FrameDecoder(frame_size_bytes_max=frame_size_bytes_max)
        self._error: ProtocolError | None = None
        self._calls: dict[int, _Call[T]] = {}
        self._opaque = 0
        self._call_count_max = call_count_max
        self._request_count_max = request_count_max
        self._request_size_bytes_max = request_size_bytes_max
        self._language = language
        self.request_count = 0
        self.request_size_bytes = 0
        self.size_bytes = 0
        """What the command that `receive` gave last takes in memory."""

    # Bytes in

    def receive(self, data: bytes) -> Generator[Command | Answered[T], None, None]:
        """Take what has arrived: a command is a request of the peer, the rest are answers.

        Finish iterating before the next call, or begin and close it: what was not given comes with
        the next call. A request counts from the moment it is given.

        Raises:
            RemoteProtocolError: the bytes are no frames, or a header cannot be read; what came
                before has been given.
        """
        if self._error is not None:
            raise self._error
        if self._calls and not self._decoder.held_bytes:
            known = read_send_answer(data)
            if known is not None:
                self.size_bytes = len(data) + _FIELD_SIZE_BYTES * len(known.ext)
                yield self._answered(known)
                return
        frames = self._decoder.feed(data)
        try:
            for frame in frames:
                command = Command.decode(frame)
                self.size_bytes = size_bytes = (
                    len(frame.header) + len(frame.body) + _FIELD_SIZE_BYTES * len(command.ext)
                )
                if command.is_response:
                    yield self._answered(command)
                else:
                    self.request_count += 1
                    self.request_size_bytes += size_bytes
                    yield command
        except ProtocolError as error:
            self._error = error
            raise
        finally:
            frames.close()

    def _answered(self, command: Command) -> Answered[T]:
        call = self._calls.pop(command.opaque, None)
        return Answered(call.token if call is not None else None, command)

    def gather(self, data: bytes) -> bytes:
        """All that has come and was not given, for `receive` or others to read; it may be empty.

        Raises:
            RemoteProtocolError: as `receive`, if it was raised before.
        """
        if self._error is not None:
            raise self._error
        return self._decoder.gather(data)

    def keep(self, data: bytes) -> None:
        """Take what has arrived, for the next call of `receive`."""
        self._decoder.keep(data)

    @property
    def held_bytes(self) -> int:
        """Bytes that have arrived and were not given: of an unfinished frame, or kept."""
        return self._decoder.held_bytes

    # Requests of the peer

    @property
    def is_busy(self) -> bool:
        """Does the peer wait for more answers than it may?"""
        return (
            self.request_count > self._request_count_max
            or self.request_size_bytes > self._request_size_bytes_max
        )

    def has_place(self, size_bytes: int) -> bool:
        """May one more request of this size wait for its answer?"""
        return (
            self.request_count < self._request_count_max
            and self.request_size_bytes + size_bytes <= self._request_size_bytes_max
        )

    def begin(self, count: int, size_bytes: int) -> bool:
        """Count requests that were read elsewhere; False: they are too many, none is counted."""
        if (
            self.request_count + count > self._request_count_max
            or self.request_size_bytes + size_bytes > self._request_size_bytes_max
        ):
            return False
        self.request_count += count
        self.request_size_bytes += size_bytes
        return True

    def finish(self, size_bytes: int, count: int = 1) -> None:
        """Requests have their answers, or need none: they do not count any more."""
        self.request_count -= count
        self.request_size_bytes -= size_bytes

    # Requests to the peer

    def call(
        self,
        token: T,
        code: int,
        ext: Mapping[str, str] = NO_EXT,
        body: bytes = b"",
        *,
        deadline_s: float,
    ) -> bytes:
        """The frame of a request; its answer comes with `token`.

        Raises:
            LimitExceeded: the peer owes too many answers already.
            LocalProtocolError: the request does not fit into a frame.
        """
        encode = partial(self.request, code=code, ext=ext, body=body)
        return self.ask(token, encode, deadline_s=deadline_s)

    def ask(self, token: T, encode: Callable[[int], bytes], *, deadline_s: float) -> bytes:
        """The same with what makes the frame of a request, given its `opaque`.

        Raises:
            LimitExceeded: the peer owes too many answers already.
        """
        if len(self._calls) >= self._call_count_max:
            raise LimitExceeded(
                f"expected at most {self._call_count_max} requests without an answer on one "
                f"connection; send less at once",
                limit=self._call_count_max,
            )
        opaque = self._next_opaque()
        frame = encode(opaque)
        self._calls[opaque] = _Call(token, deadline_s)
        return frame

    def notify(self, code: int, ext: Mapping[str, str] = NO_EXT, body: bytes = b"") -> bytes:
        """The frame of a request that wants no answer.

        Raises:
            LocalProtocolError: the request does not fit into a frame.
        """
        return self.request(self._next_opaque(), code, ext, body, flag=ONEWAY_FLAG)

    @property
    def is_waiting(self) -> bool:
        """Are there requests without an answer?"""
        return bool(self._calls)

    @property
    def next_deadline_s(self) -> float | None:
        """When the first of our requests will have waited for too long; None: there are none."""
        return min((call.deadline_s for call in self._calls.values()), default=None)

    def expire(self, now_s: float) -> list[T]:
        """The tokens of requests that were not answered in time; a late answer finds nobody."""
        late = [opaque for opaque, call in self._calls.items() if call.deadline_s <= now_s]
        return [self._calls.pop(opaque).token for opaque in late]

    def close(self) -> list[T]:
        """The tokens of all requests that will not be answered: the connection has ended."""
        calls, self._calls = self._calls, {}
        return [call.token for call in calls.values()]

    def _next_opaque(self) -> int:
        """A number that no waiting request has, also after all of them were used."""
        opaque = self._opaque % OPAQUE_MAX + 1
        while opaque in self._calls:
            opaque = opaque % OPAQUE_MAX + 1
        self._opaque = opaque
        return opaque

    def request(
        self, opaque: int, code: int, ext: Mapping[str, str], body: bytes, *, flag: int = 0
    ) -> bytes:
        """The frame of a request that is not counted here; see `ask`."""
        return Command(
            code=code, opaque=opaque, flag=flag, ext=ext, body=body, language=self._language
        ).encode()


def answer_frame(
    answer: Command, chunks: Sequence[bytes | memoryview] = ()
) -> Sequence[bytes | memoryview]:
    """The frame of an answer (`Command.reply`), in pieces.

    Args:
        chunks: the body in pieces, instead of the command's: joining them would only copy them.

    Raises:
        LocalProtocolError: the answer does not fit into a frame.
    """
    if not chunks:
        return (answer.encode(),)
    return (answer.encode_head(sum(map(len, chunks))), *chunks)
