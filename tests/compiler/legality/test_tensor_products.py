"""The lowering's rules on products in tensor memory: the nearest legal and the nearest illegal schedule of each."""

from __future__ import annotations

from dataclasses import replace

from compiler.arch import arch_named
from compiler.ir.fusion import Fusion
from compiler.ir.tensor import BufferKind
from compiler.legality.rules import Schedule
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, nearest
from tests.compiler.products import gated, product
from tests.compiler.schedules import P
from tests.compiler.tensor_products import Ask, by_one_thread
from tests.search.schedulers import test_tensor_product

TV, ROWS, COLUMNS = "v1_matmul", "w0", "w1"


def asked(*changed: st.Step, of: Fusion | None = None, how: Ask | None = None, arch: str = "sm_100a") -> Schedule:
    trace = by_one_thread(of or product(128, 64, 128), how or Ask(), changed)
    return Schedule(trace.replay(), arch_named(arch))


def of_bytes(columns: int, rows: int = 128, right: str = "k", dtype: str = "i8") -> Schedule:
    out = "i32" if dtype == "i8" else "f32"
    return asked(of=product(rows, columns, 256, dtype, out, right=right), how=Ask(rows, columns, 128, words=4))


def of_two(*, is_last_alone: bool = False) -> Schedule:
    """Two products of one operand, both under way at once; the last one by itself, if asked for."""
    trace = test_tensor_product.SCHEDULER.trace(gated(), test_tensor_product.BY_ONE)
    last = max(n for n, step in enumerate(trace.steps) if isinstance(step, st.ProductsInFlight))
    kept = tuple(step for n, step in enumerate(trace.steps) if n != last or not is_last_alone)
    return Schedule(replace(trace, steps=kept).replay(), test_tensor_product.ARCH)


def of_integers(arch: str) -> Schedule:
    fusion = product(128, 64, 256, "i8", "i32")
    return asked(of=fusion, how=Ask(k=128), arch=arch)


CASES = (
    Case(
        "columns of 128 rows",
        lambda: asked(of=product(128, 48, 128), how=Ask(columns=48)),
        lambda: asked(of=product(128, 40, 128), how=Ask(columns=40, words=8)),
        (
            (
                "mma_shape_exists",
                TV,
                "tcgen05 m128n40k16 bf16 -> f32",
                "m128n(16, 32..256)k32B or m64n(8, 16..256)k32B of f16, bf16, f8, tf32, or i8 -> i32",
            ),
        ),
    ),
    Case(
        "columns of integers",
        lambda: of_bytes(24, 64),
        lambda: of_bytes(40, 64),
        (
            (
                "mma_shape_exists",
                TV,
                "tcgen05 m64n40k32 i8 -> i32",
                "m128n(16, 32..256)k32B or m64n(8, 16..256)k32B of f16, bf16, f8, tf32, or i8 -> i32",
            ),
        ),
    ),
    Case(
        "architecture",
        lambda: of_integers("sm_100a"),
        lambda: of_integers("sm_103a"),
        (
            (
                "mma_target_has_the_unit",
                TV,
                "tcgen05 m128n64k32 i8 -> i32 on sm_103a",
                "sm_100a for tcgen05",
            ),
        ),
    ),
    Case(
        "lanes",
        lambda: asked(how=Ask(rows=64)),
        lambda: asked(st.SetAllocationDomain(TV, (0, 3, 4, 1, 2, 5)), st.TmemDimsep(TV, 2), how=Ask(rows=64)),
        (
            (
                "tmem_warps_stay_in_their_subpartition",
                f"y_l: access to {TV}",
                "[-48, -32, -16] lanes off",
                "lanes 32 * (warp mod 4) to + 31",
            ),
            (
                "mma_axes_are_those_of_an_instruction",
                f"{TV}: tcgen05",
                "lane mma3, column mma4",
                "rows on Mma left of the separator, 64 of them as [4, 16] with strides [32, 1], columns right of it",
            ),
        ),
    ),
    Case(
        "columns of tensor memory",
        lambda: asked(of=product(512, 256, 64), how=Ask(columns=256, blocks=1, accumulators=2)),
        lambda: asked(of=product(512, 256, 64), how=Ask(columns=256, blocks=1, accumulators=3)),
        (("tmem_columns_fit", f"{TV}: columns", 768, 512),),
    ),
    Case(
        "a ring of its own",
        lambda: asked(),
        lambda: asked(*(st.CircularBuffer(name, 3, 2, kind=BufferKind.PIPELINED) for name in (ROWS, COLUMNS))),
        tuple(
            (
                "tensor_products_read_what_a_warp_brings",
                f"{TV}: {name}",
                "no ring that warps of their own fill",
                "a warp-specialised ring of its own, inside the loops around the product",
            )
            for name in (ROWS, COLUMNS)
        ),
    ),
    Case(
        "a block's own operands",
        lambda: asked(of=product(256, 64, 128), how=Ask(cluster=2)),
        lambda: asked(st.Multicast(COLUMNS), of=product(256, 64, 128), how=Ask(cluster=2)),
        (
            (
                "tensor_products_are_multiplied_in_one_block",
                f"{COLUMNS}: multicast",
                "one copy for several blocks",
                "a copy for each block",
            ),
        ),
    ),
    Case(
        "one thread",
        lambda: asked(),
        lambda: asked(st.Parallelize(TV, 2, P.TIDY)),
        (
            (
                "tmem_warps_stay_in_their_subpartition",
                f"y_l: access to {TV}",
                "[-96, -64, -32, 32] lanes off",
                "lanes 32 * (warp mod 4) to + 31",
            ),
            (
                "shared_memory_fits_the_block",
                "shared memory",
                16851060,
                arch_named("sm_100a").smem_per_block_optin_bytes,
            ),
            ("tensor_products_are_asked_for_by_one_thread", f"{TV}: TIDy", "4 on TIDy", "Mma, blocks, or a loop"),
        ),
    ),
    Case(
        "places of two that share an operand",
        lambda: of_two(),
        lambda: of_two(is_last_alone=True),
        (
            (
                "tensor_products_together_have_places_alike",
                "v1_matmul, v4_matmul",
                "0 under way inside 2 loops, 1 under way inside 2 loops",
                "the same for all",
            ),
        ),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)
