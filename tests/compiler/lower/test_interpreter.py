"""The machine of the interpreter, rule by rule: a few statements that keep to them, and the nearest that do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.fusion import Fusion, Literal, Op, Value
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import CachePolicy
from compiler.lower.kernel_ir import (
    BulkLoad,
    BulkStore,
    Compute,
    Convert,
    Declare,
    Elected,
    GlobalLoad,
    GlobalStore,
    If,
    Kernel,
    Loop,
    SharedLoad,
    SharedStore,
    Stmt,
    TmaLoad,
    TmaStore,
)
from compiler.lower.operands import Barrier, Less, Pointer, Reg, Shared, TensorMap
from compiler.lower.sync_ir import CommitStores, ExpectBytes, FenceAsync, InitBarriers, Sync, WaitBarrier, WaitStores
from compiler.reference import round_to
from tests.compiler.lower.interpreted_global import swizzled
from tests.compiler.lower.interpreted_values import Array, KernelFault, decoded, encoded
from tests.compiler.lower.interpreter import run

THREADS = 32
SMEM_BYTES = 1024
BARRIERS = 512
TX = var(Var("tx", THREADS))
K = Var("k0", 4)
A, B, H = Reg("a", DType.F32, const(0)), Reg("b", DType.F32, const(0)), Reg("h", DType.BF16, const(0))
REGISTERS = (Declare("a", DType.F32, 4), Declare("b", DType.F32, 1), Declare("h", DType.BF16, 1))
WRITTEN: tuple[Stmt, ...] = tuple(Compute(OpKind.EXP, r, (Literal(0.0),), MathGrade.EXACT) for r in (A, B, H))


def launch(*body: Stmt, elems: int = 64, maps: Sequence[TensorMap] = ()) -> Array:
    """One block of 32 threads; i0 holds 1, 2, .. and v0 is the output, both of `elems` f32. Returns v0."""
    i0, v0 = (Value(name, (elems,), DType.F32, (1,)) for name in ("i0", "v0"))
    fusion = Fusion((i0, v0), ("i0",), (Op(OpKind.COPY, ("i0",), "v0"),), ("v0",), "f", "b")
    kernel = Kernel(
        pointers=(Pointer("i0", DType.F32, 0, False), Pointer("v0", DType.F32, 1, True)),
        tensor_maps=tuple(maps),
        grid=(1, 1, 1),
        block=(THREADS, 1, 1),
        smem_bytes=SMEM_BYTES,
        smem_align=128,
        max_registers=None,
        index_bits=32,
        body=(*REGISTERS, *body),
    )
    inputs = np.arange(1, elems + 1, dtype=np.float32).view(np.uint32)
    (out,) = run(kernel, fusion, [inputs])
    return out.copy().view(np.float32)


def get(at: Expr, width: int = 1, tensor: str = "i0", target: Reg = A) -> GlobalLoad:
    return GlobalLoad(target, tensor, at, width, CachePolicy.DEFAULT)


def put(at: Expr, width: int = 1, tensor: str = "v0", source: Reg = A) -> GlobalStore:
    return GlobalStore(source, tensor, at, width, CachePolicy.DEFAULT)


def shared(at: Expr | int) -> Shared:
    return Shared("s", DType.F32, at if isinstance(at, Expr) else const(at))


def barrier(number: int = 0) -> Barrier:
    return Barrier(const(BARRIERS + 8 * number))


def elect(*body: Stmt) -> Elected:
    return Elected(body)


WRITE, READ = SharedStore(A, shared(TX * 4), 1), SharedLoad(A, shared(TX * 4), 1)
READ_NEXT = SharedLoad(A, shared(((TX + 1) % THREADS) * 4), 1)
INIT = InitBarriers(BARRIERS, 2, ())
SETUP: tuple[Stmt, ...] = (INIT, Sync())
EXPECT = ExpectBytes(barrier(), 128)
LOAD = BulkLoad(shared(0), "i0", const(0), barrier(), 128)
WAIT = WaitBarrier(barrier(), const(0))
STORE = BulkStore(shared(0), "v0", const(0), 128)
DONE = elect(WaitStores())
ISSUE, KEEP = elect(EXPECT, LOAD), elect(STORE, CommitStores())
REFILL = elect(FenceAsync(), EXPECT, LOAD)

FILL: tuple[Stmt, ...] = (*WRITTEN, WRITE)
OWN_WORDS = SharedStore(A, shared(0), 4)
OWN_STORE = BulkStore(shared(0), "v0", const(0), 16)
FOUR: tuple[Stmt, ...] = tuple(
    Compute(OpKind.EXP, Reg("a", DType.F32, const(i)), (Literal(0.0),), MathGrade.EXACT) for i in range(4)
)
AGAIN = WaitBarrier(barrier(), const(1))

KEPT: dict[str, tuple[Stmt, ...]] = {
    "global": (get(TX), put(TX), put(TX + 32)),
    "global_vector": (get(TX % 8 * 4, 4), If((Less(TX, const(16)),), (put(TX * 4, 4),))),
    "loop": (*WRITTEN, Loop(K, const(2), False, (put(TX + var(K) * 32),))),
    "shared_of_its_own": (*FILL, READ),
    "shared_of_another": (*FILL, Sync(), READ_NEXT),
    "shared_again": (*FILL, Sync(), READ_NEXT, Sync(), WRITE),
    "load": (*SETUP, ISSUE, WAIT, READ_NEXT),
    "load_by_who_set_up": (INIT, ISSUE, Sync(), WAIT, READ_NEXT),
    "load_seen_by_one": (*SETUP, ISSUE, elect(WAIT), Sync(), READ_NEXT),
    "load_twice": (*SETUP, ISSUE, WAIT, READ_NEXT, Sync(), REFILL, AGAIN, READ_NEXT),
    "load_twice_past_the_readers_fence": (*SETUP, ISSUE, WAIT, READ_NEXT, FenceAsync(), Sync(), ISSUE, AGAIN, READ),
    "load_over_a_fenced_write": (*SETUP, *FILL, Sync(), REFILL, WAIT, READ),
    "store": (*FILL, FenceAsync(), Sync(), KEEP, DONE),
    "store_of_its_own": (*FOUR, elect(OWN_WORDS, FenceAsync(), OWN_STORE, CommitStores(), WaitStores())),
    "store_of_a_load": (*SETUP, ISSUE, WAIT, KEEP, DONE),
    "store_then_overwrite": (*FILL, FenceAsync(), Sync(), KEEP, DONE, Sync(), WRITE),
}

BROKEN: dict[str, tuple[str, tuple[Stmt, ...]]] = {
    "load_past_the_end": ("global_access_is_inside", (get(TX + 33),)),
    "store_past_the_end": ("global_access_is_inside", (get(TX), put(TX + 33))),
    "load_before_the_start": ("indices_are_not_negative", (get(TX - 1),)),
    "unaligned_vector": ("global_access_is_aligned", (get(TX + 2, 4),)),
    "vector_of_three": ("accesses_are_one_instruction", (get(TX * 0, 3),)),
    "store_to_an_input": ("inputs_are_not_written", (get(TX), put(TX, tensor="i0"))),
    "load_of_an_output": ("outputs_are_not_read", (get(TX, tensor="v0"),)),
    "parameter_of_another_type": ("parameters_are_passed", (get(TX, target=H),)),
    "unknown_parameter": ("parameters_are_passed", (get(TX, tensor="i1"),)),
    "two_threads_store": ("elements_are_stored_once", (get(TX), put(TX // 2))),
    "stored_twice": ("elements_are_stored_once", (get(TX), put(TX), put(TX))),
    "register_not_written": ("registers_are_written_before_read", (put(TX),)),
    "register_of_other_threads": (
        "registers_are_written_before_read",
        (If((Less(TX, const(16)),), (get(TX),)), put(TX)),
    ),
    "register_past_the_end": ("registers_are_inside", (get(TX, target=Reg("a", DType.F32, const(4))),)),
    "register_unknown": ("registers_are_declared", (get(TX, target=Reg("c", DType.F32, const(0))),)),
    "register_of_an_ended_body": (
        "registers_are_declared",
        (Loop(K, const(1), True, (Declare("c", DType.F32, 1),)), get(TX, target=Reg("c", DType.F32, const(0)))),
    ),
    "register_of_an_earlier_turn": (
        "registers_are_written_before_read",
        (Loop(K, const(2), True, (Declare("c", DType.BF16, 1), Convert(B, Reg("c", DType.BF16, const(0)), 1))),),
    ),
    "register_that_threads_choose": ("threads_agree", (get(TX, target=Reg("a", DType.F32, TX % 4)),)),
    "trip_that_threads_choose": ("threads_agree", (Loop(K, TX % 4, False, ()),)),
    "trip_past_the_extent": ("loops_stay_in_their_extent", (Loop(K, const(5), False, ()),)),
    "variable_of_an_ended_loop": ("variables_are_in_scope", (Loop(K, const(1), False, ()), get(var(K)))),
    "barrier_of_a_few": ("block_barriers_are_reached_by_all", (If((Less(TX, const(31)),), (Sync(),)),)),
    "read_of_nothing": ("shared_bytes_are_written_before_read", (READ,)),
    "read_without_barrier": ("barrier_between_write_and_read", (*FILL, READ_NEXT)),
    "overwrite_without_barrier": ("barrier_between_read_and_overwrite", (*FILL, Sync(), READ_NEXT, WRITE)),
    "write_after_write": ("barrier_between_two_writes", (*WRITTEN, SharedStore(A, shared(0), 1))),
    "shared_past_the_end": ("shared_access_is_inside", (*WRITTEN, SharedStore(A, shared(TX * 4 + SMEM_BYTES), 1))),
    "shared_unaligned": ("shared_access_is_aligned", (*WRITTEN, SharedStore(A, shared(TX * 4 + 2), 1))),
    "write_over_a_barrier": (
        "mbarriers_are_not_data",
        (*SETUP, *WRITTEN, SharedStore(A, shared(TX * 4 + BARRIERS), 1)),
    ),
    "barrier_not_initialised": ("mbarriers_are_initialised", (WAIT,)),
    "barrier_that_is_none": ("mbarriers_are_initialised", (*SETUP, WaitBarrier(barrier(2), const(0)))),
    "wait_before_setup_is_seen": ("mbarriers_are_initialised", (INIT, ISSUE, WAIT, READ_NEXT)),
    "parity_two": ("parities_are_bits", (*SETUP, ISSUE, WaitBarrier(barrier(), const(2)))),
    "wait_without_arrival": ("waits_come_to_an_end", (*SETUP, elect(LOAD), WAIT)),
    "wait_for_too_few_bytes": ("waits_come_to_an_end", (*SETUP, elect(ExpectBytes(barrier(), 112), LOAD), WAIT)),
    "wait_for_a_phase_too_many": ("waits_come_to_an_end", (*SETUP, ISSUE, WAIT, AGAIN)),
    "wait_for_another_parity": ("loads_are_waited_for", (*SETUP, ISSUE, AGAIN, READ)),
    "wait_of_one_thread": ("loads_are_waited_for", (*SETUP, ISSUE, elect(WAIT), READ_NEXT)),
    "load_not_waited_for": ("loads_are_waited_for", (*SETUP, ISSUE, READ)),
    "load_that_outlives_the_block": ("loads_are_waited_for", (*SETUP, ISSUE)),
    "load_over_a_load": ("loads_are_waited_for", (*SETUP, elect(EXPECT, LOAD, LOAD))),
    "load_over_a_read": ("barrier_between_read_and_overwrite", (*SETUP, ISSUE, WAIT, READ_NEXT, ISSUE)),
    "load_over_an_unfenced_read": (
        "fence_between_threads_and_bulk_copies",
        (*SETUP, ISSUE, WAIT, READ_NEXT, Sync(), ISSUE),
    ),
    "load_after_the_fence_of_one_reader": (
        "fence_between_threads_and_bulk_copies",
        (*SETUP, ISSUE, WAIT, READ_NEXT, elect(FenceAsync()), Sync(), ISSUE),
    ),
    "load_over_a_write": ("fence_between_threads_and_bulk_copies", (*SETUP, *FILL, Sync(), ISSUE)),
    "arrival_on_an_open_phase": ("phases_are_waited_for", (*SETUP, ISSUE, elect(ExpectBytes(barrier(), 128)))),
    "load_of_all_threads": ("bulk_copies_are_issued_once", (*SETUP, ISSUE, LOAD)),
    "load_of_8_bytes": ("bulk_copies_are_aligned", (*SETUP, elect(BulkLoad(shared(0), "i0", const(0), barrier(), 8)))),
    "load_to_byte_8": ("shared_access_is_aligned", (*SETUP, elect(BulkLoad(shared(8), "i0", const(0), barrier(), 16)))),
    "store_without_fence": ("fence_between_threads_and_bulk_copies", (*FILL, Sync(), KEEP)),
    "store_with_the_fence_of_one": (
        "fence_between_threads_and_bulk_copies",
        (*FILL, elect(FenceAsync()), Sync(), KEEP),
    ),
    "store_without_barrier": ("barrier_between_fence_and_bulk_store", (*FILL, FenceAsync(), KEEP)),
    "store_of_nothing": ("shared_bytes_are_written_before_read", (KEEP,)),
    "store_of_a_load_on_its_way": ("loads_are_waited_for", (*SETUP, ISSUE, KEEP)),
    "store_that_outlives_the_block": ("stores_are_waited_for", (*FILL, FenceAsync(), Sync(), KEEP)),
    "store_not_committed": ("stores_are_waited_for", (*FILL, FenceAsync(), Sync(), elect(STORE), DONE)),
    "overwrite_of_a_store": ("stores_are_waited_for", (*FILL, FenceAsync(), Sync(), KEEP, WRITE)),
    "overwrite_that_one_may": ("stores_are_waited_for", (*FILL, FenceAsync(), Sync(), KEEP, DONE, WRITE)),
    "endless": ("loops_come_to_an_end", (Loop(Var("k1", 1 << 30), const(1 << 30), False, (Sync(),)),)),
}


@pytest.mark.parametrize("name", KEPT)
def test_rules_are_kept(name: str) -> None:
    launch(*KEPT[name])


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named(name: str) -> None:
    rule, body = BROKEN[name]
    with pytest.raises(KernelFault) as fault:
        launch(*body)
    assert fault.value.rule == rule


# Tensor maps ---------------------------------------------------------------------------------------------------------


def through_maps(elems: int, box: int) -> Array:
    """v0 = i0 in tiles of `box` elements through shared memory, by tensor maps alone."""
    source, target = (TensorMap(f"map_{n}", DType.F32, n, (elems,), (), (box,), (1,), 0) for n in (0, 1))
    k, nbytes = var(K), 4 * box
    load = TmaLoad(shared(0), "map_0", (k * box,), barrier(), nbytes)
    tile = (
        elect(ExpectBytes(barrier(), nbytes), load),
        WaitBarrier(barrier(), k % 2),
        elect(TmaStore(shared(0), "map_1", (k * box,), nbytes), CommitStores(), WaitStores()),
    )
    turns = const(-(-elems // box))
    return launch(*SETUP, Loop(K, turns, False, tile), elems=elems, maps=(source, target))


@pytest.mark.parametrize("elems", [64, 60, 52])
def test_what_lies_past_a_map_is_dropped(elems: int) -> None:
    assert through_maps(elems, 16).tolist() == list(range(1, elems + 1))


@pytest.mark.parametrize("elems", [63, 61])
def test_a_store_writes_the_rest_of_16_bytes(elems: int) -> None:
    with pytest.raises(KernelFault) as fault:
        through_maps(elems, 16)
    assert fault.value.rule == "global_access_is_inside"


def test_what_lies_past_a_map_is_loaded_as_zeros() -> None:
    source = TensorMap("map_0", DType.F32, 0, (16, 3), (64,), (8, 4), (1, 1), 0)
    load = TmaLoad(shared(0), "map_0", (const(8), const(1)), barrier(), 128)
    out = launch(*SETUP, elect(EXPECT, load), WAIT, READ, put(TX), put(TX + 32), maps=(source,))
    assert out[:32].reshape(4, 8).tolist() == [[*range(25, 33)], [*range(41, 49)], [0.0] * 8, [0.0] * 8]


@pytest.mark.parametrize(
    ("span", "address", "goes_to"),
    [
        # CUDA guide, "TMA swizzle": chunk of 16 bytes xor line of 128 bytes; line r of the 128-byte mode starts at r.
        pytest.param(128, 128, 128 + 16, id="128-line-1"),
        pytest.param(128, 7 * 128 + 7 * 16, 7 * 128, id="128-line-7"),
        pytest.param(128, 8 * 128 + 20, 8 * 128 + 20, id="128-repeats-after-8-lines"),
        pytest.param(64, 128, 128 + 16, id="64-line-1"),
        pytest.param(64, 4 * 128, 4 * 128, id="64-repeats-after-4-lines"),
        pytest.param(32, 128, 128 + 16, id="32-line-1"),
        pytest.param(32, 2 * 128, 2 * 128, id="32-repeats-after-2-lines"),
        pytest.param(0, 7 * 128, 7 * 128, id="none"),
    ],
)
def test_swizzled_addresses(span: int, address: int, goes_to: int) -> None:
    assert swizzled(np.array(address), span) == goes_to


@pytest.mark.parametrize(
    "tensor_map",
    [
        pytest.param(TensorMap("m", DType.F32, 0, (64,), (), (512,), (1,), 0), id="box-of-512"),
        pytest.param(TensorMap("m", DType.F32, 0, (64,), (), (6,), (1,), 0), id="inner-box-of-24-bytes"),
        pytest.param(TensorMap("m", DType.F32, 0, (8, 8), (36,), (8, 8), (1, 1), 0), id="stride-of-36-bytes"),
        pytest.param(TensorMap("m", DType.F32, 0, (8, 8), (32,), (8, 8), (1, 1), 64), id="span-wider-than-the-box"),
        pytest.param(TensorMap("m", DType.BF16, 0, (64,), (), (64,), (1,), 0), id="another-type"),
        pytest.param(TensorMap("m", DType.F32, 0, (64,), (), (64,), (2,), 0), id="inner-elements-left-out"),
        pytest.param(TensorMap("m", DType.F32, 0, (8, 8), (32,), (8, 8), (1, 9), 0), id="every-ninth-row"),
    ],
)
def test_maps_that_cannot_be_encoded_are_refused(tensor_map: TensorMap) -> None:
    with pytest.raises(KernelFault) as fault:
        launch(maps=(tensor_map,))
    assert fault.value.rule == "tensor_map_is_encodable"


# Numbers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_rounding_is_to_nearest_even(dtype: DType) -> None:
    """Against the rounding of the reference, around every power of two and at ties, overflow and subnormals."""
    powers = 2.0 ** np.arange(-149, 128)
    near = np.concatenate([powers * m for m in (1.0, 1.0 + 2.0**-8, 1.0 + 3 * 2.0**-9, 1.0 + 2.0**-11, 2.0 - 2.0**-23)])
    values = np.concatenate([near, -near, [0.0, np.inf, -np.inf]]).astype(np.float32)
    found = decoded(encoded(values, dtype), dtype)
    np.testing.assert_array_equal(found, round_to(values.astype(np.float64), dtype, np).astype(np.float32))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_nan_stays_nan(dtype: DType) -> None:
    values = np.array([0x7FC00000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(decoded(encoded(values, dtype), dtype)).all()
