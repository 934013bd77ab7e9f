"""What is said of products by tensor cores: the instruction, how its operands lie, and what may be under way."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.facts import Facts
from compiler.analysis.mma.instructions import MmaUnit
from compiler.analysis.mma.product import MmaProduct
from compiler.analysis.mma.rounding import is_rounded
from compiler.analysis.mma.shared_operand import OperandTile
from compiler.explain.names import counted

_PIECES = {False: "k side by side", True: "k apart, its own dimension side by side"}


def product_words(facts: Facts) -> Iterator[str]:
    """Lines for each product that an instruction makes."""
    for product in facts.products.values():
        yield from _words(facts, product)


def _words(facts: Facts, product: MmaProduct) -> Iterator[str]:
    t, made = facts.sf.tensor(product.tensor), product.instruction
    if made is None:
        yield f"{t.name}: no instruction has rows, columns and registers as its Mma axes have them"
        return
    if product.unit is MmaUnit.TCGEN05:
        yield f"{t.name}: {made}, asked for by one thread; a row of the result in a lane of tensor memory"
    else:
        who = "a group of 4 warps" if product.unit is MmaUnit.WGMMA else "a warp"
        yield f"{t.name}: {made}, {who} at a time, {counted(made.held, 'number')} of the result in a thread"
    for name, what, side in zip(product.operands, ("rows", "columns"), (product.rows, product.columns), strict=True):
        yield f"  {what} of {name}, {_operand(facts, name, side)}"
    if product.unit is MmaUnit.WGMMA:
        late = counted(t.in_flight, "group") if t.in_flight else "none"
        yield f"  under way when the next stage is waited for: {late}"
        yield from _dealt(facts)
    elif product.unit is MmaUnit.TCGEN05:
        yield f"  places of results: {1 + t.in_flight}, of {made.n} columns each"


def _dealt(facts: Facts) -> Iterator[str]:
    """Who has which turns, where they are dealt to blocks."""
    deal = facts.deal
    if deal is None:
        return
    tiles, steps = counted(deal.tile.extent, "tile"), counted(deal.step.extent, "step")
    share = counted(-(-deal.positions // deal.blocks), "step")
    yield f"  {tiles} of {steps} dealt to {deal.blocks} blocks, {share} or one less each"
    yield f"  a tile's sum is made by the block with its first step, of its own part and {deal.others} others at most"


def _operand(facts: Facts, name: str, side: object) -> str:
    t, copy = facts.sf.tensor(name), facts.tensor_maps.get(name)
    rounded = ", rounded to tf32 by the copy engine" if copy is not None and is_rounded(facts.sf, copy) else ""
    if isinstance(side, OperandTile):
        lines = f"swizzled lines of {side.span} bytes" if side.span else "lines of 16 bytes, not swizzled"
        words = f"{_PIECES[side.is_transposed]}, {lines}; descriptor: {side.stride} bytes from 8 lines to the next"
        if not side.span or side.is_transposed:
            words += f", {side.leading} from one line's end to where it goes on"
        return f"in {t.memory} memory{rounded}: {words}"
    return "in registers: fragments" if side is not None else f"in {t.memory} memory, as no instruction reads it"
