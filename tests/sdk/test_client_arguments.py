"""What a Client is asked that cannot be: an error of ours that names the argument, never one of a library below."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fusetune import errors
from fusetune.client import Client
from fusetune.wire.binding import Binding
from tests.sdk.fake_service import URL, FakeService, bias_gelu, card

FUSION = bias_gelu()
SIZES = {"M": 8}


def client() -> Client:
    return Client(URL, store=None, transport=FakeService().transport())


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, "10", True])
def test_a_time_that_is_none(seconds: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"timeout_s: found .*expected seconds"):
        Client(URL, timeout_s=seconds, store=None)
    for ask in (client().tune, lambda *_, **given: client().wait("x", timeout_s=given["timeout_s"])):
        with pytest.raises(errors.InvalidRequest, match=r"timeout_s: found .*expected seconds"):
            ask(FUSION, binding=SIZES, timeout_s=seconds)


def test_a_network_without_a_limit_is_not_had() -> None:
    with pytest.raises(errors.InvalidRequest, match="timeout_s: found None"):
        Client(URL, timeout_s=None, store=None)  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize("key", [b"key", 5, "two words", "line\n", "ключ"])
def test_a_key_that_is_none_is_not_shown(key: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"^api_key: found a text that cannot be one, expected printable"):
        Client(URL, api_key=key, store=None)


@pytest.mark.parametrize("url", ["http://host/v1", "http://host/v1/", "http://host/behind/v1"])
def test_the_version_is_no_part_of_the_address(url: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="Leave /v1 out"):
        Client(url, store=None)
    assert "behind" in repr(Client("http://host/behind", store=None))


@pytest.mark.parametrize("proxy", ["socks4://127.0.0.1:9", "junk:::"])
def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(errors.InvalidRequest, match=r"proxy of the environment.*NO_PROXY"):
        Client("http://elsewhere.example", store=None)
    Client("http://127.0.0.1:8765", store=None).close()


def test_a_place_in_a_list_is_written_as_the_service_does() -> None:
    with pytest.raises(errors.InvalidRequest, match=r"^accept\.correct\[1\]: found 'unverified'"):
        client().tune(FUSION, binding=SIZES, accept={"correct": ["verified_on_gpu", "unverified"]})


@pytest.mark.parametrize("accept", ["measured", ["measured"], 5])
def test_evidence_that_is_none(accept: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match="accept: found"):
        client().tune(FUSION, binding=SIZES, accept=accept)


@pytest.mark.parametrize("binding", [[1], 5, {8}])
def test_a_binding_that_is_none(binding: Any) -> None:
    with pytest.raises(errors.InvalidBinding, match=r"binding: found .*expected sizes"):
        client().tune(FUSION, binding=binding)


@pytest.mark.parametrize("wanted", [[FUSION], [(FUSION,)], [(FUSION, {"M": 0}), 5]])
def test_pairs_that_are_none(wanted: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match=rf"wanted\[{len(wanted) - 1}\]: found (?s:.*)expected a pair"):
        client().kernels(wanted)


@pytest.mark.parametrize("id", [None, 5, ""])
def test_an_id_that_is_none(id: Any) -> None:
    for ask in (client().tuning, client().cancel, lambda id: list(client().trials(id))):
        with pytest.raises(errors.InvalidRequest, match="tuning: found"):
            ask(id)


def test_a_setting_out_of_range_is_said_as_the_service_says_it() -> None:
    with pytest.raises(errors.InvalidRequest, match="budget_s: found 0, expected a number >= 1"):
        client().tune(FUSION, binding=SIZES, budget_s=0)


def test_what_was_tuned_in_a_rehearsal_is_given_only_by_name(tmp_path: Path) -> None:
    service = FakeService()
    service.add(FUSION, Binding(sizes=SIZES), on=card("fake"))
    Client(URL, store=tmp_path, transport=service.transport()).tune(FUSION, binding=SIZES)

    def away(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    here = Client(URL, store=tmp_path, transport=FakeService(away).transport())
    with pytest.raises(errors.ServerUnreachable):
        here.kernel(FUSION, binding=SIZES)
    with pytest.warns(errors.FusetuneWarning, match="from the store"):
        assert "fake" in repr(here.kernel(FUSION, binding=SIZES, card="fake"))
