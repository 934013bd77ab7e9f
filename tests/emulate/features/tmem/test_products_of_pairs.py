"""tcgen05.mma of two blocks: rows of A and columns of B from either, D in both."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.emulate.launch import Completion
from tests.emulate.features.mma.values import ENCODE, small
from tests.emulate.features.small_kernels import EVERY_ORDER, registers, run, store_row
from tests.emulate.features.tmem.test_products import AFTER, FENCES, FILL, INIT, TILE, WAIT, descriptor, idesc
from tests.emulate.features.wgmma.images import Image

Array = npt.NDArray[Any]

CLUSTER = "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n"
ALLOC = """
  mov.u32 %r4, where;
  @%p1 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r4], 32;
  bar.sync 0;
  ld.shared.u32 %r5, [where];
  and.b32 %r6, %r2, 3;
  shl.b32 %r6, %r6, 21;
  add.u32 %r6, %r5, %r6;
"""
FREE = CLUSTER + "  @%p1 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r5, 32;\n"
COMMIT = (
    "  mov.u16 %h1, 3;\n  @%p3 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
    ".multicast::cluster.b64 [%r12], %h1;\n"
)


def place(row: int, column: int, rows: int, columns: int) -> tuple[int, int, int]:
    """Block, lane and column of an element of D (PTX ISA, "Layout A" and "Layout B")."""
    if rows == 256:
        return row // 128, row % 128, column
    half = columns // 2
    return row // 64, row % 64 + 64 * (column // half), column % half


@pytest.mark.parametrize(("completion", "seed"), EVERY_ORDER)
@pytest.mark.parametrize("rows", [128, 256])
def test_a_product_of_two_blocks(rows: int, completion: Completion, seed: int) -> None:
    columns, rng = 32, np.random.default_rng(rows)
    a, b = small("bf16", (rows, 16), rng), small("bf16", (columns, 16), rng)
    image = np.zeros((2, TILE), np.uint8)
    for block in range(2):
        left = Image(ENCODE["bf16"](a[block * rows // 2 :][: rows // 2]), mode="32B")
        right = Image(ENCODE["bf16"](b[block * columns // 2 :][: columns // 2]), mode="32B", offset=8192)
        image[block, : left.data.size] = left.data
        image[block, 8192 : 8192 + right.data.size] = right.data
    taken = columns if rows == 256 else columns // 2
    body = (
        "  .reg .b16 %h<4>;\n  mul.wide.u32 %rd9, %r8, 16384;\n  add.u64 %rd1, %rd1, %rd9;\n"
        + f"  mul.wide.u32 %rd9, %r8, {128 * taken * 4};\n  add.u64 %rd2, %rd2, %rd9;\n"
        + INIT
        + ALLOC
        + FILL
        + FENCES
        + CLUSTER
        + AFTER
        + "  or.b32 %r30, %r1, %r8;\n  setp.eq.u32 %p3, %r30, 0;\n"
        + f"  mov.u32 %r16, {idesc(('f32', 'bf16', 'bf16'), rows, columns):#x};\n"
        + descriptor(left, 0)
        + descriptor(right, 0)
        + "  @%p3 tcgen05.mma.cta_group::2.kind::f16 [%r5], %rd20, %rd21, %r16, 0;\n"
        + COMMIT
        + WAIT
        + AFTER
        + f"  tcgen05.ld.sync.aligned.32x32b.x{taken}.b32 {registers(taken)}, [%r6];\n"
        + "  tcgen05.wait::ld.sync.aligned;\n"
        + store_row(taken)
        + "\n"
        + FREE
    )
    ran = run(body, image, 2 * 128 * taken, blocks=2, cluster=2, completion=completion, seed=seed)
    assert ran.faults == [], ran.outcome.faults
    found = ran.y.view(np.float32).reshape(2, 128, taken)
    expected = a @ b.T
    for row in range(rows):
        for column in range(columns):
            assert found[place(row, column, rows, columns)] == expected[row, column]
