"""How the inputs of an unscheduled fusion are read: every read a move of its own, and no two that disagree on axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion, logical_correspondence
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.ops import ELSEWHERE, OpKind
from compiler.ir.tensor import Allocation, TensorOp, TensorView
from compiler.ir.views import View, reshaped
from compiler.schedule.start_space import KernelSpace


def global_tensor(name: str, shape: tuple[int, ...], dtype: DType, strides: tuple[int, ...], align: int) -> TensorView:
    """An input or output as it lies in memory, its loops its dimensions."""
    logical = tuple(IterDomain(f"{name}.{d}", n) for d, n in enumerate(shape))
    serial = (ParallelType.SERIAL,) * len(logical)
    allocation = Allocation(logical, strides)
    return TensorView(name, dtype, MemoryType.GLOBAL, logical, logical, serial, (), allocation, align=align)


@dataclass(frozen=True, slots=True)
class Strided:
    """A tensor of every so manyth element of an input, and the view of it."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    view: View


def every_so_many(t: TensorView, view: View, own: View) -> Strided | None:
    """The elements of an input that a view reads with a step along some dimension, from the first one on, and whole
    along the others, as a tensor of their own; None for any other view."""
    assert t.allocation is not None, "a global tensor always has an allocation"
    along_own = frozenset(v for e in own for v in e.variables)
    found: list[tuple[int, int, Expr]] = []
    for axis, stride, e in zip(t.logical, t.allocation.strides, view, strict=True):
        match e:
            case Expr(terms=(), const=0):
                found.append((1, stride or 0, e))
            case Expr(terms=((Var() as along, step),), const=0) if along in along_own and step > 1:
                found.append((along.extent, (stride or 0) * step, var(along)))
            case _ if e in own and e.hi + 1 == axis.extent:
                found.append((axis.extent, stride or 0, e))
            case _:
                return None
    if all(e == bare for e, (_, _, bare) in zip(view, found, strict=True)):
        return None
    return Strided(tuple(n for n, _, _ in found), tuple(s for _, s, _ in found), tuple(e for _, _, e in found))


def in_pieces(t: TensorView, view: View, own: View) -> Strided | None:
    """The elements of an input whose dimensions a view reads as several of the space's, one inside the other, as a
    tensor of those; None for any other view, and where no dimension is cut."""
    assert t.allocation is not None, "a global tensor always has an allocation"
    along_own = frozenset(v for e in own for v in e.variables)
    found: list[tuple[int, int, Expr]] = []
    for axis, stride, e in zip(t.logical, t.allocation.strides, view, strict=True):
        inner = 1
        pieces: list[tuple[int, int, Expr]] = []
        for atom, step in sorted(e.terms, key=lambda term: term[1]):
            if not isinstance(atom, Var) or atom not in along_own or step != inner:
                return None
            pieces.insert(0, (atom.extent, (stride or 0) * step, var(atom)))
            inner *= atom.extent
        if e.const or inner != axis.extent:
            return None
        found += pieces or [(1, stride or 0, e)]
    if len(found) == len(view):
        return None
    return Strided(tuple(n for n, _, _ in found), tuple(s for _, s, _ in found), tuple(e for _, _, e in found))


def with_axes_of_the_space(sf: ScheduledFusion, space: KernelSpace) -> ScheduledFusion:
    """The same fusion where inputs that are only read as reshapes of the space have its axes: they are read as they
    are, and the copy engine can bring their rows."""
    for name in sf.fusion.inputs:
        t, readers = sf.tensor(name), sf.consumers(name)
        assert t.allocation is not None, "a global tensor always has an allocation"
        sizes, own = tuple(a.extent for a in t.logical), t.allocation.strides
        strides = _grouped_strides(sizes, own, space) if space.count else cut_strides(sizes, own, space.shape)
        if strides is None or not readers:
            continue
        dims = range(len(space.shape))
        view = reshaped(sizes, space.shape, space.index(dims))
        if any(op.kind is not OpKind.VIEW or op.view != view or op.within for op in readers):
            continue
        read = {op.output for op in readers}
        ops = tuple(
            replace(op, inputs=tuple(name if x in read else x for x in op.inputs)) for op in sf.ops if op not in readers
        )
        cut = replace(global_tensor(name, space.shape, t.dtype, strides, t.align), end=space.end(dims))
        tensors = tuple(cut if other.name == name else other for other in sf.tensors if other.name not in read)
        sf = replace(sf, tensors=tensors, ops=ops)
    return sf


def cut_strides(
    sizes: tuple[int, ...], strides: tuple[int | None, ...], shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The strides of a tensor whose sizes are cut into those of `shape`; None where each of these is no piece of one
    size."""
    left, found = list(shape), list[int]()
    for n, stride in zip(reversed(sizes), reversed(strides), strict=True):
        step = 1
        while left and step < n and n % (step * left[-1]) == 0:
            found.append((stride or 0) * step)
            step *= left.pop()
        if step != n:
            return None
    return None if left else tuple(reversed(found))


def _grouped_strides(
    sizes: tuple[int, ...], strides: tuple[int | None, ...], space: KernelSpace
) -> tuple[int, ...] | None:
    """The same where the first dimensions of `space` are groups of rows that do not divide the rows."""
    at = next((d for d in range(len(sizes) + 1) if prod(sizes[:d]) == space.count), 0)
    rows = cut_strides(sizes[:at], strides[:at], (space.count,))
    inner = cut_strides(sizes[at:], strides[at:], space.shape[2:])
    if rows is None and at > 1:
        rows = _merged_stride(sizes[:at], strides[:at])
    return None if rows is None or inner is None else (rows[0] * space.shape[1], *rows, *inner)


def _merged_stride(sizes: tuple[int, ...], strides: tuple[int | None, ...]) -> tuple[int] | None:
    """The stride of dimensions taken as one; None where their elements are no equal distances apart."""
    step = strides[-1] or 0
    for n, stride, further in zip(sizes[1:], strides[1:], strides, strict=False):
        if (further or 0) != (stride or 0) * n:
            return None
    return (step,)


def read_apart(sf: ScheduledFusion, dims: Mapping[str, tuple[int, ...]]) -> ScheduledFusion:
    """The same fusion with an input for each way to read it: two reads may disagree on which dimension is which.

    `dims`: of every tensor that is made, the dimensions of the space that its axes are.

    The sum of a matrix and its transpose then has two inputs, which happen to lie in the same memory: axes of one
    tensor stay different axes (nvFuser, exact graph). Nor do reads at places that are data share a tensor with others,
    which may come by any way.
    """
    ops, aliases = list(sf.ops), []
    for name in sf.fusion.inputs:
        known: dict[str, dict[int, int]] = {}
        chosen: set[str] = set()
        for i, op in enumerate(ops):
            if name not in op.inputs:
                continue
            places = _dims_read(sf, dims[op.output], op, name)
            is_chosen = op.kind is OpKind.TAKE and op.inputs[0] == name
            alike = ((other, at) for other, at in known.items() if (other in chosen) is is_chosen)
            alias = next((other for other, at in alike if _agree(at, places)), None)
            if alias is None:
                alias = f"{name}_{len(known)}" if known else name
                if known:
                    v = sf.fusion.value(name)
                    aliases.append(replace(global_tensor(alias, v.shape, v.dtype, v.strides, v.align), part_of=name))
                known[alias] = {}
                chosen |= {alias} if is_chosen else set()
            known[alias].update(places)
            ops[i] = _reading(op, name, alias)
    apart = replace(sf, tensors=(*sf.tensors, *aliases), ops=tuple(ops))
    for name in apart.inputs:
        apart = _every_read_a_move(apart, name)
    return apart


def _dims_read(sf: ScheduledFusion, dims: tuple[int, ...], op: TensorOp, name: str) -> dict[int, int]:
    """Dimensions of an input that `op` reads one to one, and the dimensions of the space that they are."""
    source, result = sf.tensor(name), sf.tensor(op.output)
    pairs = logical_correspondence(op, source, result).items()
    return {source.logical.index(p): dims[result.logical.index(c)] for p, c in pairs if p.extent > 1}


def _agree(a: dict[int, int], b: dict[int, int]) -> bool:
    """True if no key has two values, and no value two keys."""
    both = a | b
    return all(a.get(k, v) == v for k, v in b.items()) and len(set(both.values())) == len(both)


def _reading(op: TensorOp, old: str, new: str) -> TensorOp:
    return replace(op, inputs=tuple(new if x == old else x for x in op.inputs))


def _every_read_a_move(sf: ScheduledFusion, name: str) -> ScheduledFusion:
    """Gives an input that is read both through views and as it is a register copy of its own for the latter."""
    readers = sf.consumers(name)
    direct = [op for op in readers if op.kind not in ELSEWHERE]
    if not direct or len(direct) == len(readers):
        return sf
    copy = TensorOp(OpKind.COPY, (name,), f"w{len(sf.ops)}")
    logical = tuple(IterDomain(f"{copy.output}.{d}", a.extent) for d, a in enumerate(sf.tensor(name).logical))
    serial = (ParallelType.SERIAL,) * len(logical)
    t = sf.tensor(name)
    copied = TensorView(copy.output, t.dtype, MemoryType.LOCAL, logical, logical, serial, end=t.end)
    first = sf.ops.index(direct[0])
    ops = [_reading(op, name, copy.output) if op in direct else op for op in sf.ops]
    return replace(sf, tensors=(*sf.tensors, copied), ops=(*ops[:first], copy, *ops[first:]))
