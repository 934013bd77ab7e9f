"""One allocation a block: tensors side by side, or one after the other in the same columns."""

from __future__ import annotations

import pytest

from compiler.explicit.generate import generate_explicit
from compiler.nvrtc import CompilePool
from tests.compiler.analysis.tmem_cases import ALL, Step, dimsep, document, inline, on, types
from tests.compiler.tmem.kernels import Document, right, sum_of_two, twice_through

SIZES = {
    32: 32, 33: 64, 63: 64, 64: 64, 65: 128, 127: 128, 128: 128, 129: 256, 255: 256, 256: 256, 257: 512,
}  # fmt: skip
"""Columns that are allocated, by those that are needed."""
_FEW = (32, 33, 129, 257)


@pytest.mark.parametrize("needed", [pytest.param(n, marks=() if n in _FEW else pytest.mark.long) for n in SIZES])
def test_an_allocation_is_a_power_of_two(needed: int, pool: CompilePool) -> None:
    steps = [*on(ALL, *types("TIDx")), *on("tv2", dimsep(1)), *on(("tv1", "tv3"), inline(2))]
    ran = right(document((32, needed), steps), pool)
    assert ran.generated.kernel.tmem_columns == SIZES[needed]


def inlined(*names: int) -> list[Step]:
    return on([f"tv{n}" for n in names], inline(1))


@pytest.mark.parametrize(
    ("case", "columns"),
    [
        pytest.param(twice_through(40), 64, id="one-after-the-other"),
        pytest.param(twice_through(40, *inlined(1, 2, 3, 4, 5)), 64, id="by-a-thread"),
        pytest.param(twice_through(64, *inlined(1, 2, 3, 4, 5), in_loops=True), 32, id="in-turns-of-one-loop"),
        pytest.param(twice_through(64, *inlined(1, 3, 4, 5), in_loops=True), 128, id="read-in-every-turn"),
        pytest.param(twice_through(64, *inlined(1, 2, 3, 5), in_loops=True), 128, id="stored-in-every-turn"),
        pytest.param(sum_of_two(128, same_region=False), 32, id="both-are-needed-at-once"),
    ],
)
def test_columns_are_used_again_when_nobody_reads_them(case: Document, columns: int, pool: CompilePool) -> None:
    ran = right(case, pool)
    assert ran.generated.kernel.tmem_columns == columns


def test_of_two_tensors_in_the_same_columns_the_second_waits_for_loads_of_the_first() -> None:
    text = generate_explicit(twice_through(32)).source.partition('extern "C"')[2]
    assert text.index("ft_tmem_load_") < text.index("ft_tmem_wait_loads();") < text.rindex("ft_tmem_store_")
    assert "+ u32(32u" not in text
