"""Products of matrices, and schedules of them by hand: by groups of four warps (wgmma), and by warps (mma.sync)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion
from compiler.ir.ops import CONTRACTIONS, OpKind
from compiler.ir.tensor import BufferKind, CopyVia, TensorView
from compiler.schedule import steps as st
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder
from tests.compiler.schedules import LOCAL, SHARED, P, from_wire

LINE, PIECE = 128, 16
"""Bytes of a line that the copy engine swizzles, and of what it swaps in it."""

TURNED = ("k", "mn")
TF32 = "tf32"


def product(
    m: int, n: int, k: int, dtype: str = "bf16", out: str = "bf16", left: str = "k", right: str = "k", batch: int = 0
) -> Fusion:
    """y = x @ w. `left`, `right`: what of an operand lies side by side, "k" or its own dimension ("mn"). `dtype`: of
    both, or "tf32", f32 of which that is multiplied."""
    allowed = {"precision": TF32} if dtype == TF32 else {}
    dtype = "f32" if dtype == TF32 else dtype
    outer = [batch] if batch else []
    shapes = {"x": [m, k] if left == "k" else [k, m], "w": [k, n] if right == "mn" else [n, k]}
    inputs = [{"name": name, "shape": [*outer, *shape], "dtype": dtype} for name, shape in shapes.items()]
    ops: list[Mapping[str, Any]] = []
    turn = [*range(len(outer)), len(outer) + 1, len(outer)]
    names = {}
    for name, is_turned in (("x", left == "mn"), ("w", right == "k")):
        names[name] = f"{name}_t" if is_turned else name
        if is_turned:
            ops.append({"op": "permute", "in": [name], "out": names[name], "dims": turn})
    ops.append({"op": "matmul", "in": [names["x"], names["w"]], "out": "y", "dtype": out, **allowed})
    return from_wire(inputs, ops, "y")


def gated(m: int = 640, n: int = 64, k: int = 128) -> Fusion:
    """silu(x @ g) * (x @ u) + residual, in bf16: two products of one operand."""
    shapes = {"x": [m, k], "g": [n, k], "u": [n, k], "r": [m, n]}
    inputs = [{"name": name, "shape": shape, "dtype": "bf16"} for name, shape in shapes.items()]
    ops: list[dict[str, Any]] = []
    for name in ("g", "u"):
        ops.append({"op": "permute", "in": [name], "out": f"{name}_t", "dims": [1, 0]})
        ops.append({"op": "matmul", "in": ["x", f"{name}_t"], "out": f"{name}_y", "dtype": "f32"})
    ops += [
        {"op": "silu", "in": ["g_y"], "out": "s"},
        {"op": "mul", "in": ["s", "u_y"], "out": "p"},
        {"op": "cast", "in": ["r"], "out": "rf", "dtype": "f32"},
        {"op": "add", "in": ["p", "rf"], "out": "q"},
        {"op": "cast", "in": ["q"], "out": "y", "dtype": "bf16"},
    ]
    return from_wire(inputs, ops, "y")


@dataclass(frozen=True)
class Groups:
    """How warp groups make a product: tiles of `rows` by `columns` and `k`, in `stages`; `groups` that compute, of one
    tile, or with `turns` of one each.

    `blocks`: that stay, 0 for one a tile. `strip`: rows of tiles that are taken together. `cluster`: of so many blocks
    along the rows, of which one copy brings the columns' operand where it is `multicast`. `step`: columns that are
    stored at a time by the copy engine, 0 for stores by threads. `in_flight`, `registers`: as the steps have them.
    `is_mma`: or every axis by itself. `parts`: of the sum, of so many blocks, on `parts_on`, of which one adds them up,
    or each its slice of the columns (`slices`). `dealt`: blocks that have equal shares of all steps of all tiles, 0 for
    none. `outer`: steps of a loop around that of the stages.
    """

    rows: int = 128
    columns: int = 128
    k: int = 64
    stages: int = 3
    groups: int = 2
    turns: bool = False
    blocks: int = 0
    strip: int = 1
    cluster: int = 0
    multicast: bool = True
    step: int = 0
    in_flight: int = 0
    registers: tuple[int, int] | None = None
    is_mma: bool = True
    parts: int = 1
    parts_on: P = P.BIDY
    slices: bool = False
    dealt: int = 0
    outer: int = 1


def kind_of(sf: ScheduledFusion, name: str) -> OpKind:
    """The operator that makes a tensor."""
    made = sf.producer(name)
    assert made is not None
    return made.kind


def by_warp_groups(fusion: Fusion, how: Groups, changed: Sequence[st.Step] = ()) -> ScheduleTrace:
    """Loaders bring tiles of both operands, groups multiply them where they lie. `changed`: steps taken at the end."""
    return _ByGroups(TraceBuilder(fusion), how).build(changed)


class _ByGroups:
    def __init__(self, b: TraceBuilder, how: Groups) -> None:
        self.b, self.how = b, how
        self.product = next(op for op in b.sf.ops if op.kind in CONTRACTIONS)
        self.tv, self.operands = self.product.output, self.product.tensor_inputs
        (self.out,) = b.sf.outputs
        self.grid: list[P] = []

    def build(self, changed: Sequence[st.Step]) -> ScheduleTrace:
        b, how = self.b, self.how
        if b.sf.producer(self.out).kind is not OpKind.COPY:  # type: ignore[union-attr]  # an output is made
            b.do(st.CacheOutput(self.out, "y_r", LOCAL))
        if how.step:
            b.do(st.CacheOutput(self.out, "y_s", SHARED, CopyVia.TMA))
        for name in self.operands:
            b.do(st.SetMemory(name, SHARED, CopyVia.TMA))
        self.tiles()
        others = [op.output for op in b.sf.ops if op.output not in (self.tv, *self.operands)]
        b.do(st.Propagate(self.tv, (*self.operands, *others)))
        for name in self.operands:
            operand_tile(b, name, self.brought)
        held = [name for name in others if not (how.step and name == self.out)]
        self.results(held)
        self.inline(held)
        self.rings()
        if how.dealt:
            b.do(st.Deal(self.tv, how.dealt))
        b.do(*changed)
        return b.trace()

    def tiles(self) -> None:
        """[cluster, tile.., k, rows, columns, k]."""
        b, how, tv = self.b, self.how, self.tv
        first = len(b.tensor(tv).loop) - 3
        b.split(tv, first + 2, how.k)
        b.split(tv, first + 1, how.columns)
        b.split(tv, first, how.rows)
        b.reorder(tv, [*range(first), first, first + 2, first + 4, first + 1, first + 3, first + 5])
        if how.cluster:
            b.split(tv, first, how.cluster)
            b.reorder(tv, [first + 1, *(i for i in range(first + 7) if i != first + 1)])
        at = int(bool(how.cluster))
        if how.strip > 1:
            b.split(tv, at + first, how.strip)
            rest = range(at + first + 3, at + first + 7)
            b.reorder(tv, [*range(at + first + 1), at + first + 2, at + first + 1, *rest])
        b.merge(tv, at, first + 2 + (how.strip > 1))
        self.grid = [P.SERIAL if how.dealt else P.BIDX]
        if how.turns:
            b.split(tv, at, how.groups)
            self.grid.append(P.TIDY)
        if how.blocks:
            b.split(tv, at, how.blocks)
            self.grid.insert(0, P.SERIAL)
        if how.cluster:
            self.grid.insert(0, P.CLUSTER)
        self.brought = [*self.grid]
        if how.parts > 1:
            at = len(self.grid)
            b.do(st.Split(tv, at, how.parts, False))
            self.brought.append(how.parts_on)
        if how.outer > 1:
            b.do(st.Split(tv, len(self.brought), how.outer, False))
            self.brought.append(P.SERIAL)

    def results(self, held: Sequence[str]) -> None:
        """[.., group, thread, step, pieces of 8 columns, two rows, two columns] of the product, and of what is made of
        it, there with the steps first."""
        b, how, tv, at, own = self.b, self.how, self.tv, len(self.grid), len(self.brought)
        group = P.UNROLL if how.turns or how.groups == 1 else P.TIDY
        b.split(tv, own + 2, how.columns // how.parts if how.slices else how.step or how.columns)
        b.do(st.Propagate(tv, tuple(held)))
        if how.step:
            self.staged(at)
        b.split(tv, own + 4, 32 // b.tensor(self.operands[0]).dtype.nbytes)
        for axis, size in ((own + 3, 8), (own + 4, 2), (own + 1, 64), (own + 2, 16), (own + 3, 8)):
            b.split(tv, axis, size)
        # k | groups of 64 rows, warp, half, line | step, piece, pair, side | k of a stage and of an instruction
        b.reorder(tv, [*range(own + 1), *(own + i for i in (1, 2, 4, 7, 9, 5, 6, 3, 8, 10))])
        b.merge(tv, own + 2, 3)
        made = [*self.brought, P.SERIAL, group, P.TIDX, P.UNROLL, *[P.MMA if how.is_mma else P.UNROLL] * 5]
        b.parallelize(tv, made)
        b.do(st.Propagate(tv, tuple(held)))
        for name in held:
            b.reorder(name, [*range(at), at + 2, at, at + 1, at + 3, at + 4, at + 5])
            b.parallelize(name, [*self.grid, self.step, group, P.TIDX, *[P.UNROLL] * 3])
        if not how.step:
            narrow = [name for name in held if b.sf.producer(name).kind is OpKind.CAST][-1:]  # type: ignore[union-attr]  # held are made
            for name in dict.fromkeys((*narrow, self.out)):
                b.do(st.Parallelize(name, at + 5, P.VECTORIZE))

    @property
    def step(self) -> P:
        """What the steps of a tile's columns are on."""
        return P.CLUSTER if self.how.slices else P.UNROLL

    def staged(self, at: int) -> None:
        """The tile that the copy engine stores, of lines of 128 bytes, and its boxes."""
        b, how = self.b, self.how
        nbytes = b.tensor("y_s").dtype.nbytes
        transforms = (
            st.Split("y_s", at + 2, LINE // nbytes),
            st.Split("y_s", at + 1, 64),
            st.Reorder("y_s", ((at + 3, at + 2), (at + 2, at + 3))),
            st.Split("y_s", at + 4, PIECE // nbytes),
            st.Split("y_s", at + 3, 8),
            st.Swizzle("y_s", at + 4, at + 5),
        )
        b.do(st.SetAllocationDomain("y_s", (*range(at), at + 1, at, at + 2), transforms))
        out = self.out
        b.split(out, at + 1, how.step)
        b.split(out, at + 2, LINE // nbytes)
        b.split(out, at, 64)
        b.reorder(out, [*range(at), at + 2, at, at + 3, at + 1, at + 4])
        b.parallelize(out, [*self.grid, self.step, P.UNROLL, P.UNROLL, P.BULK, P.BULK])

    def inline(self, held: Sequence[str]) -> None:
        b, at = self.b, len(self.grid)
        b.inline((self.tv,), at - self.how.turns)
        if self.how.step:
            b.inline(("y_s",), at + 1)
        b.inline([name for name in held if name not in (self.out, "y_s")], at + 5)
        b.inline(self.operands, len(self.brought) + 1)

    def rings(self) -> None:
        b, how = self.b, self.how
        if how.in_flight:
            b.do(st.ProductsInFlight(self.tv, how.in_flight))
        if how.cluster and how.multicast:
            b.do(st.Multicast(self.operands[1]))
        on = P.TIDX if how.groups == 1 else P.TIDY
        options: dict[str, Any] = {"kind": BufferKind.WARP_SPECIALIZED, "on": on, "registers": how.registers}
        for name in self.operands if how.stages > 1 else ():
            b.do(st.CircularBuffer(name, how.stages, -1, **options))


def operand_tile(b: TraceBuilder, name: str, grid: Sequence[P]) -> None:
    """[tile.., k, the other's rows, boxes, box] of an operand: lines of 128 bytes, swizzled."""
    t = b.tensor(name)
    at, nbytes = len(grid), t.dtype.nbytes
    own = at + 1 if not t.loop[at + 1].is_broadcast else at + 2
    other = 2 * at + 3 - own
    inner, outer = (at + 3, own) if _is_major(b, name, at + 3) else (own, at + 3)
    b.reorder(name, [*range(at + 1), other, outer, inner])
    b.split(name, at + 3, LINE // nbytes)
    b.reorder(name, [*range(at + 2), at + 3, at + 2, at + 4])
    swizzled = (
        st.Split(name, at + 4, PIECE // nbytes),
        st.Split(name, at + 3, 8),
        st.Swizzle(name, at + 4, at + 5),
    )
    b.do(st.SetAllocationDomain(name, tuple(range(at + 5)), swizzled))
    loops = [P.SERIAL if p is P.TIDY else p for p in grid]
    b.parallelize(name, [*loops, P.SERIAL, P.SERIAL, P.UNROLL, P.BULK, P.BULK])


def _is_major(b: TraceBuilder, name: str, at: int) -> bool:
    """Whether the operand's elements along k are neighbours in memory."""
    op = b.sf.producer(name)
    assert op is not None
    source = b.sf.tensor(op.tensor_inputs[0])
    assert source.allocation is not None
    along = len(b.tensor(name).logical) - 1
    place = op.dims.index(along) if op.kind is OpKind.BROADCAST_TO else op.dims[along]
    return source.allocation.strides[place] == 1


@dataclass(frozen=True)
class Warps:
    """How warps make a product: tiles of `rows` by `columns` and `k` of `down` by `across` warps. `stages`: of the ring
    that the copy engine fills. `pairs`: pieces of 8 columns that are loaded together. `rows_first`: a lane holds the
    rows of a piece outside of its halves along k. `is_mma`: as in `Groups`."""

    rows: int = 64
    columns: int = 64
    k: int = 64
    down: int = 2
    across: int = 2
    stages: int = 2
    pairs: int = 2
    rows_first: bool = False
    is_mma: bool = True


def by_warps(fusion: Fusion, how: Warps, changed: Sequence[st.Step] = ()) -> ScheduleTrace:
    """Tiles of both operands come by the copy engine, warps load fragments of them by ldmatrix, and multiply those."""
    b = TraceBuilder(fusion)
    op = next(op for op in b.sf.ops if op.kind in CONTRACTIONS)
    tv, shared = op.output, op.tensor_inputs
    (out,) = b.sf.outputs
    if kind_of(b.sf, out) is not OpKind.COPY:
        b.do(st.CacheOutput(out, "y_r", LOCAL))
    held = ("left", "right")
    for name, copy in zip(shared, held, strict=True):
        b.do(st.SetMemory(name, SHARED, CopyVia.TMA), st.CacheInput(name, copy, LOCAL, CopyVia.LDMATRIX))
    others = [op.output for op in b.sf.ops if op.output not in (tv, *shared, *held)]
    b.split(tv, 2, how.k)
    b.split(tv, 1, how.columns)
    b.split(tv, 0, how.rows)
    b.reorder(tv, [0, 2, 4, 1, 3, 5])
    b.merge(tv, 0)
    b.do(st.Propagate(tv, (*shared, *held, *others)))
    for name in shared:
        operand_tile(b, name, [P.BIDX])
    nbytes = b.tensor(shared[0]).dtype.nbytes
    for axis, size in ((4, 32 // nbytes), (3, 8), (3, how.columns // 8 // how.across), (2, 16)):
        b.split(tv, axis, size)
    b.split(tv, 2, how.rows // 16 // how.down)
    b.reorder(tv, [0, 1, 8, 2, 5, 3, 6, 4, 7, 9])  # tile, k, k / 16 | warps | pieces | rows, columns, k of a piece
    b.do(st.Propagate(tv, (*held, *others)))
    inside = [P.TIDZ, P.TIDY, P.TIDX, P.UNROLL, P.UNROLL]
    around = [P.BIDX, P.SERIAL, P.UNROLL]
    _left_fragment(b, nbytes, (7, 10) if how.rows_first else (10, 7))
    _right_fragment(b, nbytes, how.pairs)
    for name in held:
        b.parallelize(name, [*around, *inside, P.UNROLL, P.VECTORIZE])
    b.split(tv, 8, 2)
    b.split(tv, 7, 8)
    b.reorder(tv, [0, 1, 2, 3, 4, 8, 9, 5, 6, 7, 10, 11])
    b.merge(tv, 5)
    b.parallelize(tv, [*around, *inside, *[P.MMA if how.is_mma else P.UNROLL] * 3])
    b.do(st.Propagate(tv, tuple(others)))
    for name in others:
        b.parallelize(name, [P.BIDX, *inside, P.UNROLL, P.UNROLL])
    narrow = [name for name in others if kind_of(b.sf, name) is OpKind.CAST][-1:]
    for name in dict.fromkeys((*narrow, out)):
        b.do(st.Parallelize(name, 7, P.VECTORIZE))
    b.inline((tv,), 1)
    b.inline([name for name in others if name != out], 7)
    b.inline(held, 3)
    b.inline(shared, 2)
    has_turns = b.tensor(tv).loop[1].extent > 1
    for name in shared if how.stages > 1 and has_turns else ():
        b.do(st.CircularBuffer(name, how.stages, how.stages - 1))
    b.do(*changed)
    return b.trace()


def _left_fragment(b: TraceBuilder, nbytes: int, halves: tuple[int, int]) -> None:
    """[.., thread, pieces, the other's pieces and columns, what a lane loads at a time]."""
    b.split("left", 9, 4 // nbytes)
    b.split("left", 9, 4)
    b.split("left", 7, 8)
    # half and line of 16 rows at 7; half, lane and word of k at 10
    b.reorder("left", [*range(5), 8, 11, 5, 6, 9, *halves, 12])
    b.merge("left", 10, 3)
    b.merge("left", 5)


def _right_fragment(b: TraceBuilder, nbytes: int, pairs: int) -> None:
    """[.., thread, the other's pieces and rows, pieces, what a lane loads at a time]: `pairs` pieces of 8 columns."""
    b.split("right", 9, 4 // nbytes)
    b.split("right", 9, 4)
    if pairs > 1:
        b.split("right", 6, pairs)
        b.reorder("right", [*range(5), 9, 11, 5, 8, 6, 7, 10, 12])
    else:
        b.reorder("right", [*range(5), 8, 10, 5, 7, 6, 9, 11])
    b.merge("right", 10, 3 if pairs > 1 else 2)
    b.merge("right", 5)


def fragments_of(trace: ScheduleTrace) -> TensorView:
    """The product of a schedule."""
    sf = trace.scheduled
    return sf.tensor(next(op.output for op in sf.ops if op.kind in CONTRACTIONS))


def by_cp_async(fusion: Fusion, how: Warps) -> ScheduleTrace:
    """The same with tiles that threads copy, in words of 16 bytes."""
    changed: list[st.Step] = []
    word = PIECE // fusion.value(fusion.inputs[0]).dtype.nbytes
    types = (P.UNROLL, P.TIDZ, P.TIDY, P.TIDX, P.VECTORIZE)
    for name in ("w0", "w1"):
        changed += [st.SetMemory(name, SHARED, CopyVia.CP_ASYNC), st.Parallelize(name, 4, P.SERIAL)]
        changed += [st.Parallelize(name, 5, P.SERIAL), st.Merge(name, 4), st.Split(name, 4, word)]
        changed += [st.Split(name, 4, 32 * how.down * how.across)]
        changed += [st.Split(name, 5, 32), st.Split(name, 5, how.across)]
        changed += [st.Parallelize(name, 4 + i, p) for i, p in enumerate(types)]
    return by_warps(fusion, how, changed)
