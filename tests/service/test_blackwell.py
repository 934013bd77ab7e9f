"""Public fusions tuned for a card that is nowhere: proven in the emulator, served to who takes that, callable nowhere.

The service runs as an operator starts it, its worker without a GPU; fusions and kernels go over REST.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fusetune import Accept, Client, Kernel, KernelNotFound, NoDevice
from tests.nursery import ROOT
from tests.service.running import running_service

CARD = "B200"
FUSIONS = ROOT / "benchmarks" / "suite" / "fusions"

ACCEPTED = Accept(correct=("verified_on_gpu", "verified_emulated"), time=("measured", "predicted"))

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}

SEARCH_S = 90.0
"""For each fusion, on a machine that does other things as well; a search ends sooner."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("service")
    with (
        running_service(folder, "--device", "none", with_gpu=False) as url,
        Client(url, store=folder / "store") as made,
    ):
        yield made


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "copy_f32_64m",
        "add_bf16_1m",
        "silu_mul_bf16_8192x14336",
        "bias_gelu_bf16_8192x12288",
        "rope_bf16_4x32x4096x128",
        "transpose_f32_8192x8192",
        "nchw_to_nhwc_bf16_64x256x56x56",
        "logsumexp_bf16_8192x32000",
        "softmax_bf16_4096x131072",
        "rmsnorm_residual_bf16_8192x8192",
    ],
)
def test_a_public_fusion_is_tuned_proven_and_served_for_a_card_that_is_nowhere(name: str, client: Client) -> None:
    fusion = json.loads(Path(FUSIONS, f"{name}.json").read_text())
    client.tune(fusion, card=CARD, accept=ACCEPTED, budget_s=SEARCH_S, name=name)
    with pytest.raises(KernelNotFound):
        client.kernel(fusion, card=CARD)
    kernel = client.kernel(fusion, card=CARD, accept=ACCEPTED)
    assert isinstance(kernel, Kernel)
    assert kernel.info is not None
    info = kernel.info
    assert (info.name, info.card.name, info.arch) == (name, CARD, "sm_100a")
    assert (info.evidence.correct, info.evidence.time) == ("verified_emulated", "predicted")
    assert (info.resources.spill_store_bytes, info.resources.spill_load_bytes) == (0, 0)
    tensors = [torch.zeros(one.shape, dtype=DTYPES[one.dtype]) for one in kernel.artifact.inputs]
    with pytest.raises(NoDevice, match=r"for the B200 \(sm_100a\), and no such card is attached") as caught:
        kernel(*tensors)
    assert caught.value.is_absent
