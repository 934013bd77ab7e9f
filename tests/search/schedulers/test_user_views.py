"""Pads, flips, strided slices and constants, as users have them: the reference is torch, kernels are the reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from compiler.nvrtc import CompilePool
from compiler.reference import evaluate
from compiler.wire import bind
from compiler.wire.fusions import fusion_from_json, fusion_to_json
from fusetune.wire import parse_binding
from search.space.schedulers import schedulers_for
from tests.cards import H200
from tests.search.random_fusions.proving import outcomes
from tests.search.schedulers.user_views import USER_FUSIONS, case_of
from tests.shares import shared

POINTS = 2
"""Of one scheduler or several, for each fusion."""


@pytest.mark.parametrize("name", USER_FUSIONS)
def test_the_reference_is_torch(name: str) -> None:
    one = USER_FUSIONS[name]
    fusion = bind(one.fusion(), parse_binding({}))
    assert fusion_from_json(fusion_to_json(fusion)) == fusion
    inputs = [np.random.default_rng(n).standard_normal(shape) for n, shape in enumerate(one.shapes)]
    wanted = one.by_torch(*map(torch.from_numpy, inputs))
    found = evaluate(fusion, inputs, np, rounds=False)
    for ours, theirs in zip(found, [wanted] if isinstance(wanted, torch.Tensor) else wanted, strict=True):
        assert ours.shape == tuple(theirs.shape)
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", shared(USER_FUSIONS, 4))
def test_kernels_are_right_in_the_emulator(name: str, pool: CompilePool) -> None:
    assert schedulers_for(case_of(name).bound(), H200)
    every = list(outcomes(iter([case_of(name)]), 7, POINTS, pool))
    wrong = [str(outcome) for outcome in every if outcome.fault or outcome.unsupported]
    assert not wrong, "\n\n".join(wrong)
    assert every
