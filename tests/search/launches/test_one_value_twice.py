"""Outputs that are one value, or an input, behind views: each is written, as a copy of what the other one is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.ir.fusion import Fusion
from compiler.reference import evaluate
from fusetune import FusionBuilder, Tensor
from fusetune.errors import InvalidFusion
from search.space.schedulers import schedulers_for
from search.space.schedulers.launches import Launches
from tests.bound import dense
from tests.cards import H200
from tests.search.launches.made import run_launches

SHAPE = (2, 3, 8, 8)
FLAT = (6, 8, 8)

Form = Callable[[FusionBuilder, Tensor, Tensor], Tensor]
"""Another output, of the builder, the value that is an output and an input."""

FORMS: dict[str, Form] = {
    "copy": lambda f, x, y: f.copy(y),
    "reshape": lambda f, x, y: y.reshape((16, 24)),
    "reshaped-back": lambda f, x, y: y.reshape((16, 24)).reshape(FLAT),
    "permute": lambda f, x, y: y.permute((0, 2, 1)),
    "permuted-back": lambda f, x, y: y.permute((0, 2, 1)).permute((0, 2, 1)),
    "slice": lambda f, x, y: f.slice(y, dim=1, start=2, stop=5),
    "whole-slice": lambda f, x, y: f.slice(y, dim=1, start=0, stop=8),
    "both-ways": lambda f, x, y: f.cat([f.slice(y, dim=0, start=0, stop=2), f.slice(y, dim=0, start=2, stop=6)], dim=0),
    "broadcast-to-itself": lambda f, x, y: y.broadcast_to(FLAT, dims=(0, 1, 2)),
    "computed-again": lambda f, x, y: f.copy(x).reshape(FLAT),
    "input-copied": lambda f, x, y: f.copy(x),
    "input-reshaped": lambda f, x, y: x.reshape((48, 8)),
    "input-permuted": lambda f, x, y: x.permute((0, 1, 3, 2)),
    "input-permuted-back": lambda f, x, y: x.permute((0, 1, 3, 2)).permute((0, 1, 3, 2)),
    "input-sliced": lambda f, x, y: f.slice(x, dim=3, start=1, stop=6),
}

VALUES: dict[str, Callable[[FusionBuilder, Tensor], Tensor]] = {
    "pointwise": lambda f, x: f.exp(x),
    "after-a-fold": lambda f, x: f.exp(x - f.amax(x, dims=(3,), keepdim=True).broadcast_to(SHAPE, dims=(0, 1, 2, 3))),
    "after-a-permute": lambda f, x: f.exp(x.permute((0, 1, 3, 2))),
    "of-two-folds": lambda f, x: (
        x
        * f.amax(x, dims=(3,)).broadcast_to(SHAPE, dims=(0, 1, 2))
        * f.amin(x, dims=(0,)).broadcast_to(SHAPE, dims=(1, 2, 3))
    ),
}


def twice(value: str, form: str) -> Fusion:
    f = FusionBuilder()
    x = f.input("x", SHAPE, "f32")
    y = VALUES[value](f, x).reshape(FLAT)
    f.output(y, name="first")
    f.output(FORMS[form](f, x, y), name="second")
    return dense(f)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("form", FORMS)
def test_one_value_as_two_outputs_is_written_twice(value: str, form: str) -> None:
    fusion = twice(value, form)
    schedulers = schedulers_for(fusion, H200)
    assert schedulers
    x = np.random.default_rng(0).standard_normal(SHAPE)
    right = evaluate(fusion, [x], np, rounds=False)
    for one in schedulers:
        assert one.refusal(fusion, H200.arch) is None
        if isinstance(one, Launches):
            written = [name for names in one.cut.stores for name in names]
            assert len(written) == len(set(written))
            for found, wanted in zip(run_launches(one.cut, [x]), right, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_an_output_has_a_name_and_a_tensor_of_its_own() -> None:
    """What is no result of an operator, or is returned already, is refused with what to write: a copy."""
    f = FusionBuilder()
    x = f.input("x", SHAPE, "f32")
    with pytest.raises(InvalidFusion, match="copy"):
        f.output(x, name="same")
    y = f.exp(x)
    f.output(y, name="first")
    with pytest.raises(InvalidFusion, match="copy"):
        f.output(y, name="second")
