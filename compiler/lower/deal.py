"""Loops whose turns are dealt to blocks: where they begin and end in a block, and which of its turns is which."""

from __future__ import annotations

from dataclasses import replace

from compiler.analysis.facts import Facts
from compiler.analysis.loops.deal import usual_turns
from compiler.ir.expr import Expr, Var, const, var
from compiler.lower.grid_ir import DealtShare, DealtSteps
from compiler.lower.kernel_ir import Loop, Stmt


def stop_of(facts: Facts, number: int, extent: int) -> Expr:
    """The turn behind a block's last one of loop `number`, which has so many."""
    deal = facts.deal
    if deal is None or number not in deal.loops:
        return const(extent)
    return deal.last_tile if number == deal.loops[0] else var(deal.last_step)


def begun(facts: Facts, loop: Loop, number: int) -> tuple[Stmt, ...]:
    """Loop `number` from a block's first turn on, and what says which that is."""
    deal = facts.deal
    if deal is None or number not in deal.loops:
        return (loop,)
    tiles, steps = usual_turns(deal.tile.extent, deal.step.extent, deal.blocks)
    if number == deal.loops[0]:
        return (replace(loop, start=deal.first_tile, usual=tiles),)
    begin, end = var(deal.begin), var(deal.end)
    found = DealtSteps(deal.first_step, deal.last_step, deal.tile_begin, begin, end, deal.step.extent)
    return (found, replace(loop, start=var(deal.first_step), usual=steps))


def share(facts: Facts) -> tuple[Stmt, ...]:
    """What says which turns a block has, where they are dealt."""
    deal = facts.deal
    if deal is None:
        return ()
    first, last = ((deal.block * -1 + n) * deal.positions for n in (deal.blocks - 1, deal.blocks))
    return (DealtShare(deal.begin, deal.end, first, last, deal.blocks),)


def first_turn(facts: Facts, variable: Var) -> Expr:
    """A block's first turn of the loop along a sum."""
    deal = facts.deal
    return var(deal.first_step) if deal is not None and variable == deal.step else const(0)
