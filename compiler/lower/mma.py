"""Products by tensor cores as statements: the instruction, and what goes around a group of them.

    hold registers; fence; instructions of the group; commit; wait; hold registers

Registers are the instructions' from the fence to the wait: what the compiler does with them stays on its side of both
(PTX ISA, wgmma.fence, wgmma.wait_group).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from compiler.analysis.facts import Facts
from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.mma.instructions import MmaUnit
from compiler.analysis.mma.register_operand import OperandFragment
from compiler.analysis.mma.shared_operand import OperandTile
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.tensor import TensorOp, TensorView
from compiler.lower.deal import first_turn
from compiler.lower.kernel_ir import If, Stmt
from compiler.lower.mma_ir import CommitMma, HoldRegisters, MatrixPlace, Mma, MmaAsync, MmaFence, WaitMma
from compiler.lower.nest import FoldStep, Node
from compiler.lower.operands import Less, Reg, Shared
from compiler.lower.traversal import map_exprs
from compiler.lower.turns import Loops


def is_asynchronous(facts: Facts, name: str) -> bool:
    """Whether the tensor is made in registers by instructions that go on while the threads do."""
    product = facts.products.get(name)
    return product is not None and product.unit is MmaUnit.WGMMA


def is_group(facts: Facts, node: Node, made: Iterable[str]) -> bool:
    """Whether all that a piece of a body makes, `made`, is made by such instructions: one group of them."""
    names = tuple(made)
    return not isinstance(node, FoldStep) and bool(names) and all(is_asynchronous(facts, name) for name in names)


def grouped(facts: Facts, made: Iterable[str], statements: Iterable[Stmt], pending: int) -> list[Stmt]:
    """A group with what goes around it; `pending` groups may be under way when the threads go on."""
    names = tuple(dict.fromkeys(made))
    rows = dict.fromkeys(facts.products[name].operands[0] for name in names if facts.products[name].holds_rows)
    results, operands = ([_held(facts, name) for name in of] for of in (names, rows))
    return [*results, *operands, MmaFence(), *statements, CommitMma(), WaitMma(pending), *results, *operands]


def taken_up(facts: Facts, number: int) -> tuple[Stmt, ...]:
    """In front of loop `number`, if it is one of steps that are dealt to blocks: what a tile before has left in the
    registers of the sum ends here. The compiler would carry it to the first step, and copy it there while instructions
    have the registers."""
    deal = facts.deal
    is_steps = deal is not None and number == deal.loops[1] and is_asynchronous(facts, deal.tensor)
    return (_held(facts, deal.tensor),) if deal is not None and is_steps else ()


def freed_late(facts: Facts, statements: Iterable[Stmt], turn: Var, late: int) -> Stmt:
    """What frees the stage of this turn of a loop, for that of `late` turns before, if there was one."""
    return If(
        (Less(first_turn(facts, turn) + (late - 1), var(turn)),), at_turn(statements, turn, var(turn) - const(late))
    )


def at_turn(statements: Iterable[Stmt], turn: Var, other: Expr) -> tuple[Stmt, ...]:
    """Statements of one turn of a loop, as another one has them."""
    return map_exprs(tuple(statements), lambda e: e.substitute({turn: other}))


def drained(facts: Facts, made: Iterable[str], freed: Iterable[Stmt], turn: Var, trip: Expr, late: int) -> list[Stmt]:
    """Behind a loop of `trip` turns: the end of what is under way, and the stages of the last `late` turns free."""
    held = [_held(facts, name) for name in dict.fromkeys(made)]
    last: list[Stmt] = []
    for n in range(late, 0, -1):
        stage, first = at_turn(freed, turn, trip - const(n)), first_turn(facts, turn)
        is_sure = first.is_const or n == 1  # of dealt turns there may be one alone
        last += stage if is_sure else (If((Less(first + (n - 1), trip),), stage),)
    return [WaitMma(0), *held, *last]


def _held(facts: Facts, name: str) -> HoldRegisters:
    t = facts.sf.tensor(name)
    return HoldRegisters(t.name, t.dtype, layout_of(t).elems)


Placed = Callable[[TensorView, Expr], Shared]
"""Where an element of a shared tensor is, by its number."""


def lower_product(facts: Facts, op: TensorOp, placed: Placed, loops: tuple[Var, ...]) -> Stmt:
    """The instruction of a product, all its loops open. `loops`: around it."""
    t, product = facts.sf.tensor(op.output), facts.products[op.output]
    assert product.instruction is not None, "legality refuses what no instruction makes"
    assert product.coordinates is not None, "an instruction has coordinates"
    target = Reg(t.name, t.dtype, product.coordinates.first(facts.indexing.write_offset(t)))
    left, right = (facts.sf.tensor(name) for name in product.operands)
    match product.rows, product.columns:
        case OperandTile() as rows, OperandTile() as columns:
            sides = matrix_place(rows, placed(left, rows.start)), matrix_place(columns, placed(right, columns.start))
            return MmaAsync(product.instruction, target, *sides, turns_summed(facts, op, loops))
        case OperandFragment() as rows, OperandTile() as columns:
            held = Reg(left.name, left.dtype, rows.start)
            tile = matrix_place(columns, placed(right, columns.start))
            return MmaAsync(product.instruction, target, held, tile, turns_summed(facts, op, loops))
        case OperandFragment() as rows, OperandFragment() as columns:
            pair = Reg(left.name, left.dtype, rows.start), Reg(right.name, right.dtype, columns.start)
            return Mma(product.instruction, target, *pair)
        case _:
            raise AssertionError("legality refuses operands that no instruction reads")


def matrix_place(side: OperandTile, place: Shared) -> MatrixPlace:
    """The operand of an instruction that begins at `place`."""
    return MatrixPlace(place, side.leading, side.stride, side.span, side.is_transposed)


def in_flight(facts: Facts, name: str, loops: Loops) -> int:
    """Groups of the instructions that make a tensor which may be under way when a turn of these loops ends: none where
    the innermost of them is unrolled, or goes on to another result. Those of tensor memory have barriers of their own.
    """
    if not is_asynchronous(facts, name):
        return 0
    innermost = loops[-1] if loops else None
    if innermost is None or innermost[1] or innermost[0].name not in _summed(facts, name):
        return 0
    return facts.sf.tensor(name).in_flight


def _summed(facts: Facts, name: str) -> frozenset[str]:
    """The variables of the loops along which a product is summed."""
    group, t = facts.indexing.nest.group[name], facts.sf.tensor(name)
    numbers = (g for g, axis in zip(group, t.loop, strict=True) if axis.is_reduction and g is not None)
    return frozenset(f"k{g}" for g in numbers)


def turns_summed(facts: Facts, op: TensorOp, loops: tuple[Var, ...]) -> Expr:
    """0 in a block's first turn of the loops that the product sums along: the result is made there, and added to."""
    summed, total = _summed(facts, op.output), const(0)
    for v in loops:
        total = total + var(v) - first_turn(facts, v) if v.name in summed else total
    return total
