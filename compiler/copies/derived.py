"""Tiles, their layouts and the warps over them, derived from scheduled tensors.

A copy of a scheduled fusion moves a tile in each trip of the loops that it shares with the tensors it reads and feeds:
all that lies in the remaining loops and in the threads of a block. Where the element of a loop index goes follows from
the allocations of the two tensors; loop indices are cut into digits until both offsets are sums, and digits become
rows and columns. Nothing is chosen here that the schedule has not said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from compiler.analysis.id.graph import Group, IdGraph, id_graph, transforms_of
from compiler.analysis.id.group_index import walk
from compiler.analysis.id.linear import dense_strides
from compiler.analysis.loops.axes import aligned_positions, with_types_of_their_loops
from compiler.analysis.memory.allocation import layout_of as allocated_layout
from compiler.analysis.memory.memory_order import as_allocated
from compiler.analysis.tmem.allocation import layout_of as tmem_layout
from compiler.analysis.tmem.warps import block_shape
from compiler.arch import SMEM_LINE_BYTES, WARP_THREADS, Arch
from compiler.copies.copy_plan import CopyPlan
from compiler.copies.digits import Digits, cut_into_digits, strides_of
from compiler.copies.errors import TileError
from compiler.copies.grid import Grid, grid_of
from compiler.copies.inferred import infer_plan
from compiler.copies.instruction import path_named
from compiler.copies.layout import Layout, MatrixLayout, row_major
from compiler.copies.registers import Moves, ThreadLayout
from compiler.copies.software_swizzle import recognise, without_swizzle
from compiler.copies.tile import GlobalTile, RegTile, SharedTile, Tile, TmemTile
from compiler.copies.warps import warps_of
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.id_exprs import Shift, Split, Swizzle, Window
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.ops import MOVES
from compiler.ir.tensor import TensorOp, TensorView

THREADS = (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ)
MOST_ALIGN = 1024
"""Bytes after which the widest swizzle repeats: alignments beyond it say nothing more."""


@dataclass(frozen=True, slots=True)
class ScheduledCopy:
    """What a copy of a scheduled fusion moves in one trip of the loops outside `loops`.

    `loops`: positions of the copy's own loop axes that run inside the tile. `block`, `threads`, `rounds` and `access`:
    who moves what, as the schedule says (compiler.copies.copy_plan.CopyPlan). `has_edges`: some tiles stick out of the
    tensors, or have the holes of a shift, which the predicates of the kernel mask.
    """

    op: TensorOp
    source: Tile
    target: Tile
    loops: tuple[int, ...]
    block: tuple[int, int, int]
    threads: tuple[Moves, Moves, Moves]
    rounds: Moves
    access: Moves
    has_edges: bool

    @property
    def warps(self) -> MatrixLayout | None:
        """The warp layout; None where the threads of a warp are no block of the tile."""
        return warps_of(self.block, self.threads)

    def plan(self) -> CopyPlan:
        """The copy plan as scheduled. Raises TileError for a conversion between element sizes."""
        if self.source.dtype.nbits != self.target.dtype.nbits:
            raise TileError(
                self.op.output, f"{self.source.dtype} -> {self.target.dtype}", "one element size", "Copy, then convert."
            )
        path = path_named(self.op.via)
        plan = CopyPlan(path, self.source, self.target, self.block, self.threads, self.rounds, self.access)
        return replace(plan, is_transposed=plan.holds_columns) if path.is_matrix else plan

    def inferred(self, arch: Arch) -> CopyPlan:
        """The plan that a loader or storer infers from the tiles and the warps. Raises TileError."""
        warps = self.warps
        if warps is None and not (self.op.via.takes_tiles or RegTile in (type(self.source), type(self.target))):
            raise TileError(
                self.op.output, "threads in no whole warps", "a warp layout", "Give warps blocks of the tile."
            )
        if warps is None:
            # Registers say by themselves who holds what, and the copy engine has no warps.
            warps = row_major(-(-prod(self.block) // WARP_THREADS), 1)
        return infer_plan(warps, self.source, self.target, arch)


def derive_copy(sf: ScheduledFusion, op: TensorOp) -> ScheduledCopy:
    """Source tile, target tile and who moves what of a copy of the fusion.

    Where one composition does not describe the tile of all loops inside, the outermost of them are left outside, trip
    by trip. Raises TileError for an operator that is no copy, and for a tile that has no layout.
    """
    if op.kind not in MOVES or len(op.tensor_inputs) != 1:
        raise TileError(op.output, f"operator {op.kind}", "a copy, permute or broadcast", "Derive tiles of copies.")
    if op.via.by_tensor_cores:
        found = f"via {op.via}, whose tiles lie as the tensor cores take them"
        raise TileError(op.output, found, "a copy by threads or by the copy engine", "Read what tensor memory holds.")
    sf = with_types_of_their_loops(sf)
    consumer, producer = sf.tensor(op.output), sf.tensor(op.tensor_inputs[0])
    graph = id_graph(sf)
    shared = {j for _, j in aligned_positions(op, producer, consumer)} if producer.name not in sf.inputs else set()
    outside = shared | set(range(consumer.compute_at))
    while True:
        derivation = _Derivation(sf, op, graph, frozenset(outside))
        try:
            return derivation.copy()
        except _NotComposedOnce as error:
            left = [i for i in derivation.serial if i not in outside]
            if not left:
                raise error.refusal from None
            outside.add(left[0])


def layout_of(sf: ScheduledFusion, op: TensorOp, tensor: str) -> Layout | None:
    """The layout of the tile of `tensor` that a copy reads or writes; None for registers, whose layout goes the other
    way. Raises TileError as `derive_copy`, and for a tensor that is neither side."""
    copy = derive_copy(sf, op)
    if tensor not in (op.output, *op.tensor_inputs):
        raise TileError(
            tensor, "neither side of the copy", f"{op.output} or {op.tensor_inputs[0]}", "Name one of them."
        )
    tile = copy.target if tensor == op.output else copy.source
    match tile:
        case GlobalTile() | SharedTile():
            return tile.layout
        case TmemTile():
            return tile.columns
        case RegTile():
            return None


class _NotComposedOnce(Exception):
    """No layout that is composed once describes the tile; `refusal` says so to the caller if nothing helps."""

    def __init__(self, refusal: TileError) -> None:
        super().__init__(refusal)
        self.refusal = refusal


class _Derivation:
    """One attempt, with the loops in `outside` left out of the tile."""

    def __init__(self, sf: ScheduledFusion, op: TensorOp, graph: IdGraph, outside: frozenset[int]) -> None:
        self.sf, self.op, self.graph = sf, op, graph
        self.consumer = sf.tensor(op.output)
        self.sides = tuple(as_allocated(sf, sf.tensor(name)) for name in (op.tensor_inputs[0], op.output))
        types = self.consumer.types
        positions = range(len(types))
        self.inside = [i for i in positions if types[i].is_thread or not (types[i].is_block or i in outside)]
        self.serial = [i for i in self.inside if types[i].is_loop]

    def copy(self) -> ScheduledCopy:
        """Raises TileError, and _NotComposedOnce where fewer loops may help."""
        indices = {i: Var(f"i{i}_", a.extent) for i, a in enumerate(self.consumer.loop)}
        known = self._known(indices)
        offsets = [e for t in self.sides for e in self._offsets(t, known)]
        inner = [indices[i] for i in self.inside if indices[i].extent > 1]
        digits = cut_into_digits(inner, offsets)
        bare = [without_swizzle(e) for e in digits.exprs]
        digits = _nested(digits, cut_into_digits(tuple(digits), [*digits.exprs, *bare]))
        swizzled, dense = digits.exprs[: len(bare)], digits.exprs[len(bare) :]
        grid = self._grid(digits, dense)
        tiles, at = [], 0
        for t in self.sides:
            count = 2 if t.memory is MemoryType.TENSOR else 1
            tiles.append(self._tile(t, grid, dense[at : at + count], swizzled[at], indices, digits))
            at += count
        return ScheduledCopy(
            op=self.op,
            source=tiles[0],
            target=tiles[1],
            loops=tuple(self.inside),
            block=self._block(),
            threads=self._thread_moves(grid, digits, indices),
            rounds=grid.moves(d for i in self.serial for d in digits.of.get(indices[i], ())),
            access=grid.ascending(
                d
                for i in self.inside
                if self.consumer.types[i] in (ParallelType.BULK, ParallelType.VECTORIZE)
                for d in digits.of.get(indices[i], ())
            ),
            has_edges=any(
                isinstance(e, Shift | Window) or (isinstance(e, Split) and not e.divides) for e in self.consumer.exprs
            ),
        )

    def _known(self, indices: Mapping[int, Var]) -> dict[Group, Expr]:
        """Index of each loop axis. A swizzled one that no thread carries is walked in the order before the swizzle, in
        which global memory and the rows of shared memory are straight."""
        known: dict[Group, Expr] = {}
        before = {e.out: e.y for e in self.consumer.exprs if isinstance(e, Swizzle)}
        for i, axis in enumerate(self.consumer.loop):
            straight = before.get(axis, axis) if not self.consumer.types[i].is_thread else axis
            known[self.graph.group(straight)] = var(indices[i])
        for t in self.sides:
            made = (a for e in transforms_of(t) for a in (*e.inputs, *e.outputs))
            known |= {self.graph.group(a): Expr() for a in (*t.logical, *made) if a.extent == 1}
        return known

    def _offsets(self, t: TensorView, known: Mapping[Group, Expr]) -> tuple[Expr, ...]:
        """Element offset in the tensor; in tensor memory, lane and offset in the lane."""
        if t.memory is MemoryType.TENSOR:
            layout = tmem_layout(t)
            sides = (layout.lanes, layout.columns)
            return tuple(self._offset(t, s.axes, s.strides, known) for s in sides)
        if t.memory is MemoryType.GLOBAL:
            axes, strides = _global_order(t)
            return (self._offset(t, axes, strides, known),)
        allocated = allocated_layout(t)
        return (self._offset(t, allocated.axes, allocated.strides, known),)

    def _offset(
        self, t: TensorView, axes: Sequence[IterDomain], strides: Sequence[int], known: Mapping[Group, Expr]
    ) -> Expr:
        wanted = {a: self.graph.group(a) for a in axes if not (a.is_broadcast or a.is_reduction or a.extent == 1)}
        path, missing = self.graph.path(tuple(known), tuple(wanted.values()))
        if missing:
            raise TileError(
                f"{self.op.output}: {t.name}",
                f"{self.graph.axis(min(missing))}, which the loops do not lead to",
                "an allocation of the same elements as the loops",
                "Schedule both tensors with the same transforms.",
            )
        index = walk(self.graph, path, known)
        total = Expr()
        for axis, stride in zip(axes, strides, strict=True):
            if axis in wanted:
                total = total + index[wanted[axis]] * stride
        return total

    def _grid(self, digits: Digits, dense: Sequence[Expr]) -> Grid:
        """Rows and columns; raises TileError where an offset is no sum of digits."""
        order = tuple(digits)
        kinds = [t.memory for t in self.sides for _ in range(2 if t.memory is MemoryType.TENSOR else 1)]
        found: list[tuple[MemoryType, dict[Var, int]]] = []
        for memory, e in zip(kinds, dense, strict=True):
            linear = strides_of(e, order)
            if linear is None or min(linear[0].values(), default=0) < 0:
                raise TileError(
                    f"{self.op.output} <- {self.op.tensor_inputs[0]}",
                    f"offset {e} in {memory} memory",
                    "a sum of loop indices",
                    "Split by factors that divide, so that rows and columns are straight.",
                )
            found.append((memory, linear[0]))
        grid = grid_of(order, found, 8 * SMEM_LINE_BYTES // max(t.dtype.nbits for t in self.sides))
        if grid is None:
            raise _NotComposedOnce(
                TileError(
                    f"{self.op.output} <- {self.op.tensor_inputs[0]}",
                    f"a tile of {len(order)} indices whose strides do not continue one another",
                    "a layout composed once",
                    "Leave more loops outside the tile.",
                )
            )
        return grid

    def _tile(
        self,
        t: TensorView,
        grid: Grid,
        dense: Sequence[Expr],
        swizzled: Expr,
        indices: Mapping[int, Var],
        digits: Digits,
    ) -> Tile:
        linear = [strides_of(e, tuple(digits)) for e in dense]
        assert all(x is not None for x in linear), "offsets are sums: the grid was made of them"
        strides = [x[0] for x in linear if x is not None]
        rest = linear[0][1] if linear[0] is not None else Expr()
        known = gcd(rest.const, *(c for _, c in rest.terms)) * t.dtype.nbits // 8
        align = gcd(known, MOST_ALIGN)
        match t.memory:
            case MemoryType.GLOBAL:
                return GlobalTile(t.dtype, grid.layout(strides[0]), gcd(align, t.align))
            case MemoryType.SHARED:
                swizzle = recognise(swizzled, dense[0], t.dtype.nbits, self.op.output)
                return SharedTile(t.dtype, grid.layout(strides[0]), swizzle, align)
            case MemoryType.TENSOR:
                return TmemTile(t.dtype, grid.layout(strides[0]), grid.layout(strides[1]))
            case MemoryType.LOCAL:
                return RegTile(t.dtype, self._registers(t, grid, strides[0], indices, digits))

    def _registers(
        self, t: TensorView, grid: Grid, strides: Mapping[Var, int], indices: Mapping[int, Var], digits: Digits
    ) -> ThreadLayout:
        """Who holds what: a register for each place that the loops of one thread reach."""
        threads = {d for i in self.inside if self.consumer.types[i].is_thread for d in digits.of.get(indices[i], ())}
        own = [d for d in digits if d not in threads]
        if any(strides[d] == 0 for d in own):
            raise TileError(
                f"{self.op.output}: {t.name}",
                "one register for several places of the tile",
                "a register for each",
                "Derive the tile of the copy before the broadcast.",
            )
        in_order = sorted(own, key=lambda d: -strides[d])
        return ThreadLayout(grid.shape, self._block(), self._thread_moves(grid, digits, indices), grid.moves(in_order))

    def _thread_moves(self, grid: Grid, digits: Digits, indices: Mapping[int, Var]) -> tuple[Moves, Moves, Moves]:
        found: list[Moves] = []
        for dimension in THREADS:
            carried = [i for i in self.inside if self.consumer.types[i] is dimension]
            if len(carried) > 1:
                raise TileError(
                    self.op.output,
                    f"{len(carried)} axes on {dimension}",
                    "one",
                    "Merge them, or use another dimension.",
                )
            found.append(grid.moves(d for i in carried for d in digits.of.get(indices[i], ())))
        return found[0], found[1], found[2]

    def _block(self) -> tuple[int, int, int]:
        sizes = block_shape(self.sf)
        x, y, z = (sizes[d].value if d in sizes else 1 for d in THREADS)
        return x, y, z


def _global_order(t: TensorView) -> tuple[tuple[IterDomain, ...], tuple[int, ...]]:
    """Axes and strides in elements of a global tensor at the binding."""
    assert t.allocation is not None, "a global tensor always has an allocation"
    if t.runtime_strides and not t.allocation.exprs:
        return t.logical, t.runtime_strides
    axes = t.allocation.axes
    extents = [1 if a.is_broadcast or a.is_reduction else a.extent for a in axes]
    return axes, dense_strides(extents, t.allocation.strides)


def _nested(first: Digits, second: Digits) -> Digits:
    """The digits of digits."""
    of = {i: tuple(x for d in digits for x in second.of[d]) for i, digits in first.of.items()}
    return Digits(of, second.exprs)
