import itertools

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Op, Value
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps as st
from tests.compiler.legality.cases import Case, breaches, nearest
from tests.compiler.schedules import LOCAL, SHARED, P, by_threads, load_by_tma, parallel, schedule, unary

ROW = unary((64,))
SHORT = "pieces of 8 shifted by at most 6"
CARRIED_PLAIN = "global to local, local to global, local to local, local to shared, shared to local"


def literal_fusion(*operands: str | Literal) -> Fusion:
    i0 = Value("i0", (64,), DType.F32, (1,))
    v0 = Value("v0", (64,), DType.F32, (1,))
    return Fusion((i0, v0), ("i0",), (Op(OpKind.ADD, operands, "v0"),), ("v0",), "f", "b")


def on_threads(r: int, v0: int) -> list[st.Step]:
    """r and v0 with their own number of threads, nothing inlined."""
    steps: list[st.Step] = [st.CacheInput("i0", "r", LOCAL)]
    for tv, threads in (("r", r), ("v0", v0)):
        steps += [st.Split(tv, 0, threads), *parallel(tv, P.UNROLL, P.TIDX)]
    return steps


def over_devices(count: int) -> list[st.Step]:
    """The row spread over so many devices."""
    loops = [s for tv in ("r", "v0") for s in (st.Split(tv, 0, 64 // count), *parallel(tv, P.DIDX, P.TIDX))]
    return [st.CacheInput("i0", "r", LOCAL), *loops]


def in_loops() -> list[st.Step]:
    """r is loaded in a loop that v0 shares."""
    loops = [s for tv in ("r", "v0") for s in (st.Split(tv, 0, 4), st.Parallelize(tv, 1, P.UNROLL))]
    return [st.CacheInput("i0", "r", LOCAL), *loops, st.InlineAt("r", 1)]


def in_registers(last: P) -> list[st.Step]:
    """r holds four elements of a thread."""
    loops = [s for tv in ("r", "v0") for s in (st.Split(tv, 0, 4), st.Parallelize(tv, 0, P.TIDX))]
    return [st.CacheInput("i0", "r", LOCAL), *loops, *parallel("r", P.SERIAL, last), st.InlineAt("r", 1)]


def allocated_as(axes: tuple[int, ...], before_split: bool) -> list[st.Step]:
    """A shared tensor whose allocation is set before or after a block axis is split off."""
    loops: list[st.Step] = []
    for tv in ("r", "v0"):
        loops += [st.Split(tv, 0, 8), st.Parallelize(tv, 0, P.BIDX)]
    split: list[st.Step] = [st.Split("s", 0, 8)]
    fixed: list[st.Step] = [st.SetAllocationDomain("s", axes)]
    order = [*fixed, *split] if before_split else [*split, *fixed]
    return [
        st.CacheInput("i0", "g", LOCAL),
        st.CacheInput("g", "s", SHARED),
        st.CacheInput("s", "r", LOCAL),
        *loops,
        *order,
        st.Parallelize("s", 0, P.BIDX),
        st.Split("g", 0, 8),
        st.Parallelize("g", 0, P.BIDX),
        st.InlineAt("g", 2),
        st.InlineAt("s", 1),
        st.InlineAt("r", 2),
    ]


def with_pitch(pitch: int) -> list[st.Step]:
    """A shared tile of eight rows of eight elements, `pitch` elements apart."""
    names = ("g", "s", "r")
    return [
        st.CacheInput("i0", "g", LOCAL),
        st.CacheInput("g", "s", SHARED),
        st.CacheInput("s", "r", LOCAL),
        *(st.Split(tv, 0, 8) for tv in (*names, "v0")),
        st.SetAllocationDomain("s", (0, 1), (), (pitch, 1)),
        *(st.InlineAt(tv, 2) for tv in ("g", "r")),
    ]


def windows(step: int, size: int, before: int) -> list[st.Step]:
    """Shared windows of 64 elements, of which runs of 8 are read that phases of a modulus of 8 have moved."""
    tiles = [s for tv in ("g", "s") for s in (st.Window(tv, 0, step, size, before), *parallel(tv, P.BIDX))]
    runs = [s for tv in ("r", "v0") for s in (st.Shift(tv, 0, (), (), 8, 3), st.Split(tv, 0, 8), *parallel(tv, P.BIDX))]
    caches = [st.CacheInput("i0", "g", LOCAL), st.CacheInput("g", "s", SHARED), st.CacheInput("s", "r", LOCAL)]
    return [*caches, *tiles, *runs, *(st.Parallelize(tv, 1, P.UNROLL) for tv in ("g", "s", "r", "v0"))]


def scalar_caches(count: int) -> list[st.Step]:
    """A rank-0 input that passes through `count` register copies before it is broadcast."""
    names = ["i0", *(f"c{i}" for i in range(count))]
    return [
        *(st.CacheInput(a, b, LOCAL) for a, b in itertools.pairwise(names)),
        st.CacheOutput("v0", "v0_r", LOCAL),
        st.InlineAt("v0_r", 1),
    ]


CASES = (
    Case(
        "a copy from global to global needs a register between",
        lambda: schedule(ROW, by_threads()),
        lambda: schedule(ROW, []),
        (
            (
                "copies_join_memories_that_an_instruction_joins",
                "v0 <- i0",
                "global to global via plain",
                CARRIED_PLAIN,
            ),
        ),
    ),
    Case(
        "the copy engine does not fill registers",
        lambda: schedule(ROW, load_by_tma(16)),
        lambda: schedule(
            ROW, [st.CacheInput("i0", "r", LOCAL, CopyVia.TMA), *parallel("r", P.BULK), *parallel("v0", P.UNROLL)]
        ),
        (
            (
                "copies_join_memories_that_an_instruction_joins",
                "r <- i0",
                "global to local via tma",
                "global to shared, shared to global",
            ),
        ),
    ),
    Case(
        "arithmetic writes a register",
        lambda: schedule(
            unary((64,), OpKind.RELU),
            [st.CacheInput("i0", "r", LOCAL), st.CacheOutput("v0", "q", LOCAL), *[st.InlineAt(t, 1) for t in "rq"]],
        ),
        lambda: schedule(unary((64,), OpKind.RELU), [st.CacheInput("i0", "r", LOCAL), st.InlineAt("r", 1)]),
        (("pointwise_operands_and_results_are_registers", "v0 = relu: v0", "global", "local"),),
    ),
    Case(
        "arithmetic reads a register",
        lambda: schedule(
            unary((64,), OpKind.RELU),
            [st.CacheInput("i0", "r", LOCAL), st.CacheOutput("v0", "q", LOCAL), *[st.InlineAt(t, 1) for t in "rq"]],
        ),
        lambda: schedule(unary((64,), OpKind.RELU), [st.CacheOutput("v0", "q", LOCAL), st.InlineAt("q", 1)]),
        (("pointwise_operands_and_results_are_registers", "q = relu: i0", "global", "local"),),
    ),
    Case(
        "a shared loop has one parallel type",
        lambda: schedule(ROW, [st.CacheInput("i0", "r", LOCAL), st.InlineAt("r", 1)]),
        lambda: schedule(ROW, [st.CacheInput("i0", "r", LOCAL), st.Parallelize("r", 0, P.UNROLL), st.InlineAt("r", 1)]),
        (("inlined_axes_are_the_consumers_axes", "r in v0: axis 0", "Unroll 64", "Serial 64"),),
    ),
    Case(
        "a thread dimension is one axis",
        lambda: schedule(ROW, on_threads(8, 8)),
        lambda: schedule(ROW, [*on_threads(8, 8), st.Parallelize("v0", 0, P.TIDX)]),
        (("parallel_types_are_on_one_axis", "v0: TIDx", "2 axes", "one axis"),),
    ),
    Case(
        "a block dimension is one axis",
        lambda: schedule(ROW, in_registers(P.UNROLL)),
        lambda: schedule(ROW, [*on_threads(8, 8), *parallel("v0", P.BIDX, P.BIDX)]),
        (("parallel_types_are_on_one_axis", "v0: BIDx", "2 axes", "one axis"),),
    ),
    Case(
        "a vector is one axis",
        lambda: schedule(ROW, in_registers(P.VECTORIZE)),
        lambda: schedule(ROW, [*on_threads(8, 8), *parallel("v0", P.VECTORIZE, P.VECTORIZE)]),
        (("parallel_types_are_on_one_axis", "v0: Vectorize", "2 axes", "one axis"),),
    ),
    Case(
        "the binding orders global memory",
        lambda: schedule(ROW, on_threads(8, 8)),
        lambda: schedule(ROW, [*on_threads(8, 8), st.SetAllocationDomain("v0", (0, 1))]),
        (("global_memory_order_is_given_by_strides", "v0", "an allocation domain", "the strides of the binding"),),
    ),
    Case(
        "stages are in shared memory",
        lambda: schedule(ROW, in_loops()),
        lambda: schedule(ROW, [*in_loops(), st.CircularBuffer("r", 2)]),
        (("circular_buffers_are_shared", "r", "local", "shared"),),
    ),
    Case(
        "no loop is padded",
        lambda: schedule(ROW, on_threads(8, 8)),
        lambda: schedule(ROW, [st.CacheInput("i0", "r", LOCAL), st.Resize("r", 0, 0, 8), *on_threads(8, 8)[1:]]),
        (("loops_are_split_merged_and_swizzled", "r: ir.0{64}", "resize", "none"),),
    ),
    Case(
        "a window has what phases move before its run",
        lambda: schedule(ROW, windows(8, 15, 7)),
        lambda: schedule(ROW, windows(8, 15, 6)),
        (("windows_hold_what_their_readers_read", "r reads s: is.0{64}", "windows of 15 every 8, 6 before", SHORT),),
    ),
    Case(
        "a window is as long as that and its run",
        lambda: schedule(ROW, windows(8, 15, 7)),
        lambda: schedule(ROW, windows(8, 14, 7)),
        (("windows_hold_what_their_readers_read", "r reads s: is.0{64}", "windows of 14 every 8, 7 before", SHORT),),
    ),
    Case(
        "all tensors use all threads",
        lambda: schedule(ROW, on_threads(8, 8)),
        lambda: schedule(ROW, on_threads(8, 16)),
        (("parallel_extents_agree", "v0: TIDx", 16, 8),),
    ),
    Case(
        "only a bulk copy has Bulk axes",
        lambda: schedule(ROW, [st.CacheInput("i0", "r", LOCAL), *parallel("r", P.UNROLL), *parallel("v0", P.UNROLL)]),
        lambda: schedule(ROW, [st.CacheInput("i0", "r", LOCAL), *parallel("r", P.UNROLL), *parallel("v0", P.BULK)]),
        (("bulk_axes_belong_to_bulk_copies", "v0", 1, "via plain"),),
    ),
    Case(
        "a bulk copy has a Bulk axis",
        lambda: schedule(ROW, load_by_tma(16)),
        lambda: schedule(ROW, [s for s in load_by_tma(16) if s != st.Parallelize("s", 1, P.BULK)]),
        (("bulk_axes_belong_to_bulk_copies", "s", 0, "via tma"),),
    ),
    Case(
        "a bulk copy has no thread axis",
        lambda: schedule(unary((4, 16)), load_by_tma(2, 16)),
        lambda: schedule(
            unary((4, 16)),
            [s for s in load_by_tma(2, 16) if s != st.Parallelize("s", 1, P.BULK)] + [st.Parallelize("s", 1, P.TIDX)],
        ),
        (("bulk_axes_belong_to_bulk_copies", "s", "TIDx", "no thread axis"),),
    ),
    Case(
        "registers are indexed by constants",
        lambda: schedule(ROW, in_registers(P.UNROLL)),
        lambda: schedule(ROW, in_registers(P.SERIAL)),
        (("register_axes_are_unrolled", "r: axis 1", "Serial", "Unroll or Vectorize"),),
    ),
    Case(
        "a register copy of a scalar is read by a tensor with a loop",
        lambda: schedule(unary((), OpKind.BROADCAST_TO, result=(8,)), scalar_caches(1)),
        lambda: schedule(unary((), OpKind.BROADCAST_TO, result=(8,)), scalar_caches(2)),
        (("register_axes_are_unrolled", "c0", "rank 0", "rank 1"),),
    ),
    Case(
        "an allocation axis is allocated as a whole",
        lambda: schedule(ROW, allocated_as((0, 1), before_split=False)),
        lambda: schedule(ROW, allocated_as((0,), before_split=True)),
        (("allocation_axes_are_whole", "s: is.0{64}", "partly allocated", "allocated or not"),),
    ),
    Case(
        "rows of a tile do not overlap",
        lambda: schedule(ROW, with_pitch(8)),
        lambda: schedule(ROW, with_pitch(7)),
        (("allocated_elements_do_not_overlap", "s: is.1{8}", "stride 7", "8 or more"),),
    ),
    Case(
        "an axis over devices has one place",
        lambda: schedule(ROW, over_devices(1)),
        lambda: schedule(ROW, over_devices(8)),
        (("axes_are_of_one_device", "v0: DIDx", 8, 1), ("axes_are_of_one_device", "r: DIDx", 8, 1)),
    ),
    Case(
        "a literal has a tensor beside it",
        lambda: schedule(
            literal_fusion("i0", Literal(2.0)),
            [st.CacheInput("i0", "r", LOCAL), st.CacheOutput("v0", "q", LOCAL), *[st.InlineAt(t, 1) for t in "rq"]],
        ),
        lambda: schedule(
            literal_fusion(Literal(1.0), Literal(2.0)), [st.CacheOutput("v0", "q", LOCAL), st.InlineAt("q", 1)]
        ),
        (("literals_have_a_tensor_beside_them", "w0", "literals only", "a tensor operand"),),
    ),
)


test_the_nearest_legal_and_illegal_schedules = nearest(CASES)


def test_a_broken_structure_is_reported_alone() -> None:
    """Rules that read indices would fall over a schedule whose loops do not fit together."""
    assert [b[0] for b in breaches(schedule(ROW, on_threads(8, 2048)))] == ["parallel_extents_agree"]
    assert [b[0] for b in breaches(schedule(ROW, on_threads(2048, 2048)))] == ["block_fits_the_architecture"] * 2
