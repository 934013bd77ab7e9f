"""PostgreSQL asked for all who wait at once: each gets its own answer, none an old one, and none waits for ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from psycopg import AsyncConnection, connect
from sqlalchemy import URL

from service.db.pipeline import Pipeline, Unanswered
from tests.service.databases import created

PID = "SELECT pg_backend_pid()"
ECHO = "SELECT %(n)s::INTEGER"
READ = "SELECT n FROM told"


@pytest.fixture(scope="module")
def database(postgres: URL) -> Iterator[str]:
    """A database for the driver, with a table of one number."""
    with created(postgres) as url:
        plain = url.replace("postgresql+psycopg", "postgresql")
        with connect(plain, autocommit=True) as own:
            own.execute("CREATE TABLE told AS SELECT 0 AS n")
        yield plain


@contextmanager
def pipeline(url: str, silent_s: float = 10.0) -> Iterator[Pipeline]:
    async def made() -> AsyncConnection[Any]:
        return await AsyncConnection.connect(url, autocommit=True)

    one = Pipeline(made, silent_s)
    try:
        yield one
    finally:
        one.close()


async def _all(one: Pipeline, count: int) -> list[Any]:
    return [rows[0][0] for rows in await asyncio.gather(*(one.rows(ECHO, {"n": n}) for n in range(count)))]


def test_each_of_many_gets_its_own_answer_over_one_connection(database: str) -> None:
    async def ask(one: Pipeline) -> None:
        before = await one.rows(PID, {})
        assert await _all(one, 50) == list(range(50))
        assert await one.rows(PID, {}) == before

    with pipeline(database) as one:
        asyncio.run(ask(one))


def test_what_is_asked_after_a_commit_sees_it_whatever_is_on_its_way(database: str) -> None:
    async def ask(one: Pipeline) -> None:
        with connect(database, autocommit=True) as other:
            for number in range(1, 20):
                on_its_way = [asyncio.ensure_future(one.rows(READ, {})) for _ in range(3)]
                await asyncio.sleep(0)
                other.execute("UPDATE told SET n = %s", (number,))
                assert await one.rows(READ, {}) == [(number,)]
                await asyncio.gather(*on_its_way)

    with pipeline(database) as one:
        asyncio.run(ask(one))


def test_a_connection_that_is_lost_is_made_anew(database: str) -> None:
    async def ask(one: Pipeline) -> None:
        [(pid,)] = await one.rows(PID, {})
        with connect(database, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        told = await asyncio.gather(*(one.rows(ECHO, {"n": n}) for n in range(3)), return_exceptions=True)
        assert all(isinstance(error, Unanswered) for error in told), told
        assert await _all(one, 3) == [0, 1, 2]

    with pipeline(database) as one:
        asyncio.run(ask(one))


def test_a_statement_that_is_refused_costs_only_its_batch(database: str) -> None:
    async def ask(one: Pipeline) -> None:
        with pytest.raises(Unanswered, match="DivisionByZero"):
            await one.rows("SELECT 1 / 0", {})
        assert await _all(one, 3) == [0, 1, 2]

    with pipeline(database) as one:
        asyncio.run(ask(one))


def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        host, port = mute.getsockname()
        with pipeline(f"postgresql://nobody@{host}:{port}/none", silent_s=0.2) as one, pytest.raises(Unanswered):
            asyncio.run(_all(one, 3))


def test_who_leaves_takes_nothing_from_the_others(database: str) -> None:
    async def ask(one: Pipeline) -> None:
        leaving = asyncio.ensure_future(one.rows(ECHO, {"n": 7}))
        others = asyncio.ensure_future(_all(one, 5))
        await asyncio.sleep(0)
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await leaving
        assert await others == list(range(5))

    with pipeline(database) as one:
        asyncio.run(ask(one))


def test_another_event_loop_has_a_connection_of_its_own(database: str) -> None:
    with pipeline(database) as one:
        for _ in range(2):
            assert asyncio.run(_all(one, 3)) == [0, 1, 2]
