"""When two kernels are of one class: equal but for the numbers that the sizes of a binding bring in.

Everything on chip must be equal to the byte: widths, registers, shared memory, barriers, boxes, swizzles, unrolled
loops, bytes announced. So must be which accesses are guarded, by how many conditions, and what varies in them between
the threads of a block. Numbers in offsets, bounds and trip counts are those of the sizes; and where a tile lies, which
is the same for all threads of a block, may be worked out in more or fewer quotients and remainders, since they vanish
where a block number stays below their divisor. That arithmetic is what the served code's own blocks are run for.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from compiler.ir.expr import Atom, Div, Expr, Inside, Mod, Var, Xor
from compiler.lower import kernel_ir as k
from compiler.lower.grid_ir import DealtShare, DealtSteps, PartsBehind
from compiler.lower.operands import Barrier, ChosenRow, Reg, Shared, TensorMap
from compiler.lower.traversal import walk

_ON_CHIP = (Reg, Shared, Barrier)
_BLOCKS = frozenset({"bx", "by", "bz"})


def structure(kernel: k.Kernel) -> Any:
    """A value that is equal for kernels of one class. The width of indices is not part of it: it can be chosen."""
    serial = {s.var.name for s in walk(kernel.body) if isinstance(s, k.Loop) and not s.unroll}
    blocks = _BLOCKS | {v.name for s in walk(kernel.body) for v in _dealt(s)}
    form = _Form(frozenset(serial | blocks), blocks)
    return (
        kernel.pointers,
        tuple(map(_tensor_map, kernel.tensor_maps)),
        tuple(extent > 1 for extent in kernel.grid),
        kernel.block,
        kernel.cluster,
        kernel.smem_bytes,
        kernel.smem_align,
        kernel.max_registers,
        tuple((p.name, p.dtype, p.is_zeroed) for p in kernel.scratch),
        form.of(kernel.body),
    )


def _dealt(s: k.Stmt) -> tuple[Var, ...]:
    """What a statement names of the turns that a block has: the same for all of its threads."""
    match s:
        case DealtShare():
            return (s.begin, s.end)
        case DealtSteps():
            return (s.first, s.stop)
        case PartsBehind():
            return (s.count,)
        case _:
            return ()


def _tensor_map(m: TensorMap) -> Any:
    """What the engine does with a box; of the sizes, only whether the last box of a dimension is cut."""
    cut = tuple(bool(size % box) for size, box in zip(m.dims, m.box, strict=True))
    return (m.name, m.dtype, m.position, len(m.dims), m.box, m.element_strides, m.swizzle, cut)


@dataclass(frozen=True, slots=True)
class _Form:
    """Takes the numbers out of statements. `uniform`: variables that are the same for all threads of a block, `blocks`:
    those of them that tell one from another."""

    uniform: frozenset[str]
    blocks: frozenset[str]

    def of(self, node: Any) -> Any:
        """A statement, an operand or a tuple of them."""
        match node:
            case ChosenRow():  # how many rows there are is a size; how its index is numbered, no code
                return ("row", node.var.name, self.of(node.index))
            case k.Loop() if node.unroll:
                return ("unroll", node.var.name, str(node.trip), self.of(node.body))
            case k.Loop():
                return ("for", node.var.name, self.of(node.start), self.of(node.trip), self.of(node.body))
            case DealtShare() | DealtSteps() | PartsBehind():  # how many turns and blocks there are are sizes
                return (type(node).__name__, *(v.name for v in _dealt(node)))
            case Expr():
                return self.expression(node)
            case tuple():
                return tuple(map(self.of, node))
        if isinstance(node, _ON_CHIP):
            return (type(node).__name__, *(self.on_chip(getattr(node, f.name)) for f in fields(node)))
        if is_dataclass(node) and not isinstance(node, type):
            return (type(node).__name__, *(self.of(getattr(node, f.name)) for f in fields(node)))
        return node

    def on_chip(self, node: Any) -> Any:
        """A part of what names a place in registers or shared memory: every number of it, but for those by which a
        block's number is taken apart into that of a row of tiles. The phases of rows depend on it."""
        if not isinstance(node, Expr):
            return str(node)
        return (node.const, *sorted((repr(self._place(atom)), c) for atom, c in node.terms))

    def _place(self, atom: Atom) -> Any:
        if not isinstance(atom, Var) and self._is_uniform(atom) and not self.blocks.isdisjoint(_names(atom)):
            return "tile"
        match atom:
            case Var():
                return atom.name
            case Div() | Mod():
                return (type(atom).__name__, self.on_chip(atom.numerator), atom.divisor)
            case Xor():
                return ("^", self.on_chip(atom.left), self.on_chip(atom.right))
            case Inside():
                return str(atom)

    def expression(self, e: Expr) -> Any:
        """The terms that vary between threads, in an order of their own; coefficients by their sign."""
        varying = [(atom, c) for atom, c in e.terms if not self._is_uniform(atom)]
        return tuple(sorted((repr(self._atom(atom)), c > 0) for atom, c in varying))

    def _is_uniform(self, atom: Atom) -> bool:
        return _names(atom) <= self.uniform

    def _atom(self, atom: Atom) -> Any:
        match atom:
            case Var():
                return atom.name
            case Div():
                return ("/", self.expression(atom.numerator))
            case Mod():
                return ("%", self.expression(atom.numerator))
            case Xor():
                return ("^", self.expression(atom.left), self.expression(atom.right))
            case Inside():
                return ("[]", self.expression(atom.value))


def _names(atom: Atom) -> set[str]:
    return {v.name for v in Expr(((atom, 1),)).variables}
