"""What else binds products: limits of tiles, rings, registers and clusters, each with the nearest that is in and out.

Rules on instructions alone are in test_mma.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.arch import arch_named
from compiler.errors import CompilerError, InvalidStep, Unsupported
from compiler.legality.rules import Schedule
from compiler.pipeline import generate
from compiler.schedule import steps as st
from tests.compiler.legality.cases import breaches
from tests.compiler.legality.test_mma import COLUMNS, ROWS, TV, groups
from tests.compiler.products import Groups, by_warp_groups, product

Made = Callable[[], Schedule]

SMEM = arch_named("sm_90a").smem_per_block_optin_bytes
STAGE_BYTES = (128 + 256) * 64 * 2 + 2 * 2 * 8
"""Of rows, of columns, and of two mbarriers for each of these operands."""


def tile(sizes: tuple[int, int, int], how: Groups) -> Made:
    """A product of these rows, columns and sums, in tiles."""
    return lambda: groups(of=product(*sizes), how=how)


def broadcast(name: str) -> Made:
    """Two blocks along the rows, to which one copy brings the operand `name`."""
    how = Groups(cluster=2, multicast=False)
    return lambda: groups(st.Multicast(name), of=product(256, 128, 192), how=how)


@pytest.mark.parametrize(
    ("legal", "illegal", "rule", "numbers"),
    [
        pytest.param(
            tile((128, 256, 128), Groups(columns=256)),
            tile((128, 264, 128), Groups(columns=264)),
            "mma_shape_exists",
            ("wgmma m64n264k16 bf16 -> f32", "m64n(8..256)k32B or m16n8k32B of f16, bf16, f8, tf32, or i8 -> i32"),
            id="columns of an instruction",
        ),
        pytest.param(
            tile((128, 128, 144), Groups()),
            tile((128, 128, 144), Groups(k=72)),
            "mma_operands_lie_as_a_descriptor_says",
            ("", "lines of 128, 64 or 32 bytes, swizzled, or of 16"),
            id="whole instructions along k",
        ),
        pytest.param(
            tile((128, 128, 128), Groups(rows=64, groups=1)),
            tile((192, 128, 128), Groups(rows=96, groups=1)),
            "mma_operands_lie_as_a_descriptor_says",
            ("", "lines of 128, 64 or 32 bytes, swizzled, or of 16"),
            id="whole groups of 64 rows",
        ),
        pytest.param(
            tile((128, 256, 512), Groups(columns=256, stages=SMEM // STAGE_BYTES)),
            tile((128, 256, 512), Groups(columns=256, stages=SMEM // STAGE_BYTES + 1)),
            "shared_memory_fits_the_block",
            (str((SMEM // STAGE_BYTES + 1) * STAGE_BYTES), str(SMEM)),
            id="stages of a ring",
        ),
        pytest.param(
            tile((128, 128, 72), Groups()),
            tile((128, 128, 68), Groups()),
            "tensor_map_strides_are_multiples_of_16_bytes",
            ("136 bytes", "a multiple of 16"),
            id="pitch of rows",
        ),
        pytest.param(
            broadcast(COLUMNS),
            broadcast(ROWS),
            "multicast_tiles_are_the_same_in_all_blocks",
            ("iw0.10{2}", "a broadcast axis of 2 on Cluster"),
            id="multicast of what varies",
        ),
        pytest.param(
            lambda: groups(of=product(128, 128, 256)),
            lambda: groups(st.CircularBuffer(ROWS, 3, -1), of=product(128, 128, 256)),
            "buffers_of_one_loop_agree",
            ("3 stages, prefetch 2, warp_specialized, TIDy", "3 stages, prefetch 2, pipelined"),
            id="both operands by one kind of ring",
        ),
        pytest.param(
            lambda: groups(st.ProductsInFlight(TV, 1), how=Groups(stages=2)),
            lambda: groups(st.ProductsInFlight(TV, 2), how=Groups(stages=2)),
            "products_in_flight_leave_stages_to_fill",
            ("2 groups under way, 2 stages", "3 stages that warps of their own fill"),
            id="a ring of two stages",
        ),
    ],
)
def test_nearest_in_and_nearest_out(legal: Made, illegal: Made, rule: str, numbers: tuple[str, str]) -> None:
    assert breaches(legal()) == ()
    found = [b for b in breaches(illegal()) if b[0] == rule]
    assert found
    for _, _, was, limit in found:
        assert (numbers[0] in str(was), str(limit)) == (True, numbers[1])


@pytest.mark.parametrize(
    ("registers", "error"),
    [
        ((24, 240), None),
        ((16, 240), InvalidStep),
        ((36, 232), InvalidStep),
        ((24, 264), InvalidStep),
        ((240, 232), InvalidStep),
        ((32, 240), Unsupported),
    ],
    ids=str,
)
def test_registers_of_the_parts_of_a_block(registers: tuple[int, int], error: type[CompilerError] | None) -> None:
    """Multiples of 8 from 24 to 256 (PTX ISA, setmaxnreg), of 384 threads together no more than there are."""
    how = Groups(registers=registers)
    if error is None:
        generate(by_warp_groups(product(128, 128, 128), how), arch_named("sm_90a"))
        return
    with pytest.raises(error, match="registers"):
        generate(by_warp_groups(product(128, 128, 128), how), arch_named("sm_90a"))
