"""One connection to a name server or broker: requests in flight, answers by `opaque`.

A request that is not answered in time fails with `Unavailable`; so do all of them when the
connection breaks. What the server asks by itself goes to `on_request`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Final, Self

from dueline.errors import ProtocolError, Unavailable
from dueline.wire import Command, FrameDecoder, Language

__all__ = ["Connection"]

READ_SIZE_BYTES: Final = 256 * 1024


class Connection:
    """An open connection; made by `open`."""

    def __init__(
        self,
        address: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_request: Callable[[Command], None],
    ) -> None:
        self.address: Final = address
        self._reader = reader
        self._writer = writer
        self._on_request = on_request
        self._opaques = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Command]] = {}
        self._task = asyncio.create_task(self._receive())
        self.is_open = True
        self._is_known = False

    @classmethod
    async def open(
        cls,
        address: str,
        *,
        timeout_s: float,
        on_request: Callable[[Command], None] = lambda command: None,
    ) -> Self:
        """Connect.

        Raises:
            Unavailable: nobody answers there.
        """
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(timeout_s):
                streams = await asyncio.open_connection(host.strip("[]"), int(port))
        except (OSError, TimeoutError) as error:
            raise Unavailable(
                f"{address}: expected a broker or name server, found: {error or 'no answer'}",
                address=address,
            ) from error
        return cls(address, *streams, on_request)

    async def call(
        self,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float,
    ) -> Command:
        """Ask, and wait for the answer.

        Raises:
            Unavailable: the connection broke, or no answer came in time.
        """
        opaque = next(self._opaques) & 0x7FFFFFFF
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._calls[opaque] = answer
        try:
            self._write(code, opaque, ext, body, flag=0)
            async with asyncio.timeout(timeout_s):
                await self._writer.drain()
                return await answer
        except TimeoutError as error:
            raise Unavailable(
                f"{self.address}: expected an answer to request {code} within {timeout_s:g} s"
                f"{self._hint()}",
                address=self.address,
            ) from error
        except OSError as error:
            raise self._broken(error) from error
        finally:
            self._calls.pop(opaque, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen, also where the write failed first

    def tell(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> None:
        """Send a request that wants no answer."""
        self._write(code, next(self._opaques) & 0x7FFFFFFF, ext, body, flag=2)

    def _write(
        self, code: int, opaque: int, ext: Mapping[str, str] | None, body: bytes, *, flag: int
    ) -> None:
        if not self.is_open:
            raise self._broken(None)
        command = Command(
            code=code, opaque=opaque, flag=flag, ext=ext or {}, body=body, language=Language.PYTHON
        )
        self._writer.write(command.encode())

    async def _receive(self) -> None:
        decoder = FrameDecoder()
        cause: BaseException | None = None
        try:
            while data := await self._reader.read(READ_SIZE_BYTES):
                for frame in decoder.feed(data):
                    self._take(Command.decode(frame))
        except (OSError, ProtocolError) as error:
            cause = error
        finally:
            self.is_open = False
            self._writer.close()
            for answer in self._calls.values():
                if not answer.done():
                    answer.set_exception(self._broken(cause))

    def _take(self, command: Command) -> None:
        self._is_known = True
        if not command.is_response:
            self._on_request(command)
            return
        answer = self._calls.pop(command.opaque, None)
        if answer is not None and not answer.done():
            answer.set_result(command)

    def _broken(self, cause: BaseException | None) -> Unavailable:
        return Unavailable(
            f"{self.address}: the connection was closed{f': {cause}' if cause else ''}"
            f"{self._hint()}",
            address=self.address,
        )

    def _hint(self) -> str:
        """Something that has never answered is perhaps something else."""
        if self._is_known:
            return ""
        return "; is it the port of a name server or a broker of RocketMQ's 4.x protocol?"

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
