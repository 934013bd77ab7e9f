"""What an older verifier has proven is refused by name, wherever it comes from."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from benchmarks.models.tuning import FolderSource
from fusetune.client import Client
from fusetune.errors import OutdatedProof, ServerUnreachable
from fusetune.kernel import Kernel
from fusetune.store import Store
from fusetune.wire.artifact import VERIFIER, KernelArtifact, Verification
from fusetune.wire.binding import Binding
from fusetune.wire.service import Accept, KernelView
from tests.sdk.fake_service import EPOCH, URL, FakeService, artifact, bias_gelu, card, kernel_view

FUSION = bias_gelu()
ROWS = Binding(sizes={"M": 8})
OLDER = VERIFIER - 1


def proof(verifier: int | None) -> Verification:
    """A record by the verifier of that number; None: from before there were numbers."""
    fields: dict[str, Any] = {} if verifier is None else {"verifier": verifier}
    return Verification(
        device="NVIDIA H200", input_sets=("random",), max_error=0.0, tolerance=0.1, deterministic=True, **fields
    )


def proven_by(verifier: int | None) -> KernelArtifact:
    return artifact(FUSION, ROWS, verification=proof(verifier))


def stored(verifier: int, on: str = "NVIDIA H200", age_s: float = 0.0) -> tuple[KernelView, bytes]:
    at = EPOCH - timedelta(seconds=age_s)
    return kernel_view(proven_by(verifier), card(on), verifier=verifier, created_at=at)


@pytest.mark.parametrize("verifier", [pytest.param(None, id="without-a-number"), pytest.param(OLDER, id="older")])
def test_a_kernel_of_an_older_verifier_is_refused(verifier: int | None) -> None:
    with pytest.raises(OutdatedProof) as caught:
        Kernel(proven_by(verifier))
    assert (caught.value.found, caught.value.expected) == (verifier or 1, VERIFIER)


def test_a_benchmark_leaves_such_kernels_of_a_folder_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kernels").mkdir()
    for verifier in (OLDER, VERIFIER):
        (tmp_path / "kernels" / f"{verifier}.json").write_text(proven_by(verifier).model_dump_json())
    assert len(FolderSource(tmp_path).kernels) == 1
    assert f"{OLDER}.json" in capsys.readouterr().out


@pytest.mark.parametrize("verifier", [pytest.param(VERIFIER, id="todays"), pytest.param(VERIFIER + 1, id="newer")])
def test_a_kernel_of_todays_or_a_newer_verifier_is_taken(verifier: int) -> None:
    assert Kernel(proven_by(verifier)).artifact.verification == proof(verifier)


def test_a_kernel_that_nobody_proved_is_taken_as_what_it_is() -> None:
    kernel = Kernel(artifact(FUSION, ROWS).unproven())
    assert "correct: unverified" in repr(kernel)


def test_a_file_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "gelu.json"
    path.write_text(proven_by(OLDER).model_dump_json())
    with pytest.raises(OutdatedProof) as caught:
        Kernel.load(path)
    told = str(caught.value)
    assert told.startswith(f"{path}: it was proven by verifier {OLDER}, expected {VERIFIER} or a later one")
    assert "Client.tune" in told


def test_an_unproven_copy_has_no_record_of_its_proof() -> None:
    copy = proven_by(OLDER).unproven()
    assert (copy.evidence.correct, copy.evidence.time, copy.verification) == ("unverified", "measured", None)
    assert copy.cubin == proven_by(OLDER).cubin


def test_what_a_service_of_an_older_version_serves_is_neither_given_nor_stored(tmp_path: Path) -> None:
    service = FakeService()
    service.artifact_changes = {"verification": proof(OLDER)}
    view = service.add(FUSION, ROWS)
    with Client(URL, store=tmp_path, transport=service.transport()) as client:
        for ask in (client.tune, client.kernel):
            with pytest.raises(OutdatedProof, match=f"kernel {view.id}: it was proven by verifier {OLDER}"):
                ask(FUSION, binding={"M": 8})
    assert not list(tmp_path.rglob("*.json"))


def test_the_store_refuses_by_name_what_an_older_verifier_proved(tmp_path: Path) -> None:
    store = Store(tmp_path)
    view, data = stored(OLDER)
    store.put(view, data)
    with pytest.raises(OutdatedProof, match=f"kernel {view.id} in {tmp_path}: .* verifier {OLDER}"):
        store.find(view.fingerprint, view.binding, Accept())
    assert store.find("0" * 64, view.binding, Accept()) is None
    assert store.find(view.fingerprint, view.binding, Accept(), "NVIDIA A100") is None


def test_an_entry_of_before_views_had_numbers_is_of_the_first_verifier(tmp_path: Path) -> None:
    store = Store(tmp_path)
    view, data = stored(VERIFIER)
    store.put(view, data)
    (entry,) = (tmp_path / "index").rglob("*.json")
    entry.write_text(view.model_copy(update={"verifier": 1}).model_dump_json(exclude_defaults=True))
    assert "verifier" not in entry.read_text()
    with pytest.raises(OutdatedProof):
        store.find(view.fingerprint, view.binding, Accept())


def test_the_store_has_an_older_kernel_of_another_card_that_is_still_proven(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(*stored(OLDER))
    proven = stored(VERIFIER, "NVIDIA A100", age_s=60.0)
    store.put(*proven)
    found = store.find(proven[0].fingerprint, proven[0].binding, Accept())
    assert found is not None
    assert found.view == proven[0]


@pytest.mark.parametrize("method", ["tune", "kernel"])
def test_without_the_service_a_refused_kernel_is_told_beside_the_fault(tmp_path: Path, method: str) -> None:
    view, data = stored(OLDER)
    Store(tmp_path).put(view, data)

    def gone(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    client = Client(URL, store=tmp_path, transport=FakeService(gone).transport())
    with client, pytest.raises(ServerUnreachable) as caught:
        getattr(client, method)(FUSION, binding={"M": 8})
    (note,) = caught.value.__notes__
    assert f"kernel {view.id} in {tmp_path}: it was proven by verifier {OLDER}" in note
