"""How often the statements of unrolled loops run."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.tensor import CachePolicy
from compiler.lower import kernel_ir as k
from compiler.lower.operands import Reg
from search.cost.predicting import features_of
from search.cost.sites import sites_of
from tests.search.schedulers.points import generated
from tests.search.schedulers.row_fusions import layer_norm

THRICE, EIGHT = Var("k", 3), Var("j", 8)


def load(offset: Expr) -> k.GlobalLoad:
    return k.GlobalLoad(Reg("x_r", DType.BF16, const(0)), "x", offset, 1, CachePolicy.DEFAULT)


def unrolled(turn: Var, *body: k.Stmt) -> k.Loop:
    return k.Loop(turn, const(turn.extent), unroll=True, body=body)


@pytest.mark.parametrize(
    ("body", "runs"),
    [
        pytest.param(unrolled(EIGHT, load(var(EIGHT))), 8, id="another-element-in-each-turn"),
        pytest.param(unrolled(EIGHT, load(const(0))), 1, id="the-same-element-in-all"),
        pytest.param(unrolled(THRICE, unrolled(EIGHT, load(var(EIGHT)))), 8, id="the-same-elements-in-each-outer-turn"),
        pytest.param(unrolled(THRICE, unrolled(EIGHT, load(var(THRICE)))), 3, id="the-same-in-each-inner-turn"),
        pytest.param(unrolled(THRICE, unrolled(EIGHT, load(var(EIGHT) + var(THRICE) * 8))), 24, id="all-others"),
        pytest.param(unrolled(Var("i", 1), unrolled(EIGHT, load(var(EIGHT)))), 8, id="in-a-loop-of-one-turn"),
    ],
)
def test_a_load_runs_once_for_each_element(body: k.Loop, runs: int) -> None:
    (found,) = [one.per_tile for one in sites_of((body,), 1, 1) if isinstance(one.statement, k.GlobalLoad)]
    assert found == runs


def test_operands_of_odd_rows_are_counted_for_each_of_their_elements() -> None:
    """A row of 4095 is 2.7 rounds of 192 threads with 8 elements, 4 of 128: rounds that guards set apart count too."""
    point: dict[str, Any] = {"vector": 8, "rows_begin": "aligned", "operands": "late", "keep": "registers", "rows": 1}
    made = (generated("row", layer_norm((512, 4095), (1,), "bf16"), **point, threads=threads) for threads in (128, 192))
    four, three = (features_of(one.launches[0]).smem_wavefronts for one in made)
    assert three == pytest.approx(four, rel=0.25)
