"""Bytes of answers that are not read: of one connection, and of all together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dueline.server.remoting.room import Pool, Room

Use = Callable[[Pool], Awaitable[None]]


def run(use: Use, *, size_bytes_max: int = 1_000) -> None:
    async def inside() -> None:
        await use(Pool(asyncio.get_running_loop(), size_bytes_max))

    asyncio.run(inside())


def test_one_answer_is_always_possible_and_the_next_waits_for_its_half() -> None:
    async def use(pool: Pool) -> None:
        room = Room(pool, 100)
        assert room.reserve(400)  # larger than the room, but nothing else is there
        assert not room.reserve(1)
        room.release(400)
        assert room.reserve(30)
        assert room.reserve(20)
        assert not room.reserve(1)
        assert (room.size_bytes, pool.size_bytes) == (50, 50)

    run(use)


def test_an_answers_bytes_count_once_on_their_way() -> None:
    async def use(pool: Pool) -> None:
        room = Room(pool, 100)
        assert room.reserve(40)
        room.release(40)
        assert room.write(38)
        assert pool.size_bytes == 38
        room.flushed(30)
        assert (room.size_bytes, pool.size_bytes) == (30, 30)
        room.sent(0)
        assert (room.size_bytes, pool.size_bytes) == (0, 0)

    run(use)


def test_room_can_be_asked_for_without_taking_it() -> None:
    async def use(pool: Pool) -> None:
        room, other = Room(pool, 100), Room(pool, 4_000)
        assert room.has(400)
        assert room.write(30)
        assert room.has(20)
        assert not room.has(21)
        assert pool.size_bytes == 30
        room.is_paused = True
        assert not room.has(1)
        room.is_paused = False
        assert other.write(970)
        assert not room.has(1), "all together have none"
        room.close()
        assert not room.has(1)

    run(use)


def test_who_waits_is_called_when_there_is_room() -> None:
    async def use(pool: Pool) -> None:
        room = Room(pool, 100)
        called = asyncio.Event()
        assert room.write(60)
        assert not room.is_free
        room.wait(called.set)
        room.flushed(60)
        await called.wait()
        assert room.is_free

    run(use)


def test_a_peer_that_does_not_read_has_no_room() -> None:
    async def use(pool: Pool) -> None:
        room = Room(pool, 100)
        room.is_paused = True
        assert not room.is_free
        assert not room.reserve(1)

    run(use)


def test_a_peer_that_leaves_too_much_unread_is_told() -> None:
    async def use(pool: Pool) -> None:
        room = Room(pool, 100)
        room.flushed(201)
        assert not room.write(1)

    run(use)


def test_the_room_of_all_is_shared_and_its_end_is_told() -> None:
    told = []

    async def use(_: Pool) -> None:
        pool = Pool(asyncio.get_running_loop(), 100, on_full=lambda: told.append("full"))
        first, second = Room(pool, 1_000), Room(pool, 1_000)
        called = asyncio.Event()
        assert first.reserve(100)
        assert not second.reserve(1)
        second.wait(called.set)
        assert told == ["full"]
        first.release(100)
        await called.wait()
        assert second.reserve(1)

    run(use)


def test_what_was_unread_goes_with_the_connection() -> None:
    async def use(pool: Pool) -> None:
        room = Room(pool, 100)
        called = asyncio.Event()
        assert room.reserve(10)
        assert room.write(60)
        room.wait(called.set)
        room.close()
        await called.wait()
        assert (room.size_bytes, pool.size_bytes) == (0, 0)
        room.release(10)  # made too late; it counts no more
        assert pool.size_bytes == 0

    run(use)
