"""Functions on a builder's tensors give what torch's functions of their names give."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from compiler.reference import evaluate
from fusetune import FusionBuilder, functional
from fusetune.errors import InvalidFusion
from fusetune.fusion import Tensor
from fusetune.wire.fusion import DTypeName
from tests.bound import dense

SHAPE = (5, 6, 7)
INF = float("inf")
TORCH = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
ULPS: dict[str, float] = {"f64": 1e-13, "f32": 2e-6, "f16": 2**-10, "bf16": 2**-7}

Write = Callable[[Tensor], Tensor]
Said = Callable[[torch.Tensor], torch.Tensor]

CASES: dict[str, tuple[Write, Said]] = {
    "softmax": (lambda x: functional.softmax(x, (1,)), lambda x: x.softmax(1)),
    "softmax-last": (lambda x: functional.softmax(x, (-1,)), lambda x: x.softmax(-1)),
    "log-softmax": (lambda x: functional.log_softmax(x, (2,)), lambda x: x.log_softmax(2)),
    "logsumexp": (lambda x: functional.logsumexp(x, (0,)), lambda x: x.logsumexp(0)),
    "logsumexp-of-two": (
        lambda x: functional.logsumexp(x, (0, 2), keepdim=True),
        lambda x: x.logsumexp((0, 2), keepdim=True),
    ),
    "var": (lambda x: functional.var(x, (1,)), lambda x: x.var(1)),
    "var-of-all": (lambda x: functional.var(x, (0, 1, 2), correction=0), lambda x: x.var((0, 1, 2), correction=0)),
    "var-of-few": (
        lambda x: functional.var(x, (-1,), correction=9, keepdim=True),
        lambda x: x.var(-1, correction=9, keepdim=True),
    ),
    "std": (lambda x: functional.std(x, (1, 2)), lambda x: x.std((1, 2))),
    "std-kept": (
        lambda x: functional.std(x, (0,), correction=0, keepdim=True),
        lambda x: x.std(0, correction=0, keepdim=True),
    ),
}


def found(write: Write, x: torch.Tensor, dtype: DTypeName) -> Any:
    f = FusionBuilder()
    f.output(write(f.input("x", tuple(x.shape), dtype)))
    with np.errstate(all="ignore"):
        (result,) = evaluate(dense(f), [x.double().numpy()], np)
    return np.asarray(result)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("name", CASES)
def test_ordinary_elements(name: str, dtype: DTypeName) -> None:
    write, said = CASES[name]
    x = torch.from_numpy(np.random.default_rng(0).normal(size=SHAPE) * 3 + 1).to(TORCH[dtype])
    want = said(x)
    np.testing.assert_allclose(found(write, x, dtype), want.double().numpy(), rtol=ULPS[dtype], atol=ULPS[dtype])


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize(
    "values", [(INF, 1.0), (-INF,), (-INF, 2.0), (float("nan"), 1.0), (2.0**60, -(2.0**60)), (0.0, -0.0)]
)
@pytest.mark.parametrize("name", CASES)
def test_special_elements(name: str, values: tuple[float, ...]) -> None:
    """Infinite ones among them, and runs of nothing else."""
    write, said = CASES[name]
    x = torch.from_numpy(np.random.default_rng(1).choice(values, SHAPE))
    want = said(x).numpy()
    np.testing.assert_allclose(found(write, x, "f64"), want, rtol=1e-13)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("write", [functional.var, functional.std])
def test_one_element_has_no_variance(write: Callable[..., Tensor]) -> None:
    assert np.isnan(found(partial(write, dims=(1,)), torch.ones(3, 1), "f32")).all()


def test_a_size_that_is_open_has_no_correction() -> None:
    f = FusionBuilder()
    x = f.input("x", ("M", 8), "f32")
    assert functional.var(x, (0,), correction=0).shape == (8,)
    assert functional.var(x, (1,)).shape == ("M",)
    with pytest.raises(InvalidFusion) as caught:
        functional.var(x, (0,))
    (problem,) = caught.value.problems
    assert (problem.where, problem.found) == ("dims", "dimension 0 of size M")
    assert "correction=0" in problem.fix
