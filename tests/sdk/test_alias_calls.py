"""A call of a kernel that writes into its inputs: which tensors it takes, and what it gives back."""

from __future__ import annotations

import pytest
import torch

from fusetune.errors import WrongArguments
from fusetune.kernel import Kernel
from fusetune.wire.artifact import KernelArtifact
from tests.sdk.test_torch_calls import Recorded, on_the_host, spec
from tests.sdk.test_torch_kernel import artifact

__all__ = ["on_the_host"]


@pytest.fixture
def kernel() -> Kernel:
    """(x, w) -> (into x, new)."""
    one = spec("f32", 4, 6)
    return Kernel(artifact(inputs=(one, one), outputs=(one.model_copy(update={"alias": 0}), one)))


def test_the_input_itself_comes_back_and_torch_knows_that_it_changed(kernel: Kernel) -> None:
    x, w = torch.ones(4, 6), torch.ones(4, 6)
    before = x._version, w._version
    y, z = kernel(x, w)
    assert y is x
    assert (x._version > before[0], w._version) == (True, before[1])
    assert Recorded.calls == [((x.data_ptr(), w.data_ptr(), x.data_ptr(), z.data_ptr()), ())]


def test_what_is_saved_for_a_backward_pass_is_not_changed_unseen(kernel: Kernel) -> None:
    x, w, weight = torch.ones(4, 6), torch.ones(4, 6), torch.ones(4, 6, requires_grad=True)
    loss = (x * weight).sum()
    with torch.no_grad():
        kernel(x, w)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, weight)


def test_out_names_the_input_that_is_written(kernel: Kernel) -> None:
    x, w, new = torch.ones(4, 6), torch.ones(4, 6), torch.empty(4, 6)
    y, z = kernel(x, w, out=(x, new))
    assert y is x
    assert z is new
    with pytest.raises(WrongArguments, match="output 0: found memory of its own, expected that of input 0"):
        kernel(x, w, out=(torch.empty(4, 6), new))
    for taken in (x, w):
        with pytest.raises(WrongArguments, match="output 1: found memory shared with an input"):
            kernel(x, w, out=(x, taken))


def test_no_other_tensor_shares_the_memory_that_is_written(kernel: Kernel) -> None:
    pair = torch.ones(8, 6)
    kernel(pair[:4], pair[4:])
    with pytest.raises(WrongArguments, match="Pass a copy of what shares its memory with input 0"):
        kernel(pair[:4], pair[1:5])
    with pytest.raises(WrongArguments, match="output 0: found memory shared with an input"):
        kernel(pair[:4], pair[:4])


def test_tensors_that_ask_for_gradients_are_refused_as_ever(kernel: Kernel) -> None:
    x, w = torch.ones(4, 6, requires_grad=True), torch.ones(4, 6)
    with pytest.raises(WrongArguments, match="no backward pass"):
        kernel(x, w)
    with torch.no_grad():
        kernel(x, w)


def test_an_alias_is_the_position_of_an_input_and_stands_in_documents_only_where_there_is_one(kernel: Kernel) -> None:
    text = kernel.artifact.model_dump_json()
    assert text.count('"alias"') == 1
    assert KernelArtifact.model_validate_json(text) == kernel.artifact
    with pytest.raises(ValueError, match=r"outputs\[0\]\.alias: found 7, expected the position of an input"):
        KernelArtifact.model_validate_json(text.replace('"alias":0', '"alias":7'))
