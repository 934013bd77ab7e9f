"""Rewritten and cut fusions draw the numbers of the fusion: an element keeps its number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from compiler.ir.pinned import pinned
from compiler.reference import evaluate
from compiler.wire import bind
from fusetune import FusionBuilder
from fusetune.wire.binding import Binding
from search.launches.cut import cut_at
from search.launches.merged_dims import merged_dims
from search.launches.raised_permutes import raise_permutes
from tests.search.randoms import dropout_backward


def heads() -> Fusion:
    """Normalized rows, dropped out and stored with heads before tokens."""
    f = FusionBuilder()
    x = f.input("x", (6, 4, 32), "f32")
    seed, offset = f.input("seed", (), "i64"), f.input("offset", (), "i64")
    total = f.amax(x, (2,)).broadcast_to((6, 4, 32), (0, 1))
    f.output(f.dropout(x - total, 0.4, seed, offset).permute((1, 0, 2)), "y")
    return bind(f.build(), Binding())


def several_folded() -> Fusion:
    f = FusionBuilder()
    x = f.input("x", (3, 5, 7), "f32")
    drawn = f.rand((3, 5, 7), f.input("seed", (), "i64"), f.input("offset", (), "i64"))
    f.output(f.amax(x * drawn, (1, 2)), "y")
    return bind(f.build(), Binding())


def _inputs(fusion: Fusion) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    first, *state = (fusion.value(name) for name in fusion.inputs)
    assert not any(v.shape for v in state)
    return [rng.normal(size=first.shape), np.asarray(-9), np.asarray(1 << 35)]


@pytest.mark.parametrize(("fusion", "rewrite"), [(heads(), raise_permutes), (several_folded(), merged_dims)])
def test_rewritten_fusions_draw_the_same(fusion: Fusion, rewrite: Callable[[Fusion], Fusion | None]) -> None:
    made = rewrite(fusion)
    assert made is not None
    assert any(op.kind is OpKind.RAND for op in made.ops)
    for found, want in zip(evaluate(made, _inputs(fusion), np), evaluate(fusion, _inputs(fusion), np), strict=True):
        assert np.array_equal(found, want)


def test_launches_that_draw_again_draw_the_same() -> None:
    fusion = pinned(dropout_backward(12, 40))
    dropped, total = fusion.outputs
    x, seed, offset = _inputs(fusion)
    want = evaluate(fusion, [x, seed, offset], np)
    cut = cut_at(fusion, [[dropped], [total]])
    state = {"i0": x, "i1": seed, "i2": offset, dropped: want[0]}
    for part, expected in zip(cut.parts, want, strict=True):
        (found,) = evaluate(part.fusion, [state[name] for name in part.reads], np)
        assert np.allclose(found, expected)
    again = cut_at(fusion, [[total], [dropped]])
    assert all(any(op.kind is OpKind.RAND for op in part.fusion.ops) for part in again.parts)
    for part, expected in zip(again.parts, reversed(want), strict=True):
        (found,) = evaluate(part.fusion, [state[name] for name in part.reads], np)
        assert np.array_equal(found, expected)
