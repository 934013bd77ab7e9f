"""The kernels of the tensor-memory tutorial, and those of nvFuser's tests of it, run as they stand there."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.errors import IllegalSchedule, Unsupported
from compiler.explicit.generate import generate_explicit
from compiler.explicit.smaller import smaller
from compiler.nvrtc import CompilePool
from compiler.verdict import judge_document
from tests.compiler.analysis.tmem_cases import ALL, dimsep, document, on, split, types
from tests.compiler.documents import CASES
from tests.compiler.tmem.kernels import (
    LEGAL,
    STRIDED_LANES,
    beside_wider_threads,
    copy_of,
    forms,
    of_type,
    right,
    sum_of_two,
    widths,
)

WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128)
BY_NAME = {c["name"].removeprefix("TMemTutorialR."): c for c in LEGAL}
SMALL = [n for n in BY_NAME if not n.startswith(("Complicated", "Vectorization", "Performant"))]


@pytest.mark.parametrize("name", SMALL)
def test_a_kernel_of_the_tutorial_is_right(name: str, pool: CompilePool) -> None:
    ran = right(BY_NAME[name], pool)
    assert "tcgen05.relinquish_alloc_permit" in ran.ptx
    assert ".b32 [%r" in ran.ptx


@pytest.mark.parametrize("name", ["Complicated1", "Complicated2"])
def test_a_swizzled_matrix_of_4096_takes_64_columns(name: str, pool: CompilePool) -> None:
    made = generate_explicit(BY_NAME[name])
    assert made.kernel.tmem_columns == 64
    assert "tcgen05.dealloc" in pool.submit(made.source, made.arch.name).result().ptx


@pytest.mark.long
@pytest.mark.parametrize("name", ["Complicated1", "Complicated2"])
def test_a_swizzled_matrix_of_4096_is_right_in_its_first_last_and_middle_blocks(name: str, pool: CompilePool) -> None:
    case = BY_NAME[name]
    x, y, z = generate_explicit(case).kernel.grid
    ran = right(case, pool, blocks=tuple(sorted({0, x, x * y, x * y * z // 2, x * y * z - 1})))
    assert ran.generated.scheduled.tensor("tv2").memory == "tensor"


@pytest.mark.parametrize("pair", [(2, 4), (8, 64), (128, 128)])
def test_vectors_of_different_widths_meet(pair: tuple[int, int], pool: CompilePool) -> None:
    assert forms(right(widths(*pair), pool).ptx) == {f"st 32x32b x{pair[0]}", f"ld 32x32b x{pair[1]}"}


@pytest.mark.long
@pytest.mark.parametrize("load", WIDTHS)
@pytest.mark.parametrize("store", WIDTHS)
def test_every_pair_of_widths_is_right(store: int, load: int, pool: CompilePool) -> None:
    ran = right(widths(store, load), pool)
    assert forms(ran.ptx) == {f"st 32x32b x{store}", f"ld 32x32b x{load}"}
    columns = max(store, 32) if store == load else 256
    assert "tcgen05.alloc" in ran.ptx
    assert ran.generated.source.count(f", {columns}u);") == 2


@pytest.mark.parametrize(
    "elems",
    [pytest.param(None, id="whole-tiles"), pytest.param(65604, id="a-vector-more")],
)
def test_the_performant_copy_takes_32_columns_in_words_of_8(elems: int | None, pool: CompilePool) -> None:
    case = BY_NAME["PerformantVectorizedCopy"]
    if elems is not None:
        case = {**case, "tensors": {n: {**t, "shape": [elems]} for n, t in case["tensors"].items()}}
    ran = right(case if elems is not None else dict(smaller(case) or case), pool)
    assert forms(ran.ptx) == {"st 32x32b x8", "ld 32x32b x8"}
    assert "ft_tmem_deallocate(tmem, 32u);" in ran.generated.source


def test_the_performant_copy_is_a_kernel_at_its_own_size(pool: CompilePool) -> None:
    made = generate_explicit(BY_NAME["PerformantVectorizedCopy"])
    assert "tcgen05.st.sync.aligned.32x32b.x8.b32" in pool.submit(made.source, made.arch.name).result().ptx


def test_strided_lanes_are_reached_by_half_warps(pool: CompilePool) -> None:
    assert forms(right(STRIDED_LANES, pool).ptx) == {"st 16x32bx2 x4", "ld 16x32bx2 x4"}


@pytest.mark.parametrize("elems", [1280, 1281])
def test_a_block_of_one_warp_needs_no_barrier(elems: int, pool: CompilePool) -> None:
    ptx = right(copy_of(elems), pool).ptx
    assert "bar.sync" not in ptx
    assert "tcgen05.fence" not in ptx


@pytest.mark.parametrize("same_region", [True, False], ids=["one-region", "two-regions"])
def test_two_tensors_are_one_allocation(same_region: bool, pool: CompilePool) -> None:
    ptx = right(sum_of_two(1280, same_region=same_region), pool).ptx
    assert ptx.count("tcgen05.alloc") == ptx.count("tcgen05.dealloc") == 1


def test_a_warp_of_a_wider_block_copies(pool: CompilePool) -> None:
    right(beside_wider_threads(split(1, 32), split(0, 1), *types(None, "TIDy", None, "TIDx")), pool)


def test_a_warp_that_a_wider_block_cuts_is_refused() -> None:
    with pytest.raises(IllegalSchedule, match="steps by 33 threads"):
        generate_explicit(beside_wider_threads(split(1, 32), *types("TIDy", None, "TIDx")))


def test_axes_over_devices_are_judged_and_not_run() -> None:
    """[2, 128, 3, 8] on [DIDx, TIDx, DIDy |]: no device holds what another one has."""
    steps = [*on(ALL, *types("DIDx", "TIDx", "DIDy")), *on("tv2", dimsep(2))]
    case = document((2, 128, 3, 8), steps)
    verdict = judge_document(case)
    assert verdict.legal
    assert [(t.lanes, t.columns) for t in verdict.tmem] == [(128, 8)]
    with pytest.raises(Unsupported, match="axes_are_of_one_device"):
        generate_explicit(case)


def test_an_axis_of_one_device_is_run(pool: CompilePool) -> None:
    right(document((1, 128, 8), [*on(ALL, *types("DIDx", "TIDx")), *on("tv2", dimsep(2))]), pool)


TYPES = {
    "int8": (4, 8, 16, 32, 64, 128, 256, 512),
    "float16": (2, 4, 8, 16, 32, 64, 128, 256),
    "float32": WIDTHS,
    "float64": WIDTHS[:-1],
    "complex128": WIDTHS[:-2],
}
"""Elements of an access of each type: 4 to 512 bytes."""
_ROWS = [(dtype, width) for dtype, widths_of in TYPES.items() for width in widths_of]
_FEW = {("int8", 4), ("int8", 512), ("float16", 2), ("float16", 256), ("float64", 64), ("complex128", 32)}


def test_there_are_37_rows() -> None:
    assert len(_ROWS) == 37


@pytest.mark.parametrize(
    ("dtype", "width"),
    [pytest.param(*row, marks=() if row in _FEW else pytest.mark.long, id=f"{row[0]}-{row[1]}") for row in _ROWS],
)
def test_a_type_goes_in_words(dtype: str, width: int, pool: CompilePool) -> None:
    nbytes = {"int8": 1, "float16": 2, "float32": 4, "float64": 8, "complex128": 16}[dtype]
    words = width * nbytes // 4
    assert forms(right(of_type(dtype, width), pool).ptx) == {f"st 32x32b x{words}", f"ld 32x32b x{words}"}


@pytest.mark.parametrize(("dtype", "width"), [("int8", 1), ("int8", 2), ("float16", 1), ("float32", 256)])
def test_less_than_a_word_and_more_than_128_are_refused(dtype: str, width: int) -> None:
    with pytest.raises(IllegalSchedule, match=r"multiple of 4|power of two from 4 to 512"):
        generate_explicit(of_type(dtype, width))


@pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in CASES if c["family"] == "tmem_invalid"])
def test_what_the_tutorial_refuses_has_no_kernel(case: dict[str, Any]) -> None:
    with pytest.raises(IllegalSchedule):
        generate_explicit(case)
