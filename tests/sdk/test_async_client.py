"""AsyncClient holds to the contract of Client: the tests of that are run over it, each method awaited."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fusetune import AsyncClient
from fusetune.client import Client
from fusetune.waiting import Pace
from tests.sdk import test_client as contract
from tests.sdk.fake_service import URL, FakeService, bias_gelu


class Awaited:
    """An AsyncClient, called without awaiting."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            async def made() -> Any:
                found = method(*args, **kwargs)
                return [item async for item in found] if isinstance(found, AsyncIterator) else await found

            return asyncio.run(made())

        return call


CONTRACT = [
    test
    for name, test in vars(contract).items()
    if name.startswith("test_") and set(inspect.signature(test).parameters) == {"client", "service"}
]


@pytest.mark.parametrize("test", CONTRACT, ids=lambda test: test.__name__)
def test_it_holds_to_the_contract_of_client(test: Callable[..., None], tmp_path: Path) -> None:
    service = FakeService()
    client = AsyncClient(URL, store=tmp_path, transport=service.transport(), pace=Pace(poll_s=0.001))
    test(client=Awaited(client), service=service)
    asyncio.run(client.close())


def test_the_contract_is_not_empty() -> None:
    assert len(CONTRACT) >= 10


def public(owner: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
    }


def test_it_has_every_method_of_client_with_its_parameters() -> None:
    theirs, ours = public(Client), public(AsyncClient)
    assert {name: list(s.parameters.values()) for name, s in ours.items()} == {
        name: list(s.parameters.values()) for name, s in theirs.items()
    }


def test_calls_are_under_way_at_the_same_time(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=30)

    def meddle(request: Any) -> None:
        both.wait()

    service = FakeService(meddle)

    async def main() -> None:
        async with AsyncClient(URL, store=None, transport=service.transport()) as client:
            first, second = await asyncio.gather(client.health(), client.cards())
            assert (first.status, len(second)) == ("ok", 1)

    asyncio.run(main())


def test_a_cancelled_wait_returns_at_once_and_its_tuning_goes_on() -> None:
    let_go = threading.Event()

    def meddle(request: Any) -> None:
        if request.url.path.endswith("/events"):
            let_go.wait(30)

    service = FakeService(meddle)

    async def main() -> list[str]:
        async with AsyncClient(URL, store=None, transport=service.transport()) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.tune(bias_gelu(), binding={"M": 8}), 0.2)
            let_go.set()
        return service.asked()

    assert not any(asked.startswith("DELETE") for asked in asyncio.run(main()))
