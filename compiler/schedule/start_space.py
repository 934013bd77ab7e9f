"""The iteration space of a fusion: its shape, the dimensions that reductions fold, and how each output lies in it.

Most kernels have reductions of the same dimensions. A second set of reductions may fold others, across the first: of
rows in memory that are summed, their columns are summed too (nvFuser, inner and outer reductions). What those
leave is stored, for it is known once a block has been through all its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from compiler.errors import Unsupported
from compiler.ir.expr import var
from compiler.ir.fusion import Fusion, Op, dense_strides
from compiler.ir.ops import CONTRACTIONS, FOLDS, POINTWISE, SCANS, OpKind
from compiler.ir.tensor import End
from compiler.ir.views import View, position, reshaped
from compiler.schedule.start_groups import Groups, groups_of


@dataclass(frozen=True, slots=True)
class KernelSpace:
    """The space of one kernel.

    `shape`: of the full space; `folded`: its dimensions that reductions fold, ascending. Where outputs are stored in
    `parts`, the space is that of one part: they follow one another along dimension `part_dim`.
    `crossed`: other dimensions, which the reductions `columns` fold; `across`: values that are computed from those.
    `is_chained`: they fold what the first reductions leave, so that neither they nor what comes of them has any of the
    dimensions that those fold.
    `count`: of the first two dimensions together, groups of rows, only so many places are there; 0 where all are.
    """

    shape: tuple[int, ...]
    folded: tuple[int, ...] = ()
    parts: int = 1
    part_dim: int = 0
    crossed: tuple[int, ...] = ()
    columns: frozenset[str] = frozenset()
    across: frozenset[str] = frozenset()
    is_chained: bool = False
    count: int = 0

    @property
    def whole(self) -> tuple[int, ...]:
        """The shape that all parts have together."""
        return tuple(n * self.parts if d == self.part_dim else n for d, n in enumerate(self.shape))

    def in_parts(self, dim: int, parts: int) -> KernelSpace:
        """The space of one of so many equal parts along a dimension."""
        shape = tuple(n // parts if d == dim else n for d, n in enumerate(self.shape))
        return KernelSpace(shape, self.folded, parts, dim)

    @property
    def kept(self) -> tuple[int, ...]:
        """Dimensions that the results of reductions have."""
        return self.beside(self.folded)

    @property
    def left_across(self) -> tuple[int, ...]:
        """Dimensions that the results of the reductions `columns` have."""
        return self.beside((*self.crossed, *self.folded) if self.is_chained else self.crossed)

    def beside(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        """All dimensions but these."""
        return tuple(d for d in range(len(self.shape)) if d not in dims)

    def extents(self, dims: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.shape[d] for d in dims)

    def elems(self, dims: Sequence[int]) -> int:
        """Elements along some dimensions, without the places that are not there."""
        whole = prod(self.extents(dims))
        return whole // prod(self.shape[:2]) * self.count if self.count and {0, 1} <= set(dims) else whole

    def end(self, dims: Sequence[int]) -> End | None:
        """Where the elements of a tensor over these dimensions end."""
        return End(dims.index(0), dims.index(1), self.count) if self.count and {0, 1} <= set(dims) else None

    def index(self, dims: Iterable[int]) -> View:
        """Positions along some dimensions of the space."""
        return tuple(var(position(d, self.shape[d])) for d in dims)


def folded_dims(fusion: Fusion, op: Op) -> tuple[int, ...]:
    """The dimensions of more than one element that a reduction folds; none where it only drops sizes of one."""
    source = fusion.value(op.tensor_inputs[0]).shape
    return tuple(d for d in op.dims if source[d] > 1)


def space_of(fusion: Fusion) -> KernelSpace:
    """The space that the reductions ask for, or else the outputs; cut as finely as its reshapes cut it.

    Raises Unsupported where outputs have no place in one space.
    """
    needed = _needed(fusion)
    product = next((op for op in fusion.ops if op.kind in CONTRACTIONS and op.output in needed), None)
    if product is not None:
        return _contracted(fusion, product)
    folds = [op for op in fusion.ops if op.kind in FOLDS and op.output in needed and folded_dims(fusion, op)]
    grouped = {op.output: groups for op in folds if (groups := groups_of(fusion, op)) is not None}
    scan = next((op for op in fusion.ops if op.kind in SCANS and op.output in needed), None)
    anchor = folds[0].tensor_inputs[0] if folds else scan.output if scan is not None else fusion.outputs[0]
    anchor = next((groups.source for groups in grouped.values()), anchor)
    aligned = _aligned(fusion, anchor)
    shape = _cut(fusion, anchor, aligned)
    space = _grouped(fusion, shape, folds, aligned, grouped) if grouped else None
    if space is None and grouped:
        anchor = folds[0].tensor_inputs[0]
        aligned = _aligned(fusion, anchor)
        shape = _cut(fusion, anchor, aligned)
    first = _places(fusion.value(anchor).shape, folded_dims(fusion, folds[0]), shape) if folds and not space else ()
    if scan is not None and not folds:  # what it goes along is not all that there is, as of a fold
        first = _places(fusion.value(scan.output).shape, scan.dims, shape)
        space = KernelSpace(_with_kept(shape, first).shape)
    space = space or _crossed(fusion, shape, folds, aligned) or _with_kept(shape, first)
    for name in fusion.outputs:
        _refuse_unplaced(fusion, space, name, aligned)
    return space


def _contracted(fusion: Fusion, op: Op) -> KernelSpace:
    """The space of a contraction: the dimensions of its result, in the order of the first output that has as many
    elements, and the one that it sums along. Reductions may fold some of the others, all the same. Raises
    Unsupported."""
    elems = fusion.value(op.output).elems
    anchor = next((name for name in fusion.outputs if fusion.value(name).elems == elems), op.output)
    aligned = _aligned(fusion, anchor)
    shape = _cut(fusion, anchor, aligned)
    summed, columns = fusion.value(op.tensor_inputs[0]).shape[-1], _behind(fusion, shape, op, aligned)
    space = KernelSpace(
        (*shape, summed),
        (len(shape),),
        crossed=next(iter(columns.values()), ()),
        columns=frozenset(columns),
        across=_from(fusion, frozenset(columns)),
        is_chained=True,
    )
    for name in fusion.outputs:
        _refuse_unplaced(fusion, space, name, aligned)
    return space


def _behind(fusion: Fusion, shape: tuple[int, ...], product: Op, aligned: frozenset[str]) -> dict[str, tuple[int, ...]]:
    """The reductions of what a contraction leaves, each with the dimensions of `shape` that it folds, the same for all;
    none where they differ, or fold all that there is."""
    behind, needed = _from(fusion, frozenset({product.output})), _needed(fusion)
    found: dict[str, tuple[int, ...]] = {}
    for op in fusion.ops:
        if op.kind in FOLDS and op.output in needed and op.tensor_inputs[0] in behind and folded_dims(fusion, op):
            operand = op.tensor_inputs[0]
            if operand not in aligned:
                return {}
            found[op.output] = _places(fusion.value(operand).shape, folded_dims(fusion, op), shape)
    return found if len(set(found.values())) == 1 and len(next(iter(found.values()))) < len(shape) else {}


def _needed(fusion: Fusion) -> set[str]:
    """Values that some output is computed from, outputs included."""
    found = set(fusion.outputs)
    for op in reversed(fusion.ops):
        if op.output in found:
            found.update(op.tensor_inputs)
    return found


def _aligned(fusion: Fusion, anchor: str) -> frozenset[str]:
    """Values whose elements stand in the same row-major order as the anchor's: they are joined to it by pointwise
    operators and reshapes."""
    edges: dict[str, set[str]] = {}
    for op in fusion.ops:
        if op.kind in POINTWISE | SCANS or op.kind in (OpKind.COPY, OpKind.RESHAPE):
            for name in op.tensor_inputs:
                edges.setdefault(name, set()).add(op.output)
                edges.setdefault(op.output, set()).add(name)
    found, waiting = {anchor}, [anchor]
    while waiting:
        for name in edges.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return frozenset(found)


def _cut(fusion: Fusion, anchor: str, aligned: frozenset[str]) -> tuple[int, ...]:
    """The anchor's shape, cut further where an aligned value has another shape whose cuts refine it.

    A shape cuts the row-major order at the products of its last sizes; two shapes have a common refinement where all
    those products divide one another in turn.
    """
    shape = fusion.value(anchor).shape
    shapes = dict.fromkeys(v.shape for v in fusion.values if v.name in aligned)
    if len(shapes) == 1:
        return shape
    cuts = _cuts(shape)
    for other in shapes:
        both = sorted(set(cuts) | set(_cuts(other)))
        if all(b % a == 0 for a, b in pairwise(both)):
            cuts = both
    return tuple(high // low for low, high in reversed(list(pairwise(cuts)))) or (1,)


def _places(source: tuple[int, ...], dims: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of `shape`, a refinement of `source`, that lie in some dimensions of that."""
    if source == shape:
        return dims
    theirs, ours = dense_strides(source), dense_strides(shape)
    spans = [(theirs[d], theirs[d] * source[d]) for d in dims]
    ends = [(low, low * n) for low, n in zip(ours, shape, strict=True)]
    return tuple(
        d for d, (low, high) in enumerate(ends) if high > low and any(a <= low and high <= b for a, b in spans)
    )


def _crossed(
    fusion: Fusion, shape: tuple[int, ...], folds: Sequence[Op], aligned: frozenset[str]
) -> KernelSpace | None:
    """The space of reductions of two sets of dimensions of one shape, of which one has its innermost dimension and
    which leave some dimension of several places to both; None where they are no such two."""
    sets: dict[str, tuple[int, ...]] = {}
    for op in folds:
        (operand,) = op.tensor_inputs
        if operand in aligned:
            sets[op.output] = _places(fusion.value(operand).shape, folded_dims(fusion, op), shape)
    kinds = dict.fromkeys(sets.values())
    real = [d for d, n in enumerate(shape) if n > 1]
    rows = [dims for dims in kinds if real and real[-1] in dims]
    columns = [dims for dims in kinds if dims not in rows]
    if len(rows) != 1 or len(columns) != 1 or not set(rows[0]).isdisjoint(columns[0]):
        return None
    if set(real) <= {*rows[0], *columns[0]}:
        return None
    names = frozenset(name for name, dims in sets.items() if dims == columns[0])
    return KernelSpace(shape, rows[0], crossed=columns[0], columns=names, across=_from(fusion, names))


def _from(fusion: Fusion, names: frozenset[str]) -> frozenset[str]:
    """Some values, and all that are computed from them."""
    found = set(names)
    for op in fusion.ops:
        if not found.isdisjoint(op.tensor_inputs):
            found.add(op.output)
    return frozenset(found)


def _grouped(
    fusion: Fusion, shape: tuple[int, ...], folds: Sequence[Op], aligned: frozenset[str], grouped: Mapping[str, Groups]
) -> KernelSpace | None:
    """The space of groups of rows that do not divide the rows, where the other reductions fold the same dimensions of
    each row; None where they do not. `shape`: of all rows, as finely as the values that are aligned cut it."""
    first = next(iter(grouped.values()))
    at = next((d for d in range(len(shape) + 1) if prod(shape[:d]) == first.count), None)
    alike = all((g.groups, g.size, g.count) == (first.groups, first.size, first.count) for g in grouped.values())
    if at is None or not alike or any(g.source not in aligned for g in grouped.values()):
        return None
    others = [op for op in folds if op.output not in grouped]
    if any(op.tensor_inputs[0] not in aligned for op in others):
        return None
    sets = {_places(fusion.value(op.tensor_inputs[0]).shape, folded_dims(fusion, op), shape) for op in others}
    rows = next(iter(sets), ())
    if len(sets) != 1 or any(d < at for d in rows):
        return None
    names = frozenset(grouped)
    return KernelSpace(
        (first.groups, first.size, *shape[at:]),
        tuple(d - at + 2 for d in rows),
        crossed=(1,),
        columns=names,
        across=_from(fusion, names),
        count=first.count,
    )


def _cuts(shape: tuple[int, ...]) -> list[int]:
    """Products of the last sizes of a shape, ascending, each once: where its row-major order is cut."""
    return sorted({prod(shape[d:]) for d in range(len(shape) + 1)})


def _with_kept(shape: tuple[int, ...], folded: tuple[int, ...]) -> KernelSpace:
    """The space of a shape; where nothing is kept, or nothing is there, it gets a leading dimension of size one."""
    if len(folded) < len(shape):
        return KernelSpace(shape, folded)
    return KernelSpace((1, *shape), tuple(d + 1 for d in folded))


def _refuse_unplaced(fusion: Fusion, space: KernelSpace, name: str, aligned: frozenset[str]) -> None:
    """Raises Unsupported for an output that neither the full space nor the kept dimensions hold in their order."""
    shape = fusion.value(name).shape
    dims = space.left_across if name in space.across else space.kept
    kept = space.extents(dims)
    if space.folded and prod(shape) == space.elems(dims):
        return
    is_placed = name in aligned or _squeezed(shape) == _squeezed(space.shape)
    if prod(shape) == space.elems(range(len(space.shape))) and is_placed and name not in space.across:
        return
    spaces = f"{list(space.shape)}" + (f" or {list(kept)}" if space.folded else "")
    raise Unsupported(
        f"output {name} of shape {list(shape)} in a kernel over {spaces}", "Leave it to a launch of its own."
    )


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n > 1)


def scanned_dims(fusion: Fusion, space: KernelSpace, op: Op) -> tuple[int, ...]:
    """The dimensions of the space that a scan goes along, the slowest first."""
    return _places(fusion.value(op.output).shape, op.dims, space.shape)


def is_reduced(fusion: Fusion, space: KernelSpace, name: str) -> bool:
    """True for an output that has the kept dimensions only."""
    whole = space.elems(space.kept)
    return bool(space.folded) and name not in space.across and prod(fusion.value(name).shape) == whole


def output_dims(fusion: Fusion, space: KernelSpace, name: str) -> tuple[int, ...]:
    """The dimensions of the space that an output has."""
    if name in space.across:
        return space.left_across
    return space.kept if is_reduced(fusion, space, name) else tuple(range(len(space.shape)))


def output_view(fusion: Fusion, space: KernelSpace, name: str, part: int = 0) -> View:
    """The index of an output, row-major, at the position of the space, of one of its parts."""
    dims = output_dims(fusion, space, name)
    shape, whole = fusion.value(name).shape, tuple(space.whole[d] for d in dims)
    step = space.shape[space.part_dim] * part
    index = tuple(e + step if d == space.part_dim else e for d, e in zip(dims, space.index(dims), strict=True))
    return index if shape == whole else reshaped(shape, whole, index)
