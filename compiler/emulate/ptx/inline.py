"""Calls of device functions, put in line: the emulator has no call stack (PTX ISA, "call").

Arguments and results travel in `.param` variables. The callee's names for them become the caller's, its registers get
numbers of their own, its `ret` becomes a branch to behind the call. Calls that cannot be put in line (recursive ones,
those through a register) stay as they are, and are refused when they are reached.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.emulate.ptx.module import (
    Address,
    Function,
    Immediate,
    LabelRef,
    Module,
    Negated,
    Operand,
    Pair,
    PtxInstruction,
    PtxSymbol,
    Register,
    StateSpace,
    Variable,
    Vector,
)

_PRINTF = "vprintf"
_ASSERT = "__assertfail"


def inlined(module: Module, function: Function) -> Function:
    """`function` with its calls put in line; itself if it has none."""
    if not any(i.opcode == "call" for i in function.instructions):
        return function
    body = _Body([], list(function.registers), {v.name: v for v in function.variables}, {})
    _append(module, function, body, {}, 0, (function.name,))
    return replace(
        function,
        registers=tuple(body.registers),
        variables=tuple(body.variables.values()),
        instructions=tuple(body.instructions),
        branch_tables=body.tables,
    )


@dataclass(slots=True)
class _Body:
    instructions: list[PtxInstruction]
    registers: list[Register]
    variables: dict[str, Variable]
    tables: dict[str, tuple[int, ...]]


def _append(
    module: Module, function: Function, body: _Body, names: dict[str, str], shift: int, stack: tuple[str, ...]
) -> None:
    """Appends the instructions of `function`: registers moved by `shift`, symbols renamed, targets made absolute."""
    start = len(body.instructions)
    where: list[int] = []
    for insn in function.instructions:
        where.append(len(body.instructions))
        moved = _moved(insn, names, shift)
        callee = _callee(module, moved, stack)
        if callee is None:
            body.instructions.append(moved)
        else:
            _call(module, moved, callee, body, stack)
    end = len(body.instructions)
    where.append(end)
    for index in range(start, end):
        insn = body.instructions[index]
        if insn.opcode == "bra" and isinstance(insn.operands[0], LabelRef) and insn.operands[0].target < 0:
            label = insn.operands[0]
            aimed = replace(label, target=where[-1 - label.target])
            body.instructions[index] = replace(insn, operands=(aimed,))
        elif insn.opcode == "ret" and len(stack) > 1:
            body.instructions[index] = replace(insn, name=("bra",), operands=(LabelRef("return", end),))
    for name, targets in function.branch_tables.items():
        body.tables[names.get(name, name)] = tuple(where[t] for t in targets)


def _callee(module: Module, insn: PtxInstruction, stack: tuple[str, ...]) -> Function | None:
    if insn.opcode != "call" or not isinstance(insn.operands[1], PtxSymbol):
        return None
    name = insn.operands[1].name
    if name in (_PRINTF, _ASSERT):
        return module.functions.get(name)
    function = module.functions.get(name)
    return function if function is not None and function.is_defined and name not in stack else None


def _call(module: Module, insn: PtxInstruction, callee: Function, body: _Body, stack: tuple[str, ...]) -> None:
    results, _, arguments = insn.operands[:3]
    assert isinstance(results, Vector)
    assert isinstance(arguments, Vector)
    given = (*results.items, *arguments.items)
    expected = (*callee.results, *callee.params)
    if len(given) != len(expected) or not all(isinstance(g, PtxSymbol) for g in given):
        body.instructions.append(insn)
        return
    skip = len(body.instructions) if insn.guard is not None else None
    if insn.guard is not None:
        around = replace(insn, name=("bra",), operands=(LabelRef("after_call", 0),))
        body.instructions.append(replace(around, guard_negated=not insn.guard_negated))
    plain = replace(insn, guard=None, guard_negated=False)
    if callee.name == _PRINTF:  # what it prints changes no memory that the kernel sees
        zero = (Address(results.items[0]), Immediate(0))  # type: ignore[arg-type]  # checked to be a Symbol above
        body.instructions.append(replace(plain, name=("st", "param", "b32"), operands=zero))
    elif callee.name == _ASSERT:
        body.instructions.append(replace(plain, name=("trap",), operands=()))
    else:
        names = {e.name: g.name for e, g in zip(expected, given, strict=True) if isinstance(g, PtxSymbol)}
        copy = f"@{len(body.instructions)}"
        own = [v for v in callee.variables if v.space in (StateSpace.LOCAL, StateSpace.PARAM)]
        names |= {name: f"{name}{copy}" for name in (*callee.branch_tables, *(v.name for v in own))}
        shift = len(body.registers)
        body.registers += [replace(r, index=r.index + shift) for r in callee.registers]
        renamed = [replace(v, name=names.get(v.name, v.name)) for v in callee.variables]
        body.variables |= {v.name: v for v in renamed}
        _append(module, callee, body, names, shift, (*stack, callee.name))
    if skip is not None:
        after = LabelRef("after_call", len(body.instructions))
        body.instructions[skip] = replace(body.instructions[skip], operands=(after,))


def _moved(insn: PtxInstruction, names: dict[str, str], shift: int) -> PtxInstruction:
    guard = insn.guard and _register(insn.guard, shift)
    operands = tuple(_operand(o, names, shift) for o in insn.operands)
    return replace(insn, guard=guard, operands=operands)


def _register(register: Register, shift: int) -> Register:
    return replace(register, index=register.index + shift) if shift else register


def _operand(operand: Operand, names: dict[str, str], shift: int) -> Operand:
    match operand:
        case Register():
            return _register(operand, shift)
        case Negated(register):
            return Negated(_register(register, shift))
        case PtxSymbol(name, offset):
            return PtxSymbol(names.get(name, name), offset)
        case LabelRef(name, target):
            return LabelRef(name, -1 - target)  # a place in the function's own count, until all of it is appended
        case Vector(items):
            return Vector(tuple(_operand(i, names, shift) for i in items))
        case Pair(first, second):
            return Pair(_operand(first, names, shift), _operand(second, names, shift))
        case Address(base, offset, coordinates, extra):
            moved = _operand(base, names, shift)
            assert isinstance(moved, Register | PtxSymbol | Immediate)
            return Address(
                moved,
                offset,
                tuple(_operand(c, names, shift) for c in coordinates),
                tuple(_operand(e, names, shift) for e in extra),
            )
        case _:
            return operand
