"""A public product tuned on a host without a GPU, from post to kernel: proven in the emulator, its time predicted.

The service runs as an operator starts it; fusion and kernel go over REST.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.suite.export import FUSIONS
from fusetune import Accept, Client, Kernel, KernelNotFound, NoDevice
from tests.service.running import running_service

CARD = "H100 SXM"
NAME = "mm_bf16_m16_n8192_k8192"
ACCEPTED = Accept(correct=("verified_on_gpu", "verified_emulated"), time=("measured", "predicted"))
SEARCH_S = 90.0
"""On a machine that does other things as well."""


@pytest.mark.long
def test_a_public_product_is_tuned_proven_and_served(tmp_path: Path) -> None:
    fusion = json.loads((FUSIONS / f"{NAME}.json").read_text())
    with (
        running_service(tmp_path, "--device", "none", with_gpu=False) as url,
        Client(url, store=tmp_path / "store") as client,
    ):
        client.tune(fusion, card=CARD, accept=ACCEPTED, budget_s=SEARCH_S, name=NAME)
        with pytest.raises(KernelNotFound):
            client.kernel(fusion, card=CARD)  # measured kernels alone
        kernel = client.kernel(fusion, card=CARD, accept=ACCEPTED)
    assert isinstance(kernel, Kernel)
    info = kernel.info
    assert info is not None
    assert (info.name, info.card.name, info.arch) == (NAME, CARD, "sm_90a")
    assert (info.evidence.correct, info.evidence.time) == ("verified_emulated", "predicted")
    assert info.candidate is not None
    assert "product" in info.candidate.scheduler
    assert (info.median_us, info.resources.spill_store_bytes) == (None, 0)
    assert "wgmma" in kernel.artifact.ptx or "mma.sync" in kernel.artifact.ptx
    tensors = [torch.zeros(one.shape, dtype=torch.bfloat16) for one in kernel.artifact.inputs]
    with pytest.raises(NoDevice):
        kernel(*tensors)
