"""The same clients for programs without an event loop.

    with Producer("127.0.0.1:9876") as producer:
        producer.send("orders", b"17", delay=timedelta(minutes=30))

Nothing is written twice: a method here is made from the coroutine method of the asyncio client,
with its arguments, types and description. A producer runs it in the thread of the caller
(`dueline.client.direct`). The others do something also while nobody calls them, such as reading
ahead: they have an event loop, in a thread of its own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast

from dueline.client.consumer import AsyncConsumer, ThreadedConsumer
from dueline.client.direct import finished
from dueline.client.loop import Loop
from dueline.client.producer import AsyncProducer, DirectProducer
from dueline.client.reader import AsyncReader, ThreadedReader
from dueline.client.simple_consumer import AsyncSimpleConsumer
from dueline.client.values import Received
from dueline.errors import InvalidRequest

__all__ = ["Consumer", "Producer", "Reader", "SimpleConsumer"]

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)


class _Runner(Protocol):
    """Who runs the coroutines of a client."""

    def run(self, work: Coroutine[Any, Any, T]) -> T: ...

    def close(self) -> None: ...


class _Blocking(Generic[C_co]):
    """What they have in common: entered and left with who runs their coroutines."""

    _new_client: Callable[[], C_co]
    _entered: tuple[_Runner, C_co] | None = None
    _is_closed = False

    def __enter__(self) -> Self:
        if self._entered is not None:
            raise InvalidRequest(f"{type(self).__name__}: expected one `with` at a time, found two")
        client: Any = self._new_client()
        runner: _Runner = client.direct if isinstance(client, DirectProducer) else Loop()
        try:
            runner.run(client.__aenter__())
        except BaseException:
            runner.close()
            raise
        self._entered = (runner, client)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        runner, client = cast(tuple[_Runner, Any], self._open())
        self._entered = None
        self._is_closed = True
        try:
            runner.run(client.__aexit__(None, None, None))
        finally:
            runner.close()

    def _open(self) -> tuple[_Runner, C_co]:
        if self._entered is None:
            name, found = type(self).__name__, "closed" if self._is_closed else "not entered"
            raise InvalidRequest(
                f"{name}: expected to be used inside `with {name}(…) as …:`, found it {found}"
            )
        return self._entered


def _takes_arguments_of(
    kind: Callable[P, C],
) -> Callable[[Callable[[Any], None]], Callable[Concatenate[Any, P], None]]:
    """A decorator of `__init__`: its arguments are those of an asyncio client."""

    def decorate(plain: Callable[[Any], None]) -> Callable[Concatenate[Any, P], None]:
        def init(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
            made_by_signature.bind(*args, **kwargs)  # a mistake is told here, not in `with`

            self._new_client = functools.partial(kind, *args, **kwargs)
            plain(self)

        made_by_signature = inspect.signature(kind)
        functools.update_wrapper(init, plain)
        init.__dict__["__signature__"] = _with_self(made_by_signature)
        return init

    return decorate


def _with_self(signature: inspect.Signature) -> inspect.Signature:
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return signature.replace(
        parameters=[first, *signature.parameters.values()], return_annotation=None
    )


def _blocking(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]], *, is_here: bool = False
) -> Callable[Concatenate[_Blocking[C], P], T]:
    """A coroutine method of an asyncio client, as a method that waits for its end.

    Args:
        is_here: it waits for nothing but in the thread of its caller, whoever runs the others.
    """

    def call(self: _Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        runner, client = self._open()
        work = method(client, *args, **kwargs)
        return finished(work) if is_here else runner.run(work)

    functools.update_wrapper(call, method)
    return call


class Producer(_Blocking[DirectProducer]):
    """`AsyncProducer` for programs without an event loop; any thread may call it."""

    @_takes_arguments_of(DirectProducer)
    def __init__(self) -> None:
        """The arguments of `AsyncProducer`."""

    send = _blocking(AsyncProducer.send)
    send_one = _blocking(AsyncProducer.send_one)
    send_many = _blocking(AsyncProducer.send_many)
    send_each = _blocking(AsyncProducer.send_each)
    levels = _blocking(AsyncProducer.levels)
    cancel = _blocking(AsyncProducer.cancel)
    reschedule = _blocking(AsyncProducer.reschedule)
    deliver_now = _blocking(AsyncProducer.deliver_now)
    find = _blocking(AsyncProducer.find)
    pending = _blocking(AsyncProducer.pending)


class Reader(_Blocking[ThreadedReader]):
    """`AsyncReader` for programs without an event loop: iterate over it."""

    @_takes_arguments_of(ThreadedReader)
    def __init__(self) -> None:
        """The arguments of `AsyncReader`."""

    receive = _blocking(AsyncReader.receive, is_here=True)
    receive_many = _blocking(AsyncReader.receive_many, is_here=True)
    commit = _blocking(AsyncReader.commit)
    levels = _blocking(AsyncReader.levels)

    def __iter__(self) -> Iterator[Received]:
        while True:
            _, reader = self._open()
            yield reader.take_one() or self.receive()


class SimpleConsumer(_Blocking[AsyncSimpleConsumer]):
    """`AsyncSimpleConsumer` for programs without an event loop; any thread may call it."""

    @_takes_arguments_of(AsyncSimpleConsumer)
    def __init__(self) -> None:
        """The arguments of `AsyncSimpleConsumer`."""

    receive = _blocking(AsyncSimpleConsumer.receive)
    receive_now = _blocking(AsyncSimpleConsumer.receive_now)
    ack = _blocking(AsyncSimpleConsumer.ack)
    release = _blocking(AsyncSimpleConsumer.release)


class Consumer(_Blocking[AsyncConsumer]):
    """`AsyncConsumer` whose handler may be a plain function: it is called in threads."""

    @_takes_arguments_of(ThreadedConsumer)
    def __init__(self) -> None:
        """The arguments of `AsyncConsumer`."""
