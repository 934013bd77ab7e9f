"""The model's rules on products by tensor cores: the nearest legal and the nearest illegal schedule of each."""

import pytest

from compiler.arch import arch_named
from compiler.ir.iter_domain import MemoryType
from compiler.legality.rules import Schedule, check_model
from compiler.schedule import steps as st
from tests.compiler.products import Warps, by_warps, product
from tests.compiler.schedules import LOCAL, SHARED, P, schedule, unary

AXES, OPERANDS = "mma_axes_are_of_products", "mma_operands_lie_in_one_memory"


def found(s: Schedule) -> set[str]:
    return {v.rule for v in check_model(s)[0]} & {AXES, OPERANDS}


@pytest.mark.parametrize(("kind", "broken"), [(P.UNROLL, set()), (P.MMA, {AXES})])
def test_only_products_have_mma_axes(kind: P, broken: set[str]) -> None:
    steps: list[st.Step] = [st.CacheInput("i0", "r", LOCAL), st.Parallelize("r", 0, kind)]
    assert found(schedule(unary((32,)), steps)) == broken


@pytest.mark.parametrize(("memory", "broken"), [(LOCAL, set()), (SHARED, set()), (MemoryType.TENSOR, {OPERANDS})])
def test_operands_lie_together(memory: MemoryType, broken: set[str]) -> None:
    trace = by_warps(product(64, 64, 128), Warps(), [st.SetMemory("left", memory)])
    assert found(Schedule(trace.replay(), arch_named("sm_90a"))) == broken
