"""What a kernel declares: parameters, launch, shared memory, registers, index width."""

from __future__ import annotations

import pytest

from compiler.analysis.facts import Facts
from compiler.dtypes import DType
from compiler.ir.tensor import CopyVia
from compiler.lower.kernel_ir import BulkLoad, BulkStore, Declare, If, Kernel, Loop, Stmt
from compiler.lower.lower import lower
from compiler.lower.operands import TensorMap
from compiler.lower.sync_ir import AddBytes, ExpectBytes
from compiler.lower.traversal import expressions, walk
from compiler.schedule import steps as st
from tests.compiler.lower.kernels import MADE, lowered, staged
from tests.compiler.schedules import by_threads, load_by_tma, schedule, store_by_tma, unary


def kernel(name: str) -> Kernel:
    return MADE[name]()[1]


def test_threads_need_pointers_and_the_copy_engine_needs_maps() -> None:
    assert [(p.name, p.position, p.written) for p in kernel("threads").pointers] == [("i0", 0, False), ("v0", 1, True)]
    assert [(p.name, p.position) for p in kernel("box").pointers] == [("v0", 1)]
    assert [(m.name, m.position) for m in kernel("box").tensor_maps] == [("map_s", 0)]
    assert [(m.name, m.position) for m in kernel("ring and stores").tensor_maps] == [("map_s", 0), ("map_v0", 1)]
    assert kernel("ring and stores").pointers == ()


def test_a_map_is_innermost_first_with_strides_in_bytes() -> None:
    _, k = lowered(unary((6, 40), dtype=DType.BF16, strides=(48, 1)), load_by_tma(4, 16))
    assert k.tensor_maps == (TensorMap("map_s", DType.BF16, 0, (40, 6), (96,), (16, 4), (1, 1), 0),)


def test_one_dimensional_bulk_copies_need_a_pointer_and_no_map() -> None:
    fusion = unary((64,))
    _, load = lowered(fusion, load_by_tma(16, via=CopyVia.BULK1D))
    _, store = lowered(fusion, store_by_tma(16, via=CopyVia.BULK1D))
    assert [p.name for p in load.pointers] == [p.name for p in store.pointers] == ["i0", "v0"]
    assert [s.nbytes for s in walk(load.body) if isinstance(s, BulkLoad)] == [64]
    assert [s.nbytes for s in walk(store.body) if isinstance(s, BulkStore)] == [64]


def test_a_bulk_copy_under_a_bound_is_guarded_and_announces_its_own_bytes() -> None:
    """16 divides 64, but three blocks of two iterations cover six tiles of which there are four."""
    steps = [
        *(s for s in staged(16, 3) if not isinstance(s, st.CacheInput)),
    ]
    caches = [
        st.CacheInput("i0", "s", s.memory, CopyVia.BULK1D) if s.out == "s" else s
        for s in staged(16, 3)
        if isinstance(s, st.CacheInput)
    ]
    legal = schedule(unary((64,)), [*caches, *steps])
    uncounted = schedule(unary((64,)), [*caches, *[s for s in steps if s != st.InlineAt("s", 2)], st.InlineAt("s", 1)])
    statements = list(walk(lower(uncounted.sf).body))
    guarded = [s.then for s in statements if isinstance(s, If) and any(isinstance(t, BulkLoad) for t in s.then)]
    assert [[type(t) for t in then] for then in guarded] == [[AddBytes, BulkLoad]]
    assert [s.nbytes for s in statements if isinstance(s, ExpectBytes)] == [0]
    assert not any(isinstance(s, AddBytes) for s in walk(lower(legal.sf).body))


def test_launch_and_shared_memory_are_the_schedule_s() -> None:
    k = kernel("ring of 3")
    assert (k.grid, k.block, k.threads) == ((3, 1, 1), (8, 1, 1), 8)
    assert (k.smem_bytes, k.smem_align) == (3 * 128 + 3 * 8, 128)
    assert kernel("threads").smem_bytes == 0
    _, capped = lowered(unary((1003,)), [*by_threads(threads=32), st.CapRegisters(64)])
    assert (capped.max_registers, kernel("threads").max_registers) == (64, None)


@pytest.mark.parametrize(
    ("elems", "bits"), [(1 << 31, 32), ((1 << 31) + 1, 64)], ids=["the last 32-bit offset", "the first of 64 bits"]
)
def test_indices_are_as_wide_as_the_largest_offset(elems: int, bits: int) -> None:
    s = schedule(unary((elems,), dtype=DType.BF16), by_threads(threads=1024, vector=1))
    k = lower(s.sf)
    assert k.index_bits == bits
    assert (max(e.hi for e in expressions(k.body)) < 1 << 31) == (bits == 32)


def declared(body: tuple[Stmt, ...], depth: int = 0) -> dict[str, int]:
    """Tensor -> how many loops are around its declaration."""
    found = {s.name: depth for s in body if isinstance(s, Declare)}
    for s in body:
        if isinstance(s, Loop):
            found |= declared(s.body, depth + 1)
    return found


def test_registers_are_declared_in_the_body_that_they_live_in() -> None:
    """r is loaded whole, in a loop of its own, before v0's loop reads it; inlined, it is one vector of that loop."""
    _, outside = MADE["registers"]()
    assert declared(outside.body) == {"r": 0}
    assert [s.elems for s in walk(outside.body) if isinstance(s, Declare)] == [8]
    s, k = MADE["ring of 3"]()
    (tile,) = (loop for loop in k.body if isinstance(loop, Loop))
    assert {d.name for d in walk(tile.body) if isinstance(d, Declare)} == {"r"}
    assert not any(isinstance(x, Declare) for x in k.body)
    assert lower(s.sf) == k


def test_lowering_is_a_function_of_the_scheduled_fusion() -> None:
    for name, make in MADE.items():
        s, k = make()
        assert lower(Facts(s.sf).sf) == k, name
