"""Proofs of an older verifier on a card: a right kernel is proven again as it is stored, a wrong one never served."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from fusetune import Client, Fusion, FusionBuilder, Kernel, KernelNotFound
from fusetune.wire.artifact import VERIFIER, KernelArtifact
from service.db import kernels
from service.db.engine import Database
from service.db.models import KernelRow
from tests.service.running import running_service

pytestmark = pytest.mark.gpu
BUDGET_S = 10.0
ROWS, COLUMNS = 1000, 777


@dataclass(frozen=True)
class Served:
    """A service with a worker on the card, and its database."""

    client: Client
    db: Database

    def put_back(self, kernel: Kernel, of: KernelArtifact | None = None) -> str:
        """Makes the kernel one that an older verifier proved, with the code of another, if given; its new id."""
        artifact = kernel.artifact
        assert kernel.info is not None
        assert artifact.verification is not None
        code = {} if of is None else {"cubin": of.cubin, "cubin_sha256": of.cubin_sha256, "launches": of.launches}
        proof = artifact.verification.model_copy(update={"verifier": VERIFIER - 1})
        older = artifact.model_copy(update={"verification": proof, **code})
        with self.db.write() as session:
            row = session.get_one(KernelRow, kernel.info.id)
            sha256 = kernels.put_artifact(session, older.model_dump_json().encode())
            outdated = kernels.proven_again(
                row, id=kernels.kernel_id(sha256), artifact_sha256=sha256, correct=row.correct, time=row.time,
                verifier=VERIFIER - 1,
            )  # fmt: skip
            session.delete(row)
            session.flush()
            session.add(outdated)
            return kernels.kernel_id(sha256)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("service")
    with (
        running_service(folder, with_gpu=True) as url,
        Client(url, store=None) as client,
        Database(f"sqlite:///{folder / 'fusetune.db'}") as db,
    ):
        yield Served(client, db)


def scaled_rows(combine: Callable[..., Any]) -> Fusion:
    """`combine` of each element and its row's amax, so that kernels of two of them have one signature."""
    f = FusionBuilder()
    x = f.input("x", ("R", "C"), "f32")
    f.output(combine(x, x.amax(dims=(1,)).broadcast_to(x.shape, dims=(0,))), name="out")
    return f.build()


def tuned(client: Client, fusion: Fusion, x: torch.Tensor) -> Kernel:
    kernel = client.tune(fusion, inputs=[x], budget_s=BUDGET_S)
    assert isinstance(kernel, Kernel)
    return kernel


def out(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    returned = kernel(x)
    assert isinstance(returned, torch.Tensor)
    return returned


def test_a_right_kernel_is_proven_again_and_a_wrong_one_is_never_served(served: Served) -> None:
    x = torch.randn(ROWS, COLUMNS, device="cuda")
    greatest = x.amax(1, keepdim=True)
    below, above = scaled_rows(operator.sub), scaled_rows(operator.add)
    right, other = tuned(served.client, below, x), tuned(served.client, above, x)

    outdated = served.put_back(right)
    with pytest.raises(KernelNotFound):
        served.client.kernel(below, inputs=[x])
    again = tuned(served.client, below, x)
    newest = next(served.client.tunings(below))
    assert newest.ended == "proven_again"
    assert f"has been proven again by verifier {VERIFIER}, on {torch.cuda.get_device_name()}" in newest.note
    assert again.info is not None
    assert again.info.id != outdated
    assert again.artifact.cubin == right.artifact.cubin
    assert again.artifact.verification is not None
    assert again.artifact.verification.verifier == VERIFIER
    assert again.artifact.evidence.time == "measured"
    assert torch.equal(out(again, x), x - greatest)

    wrong = served.put_back(other, of=right.artifact)
    found = tuned(served.client, above, x)
    newest = next(served.client.tunings(above))
    assert newest.ended != "proven_again"
    assert "is wrong and is not served any more: wrong result" in newest.note
    with served.db.read() as session:
        assert session.get_one(KernelRow, wrong).refuted is not None
    assert torch.equal(out(found, x), x + greatest)
