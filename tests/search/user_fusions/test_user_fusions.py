"""Two hundred fusions as users would post them: the reference is torch, and kernels are the reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from compiler.reference import evaluate, settled
from tests.search.user_fusions.posted import SMALL, Posted, differences
from tests.search.user_fusions.table import POSTED


def by_reference(one: Posted, tensors: list[torch.Tensor], wanted: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """What the fusion means, in the types that torch gives."""
    fusion = settled(one.as_tensors(SMALL), one.scalars)
    arrays = [(x.double() if x.dtype.is_floating_point else x).numpy() for x in tensors]
    found = evaluate(fusion, arrays, np)
    types = [fusion.value(name).dtype.is_float for name in fusion.outputs]
    assert types == [x.dtype.is_floating_point for x in wanted]
    return [torch.from_numpy(np.array(x)).to(like.dtype) for x, like in zip(found, wanted, strict=True)]


@pytest.mark.parametrize("name", POSTED)
def test_the_reference_is_torch(name: str) -> None:
    one = POSTED[name]
    tensors = one.tensors(SMALL)
    wanted = one.wanted(tensors)
    assert not differences(one, by_reference(one, tensors, wanted), wanted)


def test_there_are_two_hundred() -> None:
    assert len(POSTED) >= 200
