from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch

from fusetune import errors
from fusetune.client import LOOKUP_KEYS, Client
from fusetune.kernel import EmptyKernel, Kernel
from fusetune.progress import StatusLine
from fusetune.store import Store
from fusetune.waiting import Pace
from fusetune.wire.artifact import Evidence
from fusetune.wire.binding import Binding
from fusetune.wire.service import Accept, TuningView
from fusetune.wire.wanting import Distance
from tests.sdk.fake_service import (
    URL,
    FakeService,
    artifact,
    bias_gelu,
    body_of,
    card,
    kernel_view,
    problem,
    some_trials,
)

FUSION = bias_gelu()
ROWS = Binding(sizes={"M": 8})
PREDICTED = Evidence(correct="verified_emulated", time="none")


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def client(service: FakeService, tmp_path: Path) -> Client:
    return Client(URL, store=tmp_path, transport=service.transport(), pace=Pace(poll_s=0.001))


def tuned(client: Client, **settings: Any) -> Kernel:
    kernel = client.tune(FUSION, binding={"M": 8}, **settings)
    assert isinstance(kernel, Kernel)
    return kernel


def test_a_new_fusion_is_tuned_and_its_kernel_fetched(client: Client, service: FakeService) -> None:
    seen: list[TuningView] = []
    kernel = tuned(client, progress=seen.append, budget_s=5, trials=7, name="gelu")
    assert (kernel.origin, kernel.artifact.fingerprint) == ("service", FUSION.fingerprint)
    assert [view.state for view in seen] == ["queued", "running", "done"]
    sent = body_of(service.seen[0])
    assert (sent["budget_s"], sent["trials"], sent["name"], sent["binding"]["sizes"]) == (5, 7, "gelu", {"M": 8})
    assert len(service.seen[0].headers["idempotency-key"]) == 32


def test_the_cache_answers_without_a_tuning(client: Client, service: FakeService) -> None:
    view = service.add(FUSION, ROWS)
    kernel = tuned(client)
    assert kernel.info == view
    assert service.asked() == ["POST /v1/tunings", f"GET /v1/kernels/{view.id}"]


def test_the_first_kernel_is_taken_while_the_search_goes_on(client: Client, service: FakeService) -> None:
    """It is not kept: what answers without the service is what a search ended with."""
    view = service.add(FUSION, ROWS, provisional=Distance(at_most=0.25, expected=0.02, error=0.04))
    service.steps.append({"state": "running", "first": view.id})
    del service.kernels[view.id]
    seen: list[TuningView] = []

    def tell(told: TuningView) -> None:
        seen.append(told)
        if told.first is not None:
            service.kernels[view.id] = (view, data)

    _, data = kernel_view(artifact(FUSION, ROWS))
    kernel = tuned(client, wait="first", progress=tell)
    assert body_of(service.seen[0])["want"] == "first"
    assert [(told.state, told.first is not None) for told in seen][-1] == ("running", True)
    assert kernel.info == view
    assert "the best takes at most 25% less" in kernel._repr_html_()
    assert client.kernels([(FUSION, ROWS)])[0] is not None
    service.meddle = lambda request: problem(503, "not-ready")
    with pytest.raises(errors.ServiceUnavailable):
        client.kernel(FUSION, binding=ROWS)


def test_an_artifact_is_fetched_once(client: Client, service: FakeService) -> None:
    service.add(FUSION, ROWS)
    first, again = tuned(client), client.kernel(FUSION, binding={"M": 8})
    assert isinstance(again, Kernel)
    assert again.artifact == first.artifact
    assert service.asked()[2:] == ["POST /v1/kernels/lookup"]


@pytest.mark.parametrize("form", ["fusion", "document", "text"])
@pytest.mark.parametrize("binding", [ROWS, {"M": 8}, {"sizes": {"M": 8}}, '{"sizes": {"M": 8}}'])
def test_fusions_and_bindings_in_any_form_are_one_key(
    client: Client, service: FakeService, form: str, binding: Any
) -> None:
    view = service.add(FUSION, ROWS)
    fusion: Any = {"fusion": FUSION, "text": FUSION.to_json(), "document": FUSION.model_dump(by_alias=True)}[form]
    found = client.kernel(fusion, binding=binding)
    assert found.info == view


def test_tensors_are_the_same_key_as_their_sizes(client: Client, service: FakeService) -> None:
    view = service.add(FUSION, ROWS)
    x, bias = torch.zeros(8, 64, dtype=torch.bfloat16), torch.zeros(64, dtype=torch.bfloat16)
    assert client.tune(FUSION, inputs=[x, bias]).info == view


def test_refresh_searches_although_the_cache_has_an_answer(client: Client, service: FakeService) -> None:
    service.add(FUSION, ROWS)
    tuned(client, refresh=True)
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("rows", "posted"), [pytest.param(0, 0, id="nothing-to-compute"), pytest.param(1, 1, id="one-row")]
)
def test_an_empty_batch_asks_nobody(client: Client, service: FakeService, rows: int, posted: int) -> None:
    kernel = client.tune(FUSION, binding={"M": rows})
    assert isinstance(kernel, EmptyKernel) is (rows == 0)
    assert service.asked().count("POST /v1/tunings") == posted


def test_submit_does_not_wait_and_wait_does(client: Client, service: FakeService) -> None:
    view = client.submit(FUSION, binding={"M": 8})
    assert (view.state, service.asked()) == ("queued", ["POST /v1/tunings"])
    assert client.wait(view.id).artifact.fingerprint == FUSION.fingerprint


def test_submit_gives_the_tuning_that_found_what_the_cache_has(client: Client, service: FakeService) -> None:
    first = client.submit(FUSION, binding={"M": 8})
    client.wait(first)
    again = client.submit(FUSION, binding={"M": 8})
    assert (again.id, again.state) == (first.id, "done")


def test_submit_of_a_kernel_without_a_tuning_says_how_to_have_it(client: Client, service: FakeService) -> None:
    service.add(FUSION, ROWS)
    with pytest.raises(errors.InvalidRequest, match=r"Client\.kernel"):
        client.submit(FUSION, binding={"M": 8})


def test_a_cancelled_tuning_ends_the_wait(client: Client) -> None:
    view = client.submit(FUSION, binding={"M": 8})
    assert client.cancel(view.id).state == "cancelled"
    with pytest.raises(errors.TuningCancelled) as caught:
        client.wait(view.id)
    assert caught.value.tuning_id == view.id


@pytest.mark.parametrize(
    ("end", "error", "text"),
    [
        pytest.param({"state": "failed", "error": "disk full"}, errors.TuningFailed, "disk full", id="failed"),
        pytest.param({"state": "done", "kernel": None, "note": "No GPU."}, errors.NoKernel, "No GPU", id="no-kernel"),
        pytest.param({"state": "cancelled"}, errors.TuningCancelled, "cancelled", id="cancelled"),
    ],
)
def test_a_tuning_without_a_kernel_is_an_error_of_its_own(
    client: Client, service: FakeService, end: dict[str, object], error: type[errors.TuningEnded], text: str
) -> None:
    service.ends = end
    with pytest.raises(error, match=text) as caught:
        tuned(client)
    assert caught.value.tuning.state == end["state"]


@pytest.mark.parametrize(
    ("accept", "is_found"),
    [
        pytest.param(None, False, id="measured-by-default"),
        pytest.param({"correct": ["verified_emulated"], "time": ["none"]}, True, id="accepted"),
        pytest.param(Accept(correct=("verified_emulated",), time=("measured",)), False, id="no-time"),
    ],
)
def test_evidence_that_is_not_accepted_is_no_answer(
    client: Client, service: FakeService, accept: Any, is_found: bool
) -> None:
    service.artifact_changes = {"evidence": PREDICTED}
    if is_found:
        assert tuned(client, accept=accept).artifact.evidence == PREDICTED
    else:
        with pytest.raises(errors.NoKernel, match="verified_emulated, its time none"):
            tuned(client, accept=accept)
        with pytest.raises(errors.KernelNotFound):
            client.kernel(FUSION, binding={"M": 8}, accept=accept)


def test_a_kernel_that_is_not_in_the_cache_is_not_found(client: Client) -> None:
    with pytest.raises(errors.KernelNotFound, match=r"Client\.tune") as caught:
        client.kernel(FUSION, binding={"M": 8}, card="NVIDIA H200")
    assert (caught.value.fingerprint, caught.value.card) == (FUSION.fingerprint, "NVIDIA H200")


def test_the_card_is_part_of_the_key(client: Client, service: FakeService) -> None:
    here = service.add(FUSION, ROWS, on=card("NVIDIA H100"))
    found = client.kernel(FUSION, binding={"M": 8}, card="NVIDIA H100")
    assert found.info == here
    with pytest.raises(errors.KernelNotFound):
        client.kernel(FUSION, binding={"M": 8}, card="NVIDIA H200")


def test_many_kernels_are_looked_up_in_batches_and_keep_their_order(client: Client, service: FakeService) -> None:
    for rows in (3, LOOKUP_KEYS + 1):
        service.add(FUSION, Binding(sizes={"M": rows}))
    wanted = [(FUSION, {"M": rows}) for rows in range(LOOKUP_KEYS + 2)]
    found = client.kernels(wanted)
    have = [rows for rows, kernel in enumerate(found) if kernel is not None]
    assert have == [0, 3, LOOKUP_KEYS + 1]
    assert isinstance(found[0], EmptyKernel)
    lookups = [request for request in service.seen if request.url.path.endswith("lookup")]
    assert [len(body_of(request)["keys"]) for request in lookups] == [LOOKUP_KEYS, 1]


def test_lookups_take_tensors_too_and_share_what_is_equal(client: Client, service: FakeService) -> None:
    service.add(FUSION, ROWS)
    tensors = [torch.zeros(8, 64, dtype=torch.bfloat16), torch.zeros(64, dtype=torch.bfloat16)]
    first, second = client.kernels([(FUSION, tensors), (FUSION, {"M": 8})])
    assert first is second
    assert first is not None


def test_no_keys_ask_nobody(client: Client, service: FakeService) -> None:
    assert client.kernels([]) == []
    assert service.seen == []


def test_trials_come_page_by_page(client: Client, service: FakeService) -> None:
    view = client.submit(FUSION, binding={"M": 8})
    assert list(client.trials(view.id, state="measured")) == some_trials()
    pages = [request.url.params for request in service.seen if request.url.path.endswith("trials")]
    assert [page.get("after") for page in pages] == [None, "1", "3"]
    assert {page["state"] for page in pages} == {"measured"}


def test_cards_and_health(client: Client) -> None:
    assert [status.card.name for status in client.cards()] == ["NVIDIA H200"]
    assert client.health().status == "ok"


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"budget_s": 0.5}, "budget_s"),
        ({"trials": 0}, "trials"),
        ({"name": "two words"}, "name"),
        ({"accept": {"correct": ["unverified"]}}, "accept.correct"),
        ({"inputs": []}, "inputs and binding"),
    ],
)
def test_settings_out_of_range_are_told_before_anybody_is_asked(
    client: Client, service: FakeService, settings: dict[str, object], where: str
) -> None:
    with pytest.raises(errors.InvalidRequest, match=where):
        tuned(client, **settings)
    assert service.seen == []


def test_the_repr_shows_the_address_and_never_the_key(service: FakeService, tmp_path: Path) -> None:
    client = Client("http://me:pass@host.test/base/", api_key="s3cret", store=tmp_path, transport=service.transport())
    assert repr(client) == f"Client('http://host.test/base', with a key, Store({str(tmp_path)!r}))"


def test_the_environment_gives_defaults(service: FakeService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FUSETUNE_URL", "http://from.env")
    monkeypatch.setenv("FUSETUNE_API_KEY", "k1")
    monkeypatch.setenv("FUSETUNE_HOME", str(tmp_path))
    service.key = "k1"
    with Client(transport=service.transport()) as client:
        client.cards()
        assert repr(client) == f"Client('http://from.env', with a key, Store({str(tmp_path)!r}))"
    service.key = "k2"
    with Client("http://other.test", "k2", store=None, transport=service.transport()) as client:
        client.cards()
    assert [request.url.host for request in service.seen] == ["from.env", "other.test"]


def test_progress_may_be_told_to_what_is_empty_at_first(client: Client, service: FakeService) -> None:
    class Collected(list[TuningView]):
        __call__ = list.append

    seen = Collected()
    tuned(client, progress=seen)
    assert [view.state for view in seen[-1:]] == ["done"]
    assert service.seen


def test_progress_is_a_line_a_change_where_there_is_no_terminal(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(client, progress=True, name="gelu")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(";")[0] for line in lines] == [
        "gelu on NVIDIA H200: queued",
        "gelu on NVIDIA H200: running, timing",
        "gelu on NVIDIA H200: done",
    ]


def test_progress_is_one_line_on_a_terminal(client: Client) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    line = StatusLine(shown)
    tuned(client, progress=line)
    line.close()
    assert shown.getvalue().count("\n") == 1
    assert shown.getvalue().count("\r") == 3


def test_a_store_of_ones_own_is_taken(service: FakeService, tmp_path: Path) -> None:
    service.add(FUSION, ROWS)
    store = Store(tmp_path / "a")
    tuned(Client(URL, store=store, transport=service.transport()))
    assert store.find(FUSION.fingerprint, next(iter(service.kernels.values()))[0].binding, Accept()) is not None
