from __future__ import annotations

import base64
import pickle
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

from fusetune import errors
from fusetune.errors import InvalidKernel, NoDevice, WrongArguments
from fusetune.kernel import Kernel
from fusetune.torch import check_tensor
from fusetune.wire.artifact import Conditions, Evidence, KernelArtifact, LaunchSpec, Resources, TensorSpec, Timing


def spec(shape: tuple[int, ...] = (4, 8), strides: tuple[int, ...] = (8, 1), dtype: str = "bf16") -> TensorSpec:
    return TensorSpec(shape=shape, strides=strides, dtype=dtype, align=16)


def artifact(**changes: Any) -> KernelArtifact:
    fields: dict[str, Any] = {
        "fingerprint": "f",
        "binding": "b",
        "arch": "sm_90a",
        "inputs": (spec(), spec((8,), (1,))),
        "outputs": (spec(),),
        "launches": (LaunchSpec(entry="fused", grid=(1, 1, 1), block=(32, 1, 1), args=()),),
        "cubin": base64.b64encode(b"\x00\xff cubin"),
        "cubin_sha256": sha256(b"\x00\xff cubin").hexdigest(),
        "source": "",
        "ptx": "",
        "trace": {},
        "resources": Resources(
            registers=1, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=0
        ),
        "code_hash": "c",
        "conditions": Conditions(generator="g", nvrtc="13.0"),
    }
    return KernelArtifact(**{**fields, **changes})


def test_a_damaged_cubin_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "kernel.json"
    Kernel(artifact()).save(path)
    text = path.read_text()
    whole = base64.b64encode(b"\x00\xff cubin").decode()
    assert whole in text
    path.write_text(text.replace(whole, base64.b64encode(b"\x00\xff cubiN").decode()))
    with pytest.raises(InvalidKernel, match="sha256"):
        Kernel.load(path)


def test_saving_and_loading_keeps_the_artifact(tmp_path: Path) -> None:
    path = tmp_path / "kernel.json"
    Kernel(artifact()).save(path)
    assert Kernel.load(path).artifact == artifact()
    assert [p.name for p in tmp_path.iterdir()] == ["kernel.json"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "JSON"),
        ("{}", "fingerprint: Field required"),
        ('{"format": "fusetune.kernel/2"}', "format: Input should be 'fusetune.kernel/1'"),
        ("not json", "JSON"),
    ],
)
def test_what_is_no_kernel_is_refused_in_one_line_with_its_path(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(InvalidKernel, match=r"other\.json") as caught:
        Kernel.load(path)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_repr_shows_shapes_and_says_that_nothing_was_measured() -> None:
    shown = repr(Kernel(artifact()))
    assert shown == "Kernel(bf16[4, 8], bf16[8] -> bf16[4, 8]; sm_90a, correct: unverified, time: none)"


def test_repr_shows_the_card_and_the_median_with_its_evidence() -> None:
    timing = Timing(
        policy="graph_rotating_v1", card="NVIDIA H200", median_us=12.34, p10_us=12, p90_us=13, samples_us=(12.34,)
    )
    evidence = Evidence(correct="verified_on_gpu", time="measured")
    shown = repr(Kernel(artifact(timing=timing, evidence=evidence)))
    assert "NVIDIA H200, 12.3 us median, correct: verified_on_gpu, time: measured" in shown


def test_a_dtype_that_torch_lacks_is_refused() -> None:
    with pytest.raises(InvalidKernel, match="f4"):
        Kernel(artifact(inputs=(spec(dtype="f4"),)))


BASE = torch.zeros(64, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("tensor", "fault"),
    [
        pytest.param(torch.zeros(4, 8, dtype=torch.bfloat16), None, id="right"),
        pytest.param(torch.zeros(4, 8, dtype=torch.float16), "torch.float16", id="dtype"),
        pytest.param(torch.zeros(4, 9, dtype=torch.bfloat16), r"shape \(4, 9\)", id="shape"),
        pytest.param(torch.zeros(8, 4, dtype=torch.bfloat16).t(), r"strides \(1, 4\)", id="strides"),
        pytest.param(BASE[8:40].view(4, 8), None, id="offset-of-16-bytes"),
        pytest.param(BASE[4:36].view(4, 8), "address", id="offset-of-8-bytes"),
    ],
)
def test_a_tensor_is_held_against_its_spec(tensor: torch.Tensor, fault: str | None) -> None:
    if fault is None:
        check_tensor("input 0", tensor, spec())
    else:
        with pytest.raises(WrongArguments, match=fault):
            check_tensor("input 0", tensor, spec())


def test_the_stride_of_an_extent_of_one_is_free() -> None:
    tensor = torch.zeros(8, dtype=torch.bfloat16).as_strided((1, 8), (3, 1))
    check_tensor("input 0", tensor, spec((1, 8), (8, 1)))
    with pytest.raises(WrongArguments):
        check_tensor("input 0", torch.zeros(32, dtype=torch.bfloat16).as_strided((2, 8), (3, 1)), spec((2, 8), (8, 1)))


def test_a_wrong_number_of_inputs_is_told() -> None:
    with pytest.raises(WrongArguments, match="found 1, expected 2"):
        Kernel(artifact())(torch.zeros(4, 8, dtype=torch.bfloat16))


def test_tensors_on_the_host_are_refused() -> None:
    x, b = torch.zeros(4, 8, dtype=torch.bfloat16), torch.zeros(8, dtype=torch.bfloat16)
    with pytest.raises((NoDevice, WrongArguments), match="CUDA device"):
        Kernel(artifact())(x, b)


@pytest.mark.parametrize(
    "error",
    [
        errors.WrongArguments("input 0", "a", "b", "c"),
        errors.GuardFailed("ptr[0] == 0", "m"),
        errors.InvalidKernel("cubin", "r", "f"),
        errors.NoDevice("r", "f"),
        errors.LaunchFailed("call", "CUDA_ERROR_UNKNOWN", 999, "d"),
    ],
)
def test_errors_survive_a_process_border(error: errors.KernelError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
