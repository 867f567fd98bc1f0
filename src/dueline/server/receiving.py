"""How an event loop waits for messages; `dueline.broker.inflight.receiving` says what and when.

Both messaging protocols wait here. A door says how to look, since it may have to wait for room
first, and how to enter among those who wait, which costs a share.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from dueline.broker.inflight import Held, Receive
from dueline.server.runtime import Runtime
from dueline.server.shares import GiveUp, Share

__all__ = ["looked", "received"]


async def received(
    receive: Receive,
    look: Callable[[], Awaitable[list[Held]]],
    *,
    runtime: Runtime,
    enter: Callable[[GiveUp], Share],
) -> list[Held]:
    """Messages, or none if there are none for as long as the client waits.

    Args:
        enter: takes a share among those who wait; ends it when somebody else needs it more.
    """
    news = asyncio.Event()
    share: Share | None = None

    def give_up() -> None:
        receive.give_up()
        news.set()

    try:
        while True:
            messages = await look()
            if messages or receive.is_over:
                return messages
            if share is None:
                share = enter(give_up)
            else:
                await _wait(news, receive.wait_s())
            news.clear()
            receive.watch(lambda: runtime.post(news.set))
    except BaseException:
        receive.cancel()
        raise
    finally:
        receive.unwatch()
        if share is not None:
            share.leave()


async def _wait(news: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await news.wait()


async def looked(receive: Receive, runtime: Runtime) -> list[Held]:
    """One look, in a thread; those of one group and topic take turns there."""
    answer: asyncio.Future[list[Held]] = asyncio.get_running_loop().create_future()

    def settle(found: list[Held] | BaseException) -> None:
        if answer.done():  # cancelled: what was found is given back by `receive`
            return
        if isinstance(found, BaseException):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def found(messages: list[Held] | BaseException) -> None:
        runtime.post(lambda: settle(messages))

    runtime.lines.submit((receive.group, receive.topic), lambda: receive.look(found))
    return await answer
