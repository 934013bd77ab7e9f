"""The control flow of a function: blocks, the order in which diverged lanes run, unassigned registers."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.emulate.ptx import nesting
from compiler.emulate.ptx.assignment import maybe_unassigned
from compiler.emulate.ptx.module import Function, LabelRef, PtxInstruction, PtxSymbol

_ENDS = frozenset({"ret", "exit", "trap"})
_LEAVES = _ENDS | {"bra", "brx"}


@dataclass(frozen=True, slots=True)
class Flow:
    """The control flow of a function; numbers are indices of its instructions, `blocks` are in program order.

    `successors[b]` are the blocks, as indices into `blocks`, that may follow block b. `position` has a rank for each
    instruction, all different: lanes that stand at the lowest rank run first. Loops are contiguous and come before
    what follows them, and where paths join comes after all of them, so that lanes wait for each other there.
    `leaders` are the first instructions of the blocks. `maybe_unassigned` are indices of registers that may
    be read without having a value (`assignment`).
    """

    blocks: tuple[range, ...]
    successors: tuple[tuple[int, ...], ...]
    position: tuple[int, ...]
    leaders: frozenset[int]
    maybe_unassigned: frozenset[int]


def flow(function: Function) -> Flow:
    """The control flow of a defined function."""
    instructions = function.instructions
    count = len(instructions)
    starts = {0} if count else set()
    for index, insn in enumerate(instructions):
        if insn.opcode in _LEAVES:
            starts.add(index + 1)
            starts.update(_targets(insn, function))
    starts.discard(count)
    leaders = sorted(starts)
    blocks = tuple(range(a, b) for a, b in zip(leaders, [*leaders[1:], count], strict=True)) if count else ()
    block_at = {block.start: k for k, block in enumerate(blocks)}
    successors = tuple(
        tuple(block_at[t] for t in _next(block[-1], instructions[block[-1]], function) if t < count) for block in blocks
    )
    position = [0] * count
    rank = 0
    for block_index in nesting.order(successors):
        for index in blocks[block_index]:
            position[index] = rank
            rank += 1
    return Flow(
        blocks,
        successors,
        tuple(position),
        frozenset(leaders),
        maybe_unassigned(instructions, blocks, successors),
    )


def _next(index: int, insn: PtxInstruction, function: Function) -> list[int]:
    """Where control may go from an instruction, each place once."""
    if insn.opcode not in _LEAVES:
        return [index + 1]
    targets = [index + 1] if insn.guard is not None else []
    return list(dict.fromkeys([*targets, *_targets(insn, function)]))


def _targets(insn: PtxInstruction, function: Function) -> tuple[int, ...]:
    found: list[int] = []
    for operand in insn.operands if insn.opcode in ("bra", "brx") else ():
        if isinstance(operand, LabelRef):
            found.append(operand.target)
        elif isinstance(operand, PtxSymbol):
            found.extend(function.branch_tables[operand.name])
    return tuple(found)
