from __future__ import annotations

import socket
import traceback
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fusetune import errors
from fusetune.client import Client
from fusetune.kernel import Kernel
from fusetune.wire.artifact import Evidence
from fusetune.wire.binding import Binding
from fusetune.wire.service import ProblemItem
from tests.sdk.fake_service import MEASURED, URL, FakeService, Meddler, answer, bias_gelu, card, problem, served

FUSION = bias_gelu()
ROWS = Binding(sizes={"M": 8})
SECRET = "s3cret-key"
ITEM = ProblemItem(where="fusion.ops[1]", found="a", expected="b", fix="Mend it.")


def client(meddle: Meddler, store: Path | None = None, key: str | None = None) -> Client:
    return Client(URL, key, store=store, transport=FakeService(meddle).transport())


def always(found: httpx2.Response) -> Meddler:
    return lambda request: found


def raising(error: Exception) -> Meddler:
    def meddle(request: httpx2.Request) -> httpx2.Response:
        raise error

    return meddle


HTML = {"content-type": "text/html"}


@pytest.mark.parametrize(
    ("meddle", "error", "text"),
    [
        pytest.param(raising(httpx2.ConnectError("refused")), errors.ServerUnreachable, "refused", id="refused"),
        pytest.param(raising(httpx2.ReadError("")), errors.ServerUnreachable, "ReadError", id="cut-twice"),
        pytest.param(raising(httpx2.ReadTimeout("")), errors.ServerTimedOut, "within 10 s", id="timeout"),
        pytest.param(raising(httpx2.ConnectTimeout("")), errors.ServerTimedOut, "within 10 s", id="connect-timeout"),
        pytest.param(
            always(httpx2.Response(502, text="<html>", headers=HTML)), errors.ServerUnreachable, "502", id="proxy"
        ),
        pytest.param(
            always(problem(503, "not-ready")), errors.ServerNotReady,
            r"service at http://\S+ is not ready\. Detail of not-ready", id="503",
        ),
        pytest.param(always(httpx2.Response(503, text="no")), errors.ServerUnreachable, "503", id="503-proxy"),
        pytest.param(
            always(httpx2.Response(500, text="<html>Oops", headers=HTML)),
            errors.ServerBroken, "500 text/html '<html>Oops'", id="500-html",
        ),
        pytest.param(always(problem(500, "internal")), errors.ServerBroken, "internal.*r-1", id="500-problem"),
        pytest.param(always(httpx2.Response(404, text="no")), errors.ServerBroken, "404", id="no-problem"),
        pytest.param(always(httpx2.Response(302)), errors.ServerBroken, "302", id="redirect"),
        pytest.param(always(httpx2.Response(200, text="{")), errors.ServerBroken, "a Cards", id="broken-json"),
        pytest.param(always(httpx2.Response(200, text='{"items": 1}')), errors.ServerBroken, "items", id="wrong-type"),
        pytest.param(
            always(problem(422, "invalid-request", ITEM)), errors.ServerRefused,
            r"(?s)GET /v1/cards: invalid request \(422\).*fusion\.ops\[1\]: found a, expected b\. Mend it\.", id="422",
        ),
        pytest.param(always(problem(429, "queue-full", retry_after="7")), errors.ServerRefused, "wait 7 s", id="429"),
        pytest.param(always(problem(401, "unauthorized")), errors.Unauthorized, "FUSETUNE_API_KEY", id="401"),
    ],
)  # fmt: skip
def test_every_fault_is_a_typed_error_that_names_the_request(
    meddle: Meddler, error: type[errors.ServiceError], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        client(meddle, key=SECRET).cards()
    assert type(caught.value) is error
    assert caught.value.request == "GET /v1/cards"
    assert str(caught.value).startswith("GET /v1/cards: ")
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert SECRET not in shown
    assert "httpx2." not in "".join(traceback.format_exception_only(caught.value))


def test_problem_and_retry_after_are_data() -> None:
    with pytest.raises(errors.ServerRefused) as caught:
        client(always(problem(429, "queue-full", retry_after="7"))).cards()
    assert (caught.value.problem.type, caught.value.retry_after_s) == ("urn:fusetune:problem:queue-full", 7.0)


def test_a_connection_that_was_closed_meanwhile_is_tried_once_more() -> None:
    cut = [httpx2.RemoteProtocolError("closed"), httpx2.ReadError("closed")]
    service = FakeService()

    def meddle(request: httpx2.Request) -> None:
        if cut and len(service.seen) % 2:
            raise cut.pop()

    service.meddle = meddle
    service.add(FUSION, ROWS)
    with Client(URL, store=None, transport=service.transport()) as here:
        here.cards()
        here.tune(FUSION, binding={"M": 8})
    posts = [request for request in service.seen if request.method == "POST"]
    assert len(posts) == 2
    assert len({request.headers["idempotency-key"] for request in posts}) == 1


def test_a_closed_client_says_so() -> None:
    used = client(always(answer(MEASURED)))
    used.close()
    with pytest.raises(errors.InvalidRequest, match="a closed Client"):
        used.health()


def test_a_closed_port_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(errors.ServerUnreachable, match="service serve"), Client(url, store=None) as here:
            here.cards()


def test_a_server_that_says_nothing_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(errors.ServerTimedOut, match=r"0\.05 s"), Client(url, timeout_s=0.05, store=None) as here:
            here.cards()


def test_over_real_sockets_too(tmp_path: Path) -> None:
    with served(FakeService()) as url, Client(url, store=tmp_path) as here:
        kernel = here.tune(FUSION, binding={"M": 8})
    assert isinstance(kernel, Kernel)
    assert kernel.origin == "service"


@pytest.mark.parametrize("end", [" ", " two", "\n", "ß", pytest.param("\x00", id="nul")])
def test_a_key_that_no_header_can_hold_is_refused_unseen(end: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="api_key") as caught:
        Client(URL, SECRET + end, store=None)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8765", "ftp://host", "http://", "http://host/?q=1", "http://[::1", "x"])
def test_an_address_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="url: found"):
        Client(url, store=None)


def test_a_refused_address_does_not_show_its_password() -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        Client(f"http://me:{SECRET}@host/?q=1", store=None)
    assert SECRET not in str(caught.value)


def test_a_proxy_of_the_environment_is_not_asked_for_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with served(FakeService()) as url, Client(url, store=None) as here:
        assert here.cards()


def test_an_artifact_that_is_not_what_was_announced_is_not_used(tmp_path: Path) -> None:
    service = FakeService()
    view = service.add(FUSION, ROWS)
    service.kernels[view.id] = (view, service.kernels[view.id][1] + b" ")
    with pytest.raises(errors.ServerBroken, match="sha256"):
        Client(URL, store=tmp_path, transport=service.transport()).kernel(FUSION, binding={"M": 8})
    assert not any(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("changed", ["view", "artifact"])
def test_a_kernel_of_another_fusion_is_not_used(changed: str) -> None:
    service = FakeService()
    other: dict[str, Any] = {"fingerprint": "0" * 64}
    if changed == "view":
        view = service.add(FUSION, ROWS, **other)
    else:
        service.artifact_changes = other
        view = service.add(FUSION, ROWS, fingerprint=FUSION.fingerprint)
    service.meddle = lambda request: answer(view) if request.method == "POST" else None
    with pytest.raises(errors.ServerBroken, match="another fusion"):
        Client(URL, store=None, transport=service.transport()).tune(FUSION, binding={"M": 8})


def test_an_answer_on_evidence_that_was_not_accepted_is_broken() -> None:
    service = FakeService()
    service.artifact_changes = {"evidence": Evidence(correct="verified_emulated", time="none")}
    view = service.add(FUSION, ROWS)
    service.meddle = lambda request: answer(view) if request.method == "POST" else None
    with pytest.raises(errors.ServerBroken, match="verified_emulated"):
        Client(URL, store=None, transport=service.transport()).tune(FUSION, binding={"M": 8})


def test_an_answer_for_fewer_keys_is_broken() -> None:
    meddle = always(httpx2.Response(200, text='{"kernels": []}'))
    with pytest.raises(errors.ServerBroken, match="one for each key"):
        client(meddle).kernel(FUSION, binding={"M": 8})


def test_a_service_that_is_not_ready_says_what_is_not() -> None:
    unready = httpx2.Response(503, text='{"status": "unavailable", "checks": {"database": "locked"}}')
    assert client(always(unready)).health().checks == {"database": "locked"}
    with pytest.raises(errors.ServerNotReady, match="not-ready"):
        client(always(problem(503, "not-ready"))).health()


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A store with one kernel of M = 8 on an H200."""
    service = FakeService()
    service.add(FUSION, ROWS)
    Client(URL, store=tmp_path, transport=service.transport()).tune(FUSION, binding={"M": 8})
    return tmp_path


DEAD = [
    pytest.param(raising(httpx2.ConnectError("refused")), id="unreachable"),
    pytest.param(raising(httpx2.ReadTimeout("")), id="timeout"),
    pytest.param(always(problem(503, "not-ready")), id="away"),
    pytest.param(always(httpx2.Response(500, text="<html>")), id="broken"),
]


@pytest.mark.parametrize("meddle", DEAD)
@pytest.mark.parametrize("method", ["tune", "kernel"])
def test_the_store_answers_for_a_dead_service_with_one_warning(filled: Path, meddle: Meddler, method: str) -> None:
    with pytest.warns(errors.FusetuneWarning, match="from the store") as warned:
        kernel = getattr(client(meddle, filled), method)(FUSION, binding={"M": 8})
    assert (kernel.origin, kernel.info.card.name, len(warned)) == ("store", "NVIDIA H200", 1)
    assert repr(kernel).endswith("from the store)")
    assert warned[0].filename == __file__


@pytest.mark.parametrize("meddle", DEAD)
def test_what_the_store_lacks_is_the_services_error(filled: Path, meddle: Meddler) -> None:
    here = client(meddle, filled)
    for ask in (here.tune, here.kernel):
        with pytest.raises(errors.ServiceUnavailable):
            ask(FUSION, binding={"M": 9})
        with pytest.raises(errors.ServiceUnavailable):
            ask(FUSION, binding={"M": 8}, accept={"correct": ["verified_emulated"]})
        with pytest.raises(errors.ServiceUnavailable):
            ask(FUSION, binding={"M": 8}, card="NVIDIA H100")
    with pytest.raises(errors.ServiceUnavailable):
        here.kernels([(FUSION, {"M": 9})])


def test_many_come_from_the_store_with_one_warning(filled: Path) -> None:
    here = client(raising(httpx2.ConnectError("refused")), filled)
    with pytest.warns(errors.FusetuneWarning) as warned:
        found = here.kernels([(FUSION, {"M": 9}), (FUSION, {"M": 8}), (FUSION, {"M": 0})])
    assert [type(kernel).__name__ for kernel in found] == ["NoneType", "Kernel", "EmptyKernel"]
    assert len(warned) == 1


def test_a_refusal_is_never_answered_from_the_store(filled: Path) -> None:
    with pytest.raises(errors.Unauthorized):
        client(always(problem(401, "unauthorized")), filled).tune(FUSION, binding={"M": 8})


def test_the_newest_acceptable_kernel_of_several_cards_is_taken(tmp_path: Path) -> None:
    service = FakeService()
    here = Client(URL, store=tmp_path, transport=service.transport())
    untimed = Evidence(correct="verified_on_gpu", time="none")
    for name, evidence in (("NVIDIA H100", MEASURED), ("NVIDIA H200", MEASURED), ("NVIDIA B200", untimed)):
        service.kernels.clear()
        service.artifact_changes = {"evidence": evidence}
        on = card(name)
        view = service.add(FUSION, ROWS, on=on)
        newer = view.model_copy(update={"created_at": view.created_at.replace(year=2026 + len(service.seen))})
        service.kernels[view.id] = (newer, service.kernels[view.id][1])
        here.kernel(FUSION, binding={"M": 8}, accept={"time": ["measured", "none"]})
    service.meddle = raising(httpx2.ConnectError("refused"))
    with pytest.warns(errors.FusetuneWarning):
        assert "H200" in str(here.kernel(FUSION, binding={"M": 8}).info)
    with pytest.warns(errors.FusetuneWarning):
        assert "H100" in str(here.kernel(FUSION, binding={"M": 8}, card="nvidia h100").info)
