"""The lowering's rules on products by tensor cores: the nearest legal and the nearest illegal schedule of each."""

from dataclasses import replace
from functools import reduce
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.explicit.generate import lowered_form
from compiler.ir.fusion import Fusion
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from compiler.schedule.apply import apply
from compiler.schedule.replay import replay_document
from compiler.schedule.trace import ScheduleTrace
from search.space.schedulers.warp_product import WarpProduct
from tests.compiler.explicit.chained import rows_held
from tests.compiler.legality.cases import Case, breaches, nearest
from tests.compiler.products import TF32, Groups, Warps, by_cp_async, by_warp_groups, by_warps, product
from tests.compiler.schedules import P, from_wire

GROUPS, WARPS = Groups(), Warps()
THREE_GROUPS = Groups(rows=192, groups=3, registers=(32, 160))
TV = "v1_matmul"
ROWS, COLUMNS = "w0", "w1"


def ready(trace: ScheduleTrace, arch: str = "sm_90a") -> Schedule:
    return Schedule(trace.replay(), arch_named(arch))


def groups(*changed: st.Step, of: Fusion | None = None, how: Groups = GROUPS, arch: str = "sm_90a") -> Schedule:
    return ready(by_warp_groups(of or product(128, 128, 128), how, changed), arch)


def warps(*changed: st.Step, of: Fusion | None = None, how: Warps = WARPS, arch: str = "sm_90a") -> Schedule:
    return ready(by_warps(of or product(64, 64, 128), how, changed), arch)


def of_bytes(columns: int, right: str = "k", dtype: str = "i8") -> Schedule:
    """8-bit elements in tiles of so many columns."""
    out = "i32" if dtype == "i8" else "f32"
    return groups(of=product(128, columns, 256, dtype, out, right=right), how=Groups(columns=columns, k=128))


def of_f32(dtype: str, right: str = "k") -> Schedule:
    """f32, of which tf32 is multiplied or all."""
    return groups(of=product(128, 128, 64, dtype, "f32", right=right), how=Groups(k=32))


def of_exponentials(k: int) -> Schedule:
    """exp(x) @ w: of the zeros past the end of x it makes ones."""
    inputs = [{"name": name, "shape": [64, k], "dtype": "bf16"} for name in ("x", "w")]
    ops: list[dict[str, Any]] = [
        {"op": "exp", "in": ["x"], "out": "e"},
        {"op": "permute", "in": ["w"], "out": "t", "dims": [1, 0]},
        {"op": "matmul", "in": ["e", "t"], "out": "y", "dtype": "f32"},
    ]
    return ready(WarpProduct().trace(from_wire(inputs, ops, "y"), BY_WARPS))


def of_held_rows(*changed: st.Step, columns_held: bool = False) -> Schedule:
    """A warp group that loads fragments of its rows, or of the columns, itself."""
    document = rows_held("bfloat16", 2, "float32", columns_held=columns_held)
    sf = reduce(apply, changed, replay_document(document).sf)
    return lowered_form(sf, arch_named("sm_90a"))


BY_WARPS = {
    "load": "tma", "tile_rows": 64, "tile_columns": 64, "stages": 2, "raster": "rows", "raster_group": 1,
    "warps_down": 2, "warps_across": 2, "math": "exact",
}  # fmt: skip

CASES = (
    Case(
        "rows and columns of a register",
        lambda: groups(st.Reorder(TV, ())),
        lambda: groups(st.Parallelize(TV, 7, P.UNROLL)),
        (
            (
                "mma_axes_are_those_of_an_instruction",
                f"{TV}: wgmma",
                "(mma6 * 4 + k2 * 2 + mma8) in registers",
                "whole groups of 128 threads along x, and columns / 8, 2 rows, 2 columns on Mma",
            ),
        ),
    ),
    Case(
        "columns of a warp group",
        of_held_rows,
        lambda: of_held_rows(columns_held=True),
        (
            (
                "mma_columns_of_groups_lie_in_shared_memory",
                "sums reads w_s",
                "columns in registers",
                "rows in registers, columns in shared memory",
            ),
            (
                "mma_operands_lie_as_a_descriptor_says",
                "sums reads x_r",
                "(k6 * 1024 + (tx / 4) * 32 + ((mma6 / 2) % 4) * 8 + (mma6 / 8) * 4 + mma4 * 2 + (mma6 % 2))",
                "lines of 128, 64 or 32 bytes, swizzled, or of 16",
            ),
        ),
    ),
    Case(
        "rows that registers hold while groups are under way",
        of_held_rows,
        lambda: of_held_rows(st.ProductsInFlight("sums", 1)),
        tuple(
            (
                "products_in_flight_leave_stages_to_fill",
                f"sums reads {name}",
                "1 groups under way, 1 stages",
                "2 stages that warps of their own fill",
            )
            for name in ("x_r", "w_s")
        ),
    ),
    Case(
        "columns of integers",
        lambda: of_bytes(48),
        lambda: of_bytes(40),
        (
            (
                "mma_shape_exists",
                "v1_matmul",
                "wgmma m64n40k32 i8 -> i32",
                "m64n(8..256)k32B or m16n8k32B of f16, bf16, f8, tf32, or i8 -> i32",
            ),
        ),
    ),
    Case(
        "f32 that a fusion allows tf32 for",
        lambda: of_f32(TF32),
        lambda: of_f32("f32"),
        (
            (
                "mma_shape_exists",
                "v1_matmul",
                "wgmma m64n128k8 f32 -> f32",
                "m64n(8..256)k32B or m16n8k32B of f16, bf16, f8, tf32, or i8 -> i32",
            ),
        ),
    ),
    Case(
        "tf32 that lies the other way",
        lambda: of_f32(TF32),
        lambda: of_f32(TF32, "mn"),
        (
            (
                "mma_transposed_operand_is_of_16_bits",
                f"v0_matmul_tf32 reads {COLUMNS}",
                "f32, k apart",
                "k side by side",
            ),
        ),
    ),
    Case(
        "architecture of warp groups",
        lambda: groups(),
        lambda: groups(arch="sm_100a"),
        (
            (
                "mma_target_has_the_unit",
                TV,
                "wgmma m64n128k16 bf16 -> f32 on sm_100a",
                "sm_90a for wgmma, sm_80 and up for mma",
            ),
        ),
    ),
    Case(
        "lines of a descriptor",
        lambda: groups(),
        lambda: groups(st.SetAllocationDomain(ROWS, (0, 1, 2, 3, 4, 5))),
        (
            (
                "mma_operands_lie_as_a_descriptor_says",
                f"{TV} reads {ROWS}",
                "(ty * 4096 + (tx / 32) * 1024 + mma7 * 512 + ((tx / 4) % 8) * 64 + k1 * 16 + mma9)",
                "lines of 128, 64 or 32 bytes, swizzled, or of 16",
            ),
        ),
    ),
    Case(
        "rows of bytes side by side",
        lambda: of_bytes(128, dtype="f8e4m3"),
        lambda: of_bytes(128, "mn", dtype="f8e4m3"),
        (("mma_transposed_operand_is_of_16_bits", f"v0_matmul reads {COLUMNS}", "f8e4m3, k apart", "k side by side"),),
    ),
    Case(
        "registers of a fragment",
        lambda: warps(),
        lambda: warps(how=Warps(rows_first=True)),
        (
            (
                "mma_operands_are_fragments",
                f"{TV} reads left",
                "element (k4 * 8 + mma8 * 4 + (mma10 / 8) * 2 + (mma10 % 2)) of a lane",
                "8 rows and 4 pieces of k on TIDx; 2 pieces of k, 2 rows, 4 bytes of k in registers",
            ),
        ),
    ),
    Case(
        "accumulators of one group",
        lambda: groups(of=product(128, 208, 128), how=Groups(groups=1, columns=208)),
        lambda: groups(of=product(128, 224, 128), how=Groups(groups=1, columns=224)),
        (("accumulators_fit_the_registers", TV, "224 registers of a thread", "at most 223"),),
    ),
    Case(
        "an instruction's result where three groups begin with 128 registers a thread",
        lambda: groups(of=product(192, 192, 128), how=replace(THREE_GROUPS, columns=192)),
        lambda: groups(of=product(192, 208, 128), how=replace(THREE_GROUPS, columns=208)),
        (
            (
                "mma_results_fit_the_registers_at_launch",
                f"{TV}: wgmma m64n208k16 bf16 -> f32",
                "104 registers of a thread",
                "at most 102 of 128",
            ),
        ),
    ),
    Case(
        "stages of groups under way",
        lambda: groups(st.ProductsInFlight(TV, 2)),
        lambda: groups(st.ProductsInFlight(TV, 3)),
        tuple(
            (
                "products_in_flight_leave_stages_to_fill",
                f"{TV} reads {name}",
                "3 groups under way, 3 stages",
                "4 stages that warps of their own fill",
            )
            for name in (ROWS, COLUMNS)
        ),
    ),
    Case(
        "the end of what is summed along",
        lambda: of_exponentials(128),
        lambda: of_exponentials(136),
        (
            (
                "summed_tails_are_zero",
                "v2_matmul reads w1",
                "(k0 * 64 + k1 * 16 + mma10) from 136 on",
                "whole tiles, or zeros that arrive in place of what there is not",
            ),
        ),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)


@pytest.mark.parametrize("k", [64, 72, 136])
def test_the_copy_engine_fills_the_end_of_what_is_summed_along(k: int) -> None:
    assert breaches(groups(of=product(128, 128, k))) == ()
    assert breaches(warps(of=product(64, 64, k))) == ()


@pytest.mark.parametrize(
    ("arch", "dtype", "is_legal"), [("sm_80", "bf16", True), ("sm_80", "f8e4m3", False), ("sm_120a", "f8e4m3", True)]
)
def test_mma_of_warps_is_of_most_architectures(arch: str, dtype: str, is_legal: bool) -> None:
    trace = by_cp_async(product(64, 64, 256, dtype, "f32"), Warps(k=64 if dtype == "bf16" else 128))
    assert ("mma_target_has_the_unit" in {v[0] for v in breaches(ready(trace, arch))}) != is_legal
