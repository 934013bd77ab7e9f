"""The body of a function: declarations, labels and instructions, in nested scopes."""

from __future__ import annotations

import re
from dataclasses import replace

from compiler.emulate.ptx.constants import integer
from compiler.emulate.ptx.errors import PtxError
from compiler.emulate.ptx.lexer import IDENTIFIER, STATEMENT, Cursor
from compiler.emulate.ptx.module import LabelRef, Operand, PtxInstruction, PtxSymbol, Register, StateSpace, Variable
from compiler.emulate.ptx.operands import OperandParser
from compiler.emulate.ptx.positions import LOC, Positions
from compiler.emulate.ptx.scope import PtxScope
from compiler.emulate.ptx.variables import variables

_REGISTERS = re.compile(r"\s*(?:\.v([248])\s*)?\.(pred|[bsuf](?:8|16|32|64)|b128|f16x2)\s+(.*)", re.DOTALL)
_REGISTER = re.compile(rf"\s*({IDENTIFIER})\s*(?:<\s*(\d{{1,9}})\s*>)?\s*")
_SPACES = {
    f".{s.value}": s
    for s in (StateSpace.GLOBAL, StateSpace.SHARED, StateSpace.CONST, StateSpace.LOCAL, StateSpace.PARAM)
}
_USED_BYTES = re.compile(r'\s*"\s*used_bytes_mask\s+(\w+)\s*"\s*')
_LAST = frozenset({"ret", "exit", "trap"})
_NO_CODE = frozenset({".callprototype", ".calltargets"})


class Body:
    """Reads one body. The cursor stands behind its opening brace, then behind its closing one.

    `taken` are the names that Symbol cannot mean here otherwise: a variable of an inner scope that repeats one of them
    is called `name#2`, and so on, which no PTX name can be.
    """

    def __init__(self, cursor: Cursor, scope: PtxScope, files: dict[int, str], taken: set[str]) -> None:
        self.instructions: list[PtxInstruction] = []
        self.variables: list[Variable] = []
        self.module_variables: list[Variable] = []
        self.branch_tables: dict[str, tuple[int, ...]] = {}
        self._cursor = cursor
        self._scope = scope
        self._operands = OperandParser(scope, self._fail)
        self._positions = Positions(files)
        self._taken = taken
        self._line = 0
        self._used_bytes: int | None = None
        self._names: dict[str, tuple[str, ...]] = {}
        self._branches: list[tuple[int, PtxScope]] = []
        self._tables: list[tuple[str, list[str], PtxScope, int]] = []

    def parse(self) -> None:
        """Reads all of it. Raises PtxError."""
        outermost = self._scope
        cursor = self._cursor
        text, statement = cursor.text, STATEMENT.match
        start = cursor.line(cursor.pos - 1)
        while True:
            match = statement(text, cursor.pos)
            if match is None:
                raise self._no_statement(start)
            cursor.pos = match.end()
            kind = match.lastgroup
            if kind == "rest":
                self._instruction(match)
            elif kind == "directive":
                self._line = cursor.line(match.start(kind))
                self._directive(match[kind])
            elif kind == "label":
                self._line = cursor.line(match.start(kind))
                self._label(match[kind])
            elif kind == "open":
                self._enter(self._scope.inner())
            elif kind == "close":
                if self._scope is outermost:
                    self._line = cursor.line(match.start(kind))
                    break
                assert self._scope.parent is not None
                self._enter(self._scope.parent)
        self._end()

    def _enter(self, scope: PtxScope) -> None:
        self._scope = self._operands.scope = scope

    def _fail(self, found: str, expected: str, fix: str) -> PtxError:
        return PtxError(self._line, found, expected, fix)

    def _no_statement(self, start: int) -> PtxError:
        if self._cursor.at_end:
            return PtxError(start, "a body without end", "its closing brace", "Close the body.")
        return self._cursor.error("an instruction, a label or a directive", "Correct it, or end it with a semicolon.")

    def _instruction(self, match: re.Match[str]) -> None:
        guard_text, written, rest = match.group("guard", "name", "rest")
        self._line = self._cursor.line(match.start("name"))
        name = self._names.get(written)
        if name is None:
            name = self._names[written] = tuple(written.split("."))
        guard: Register | None = None
        negated = False
        if guard_text is not None:
            predicate = guard_text[1:].strip()
            negated = predicate.startswith("!")
            guard = self._operands.register(predicate[1:].strip() if negated else predicate)
        opcode = name[0]
        operands: tuple[Operand, ...]
        if opcode == "bra":
            operands = (LabelRef(rest.strip(), -1),)
            self._branches.append((len(self.instructions), self._scope))
        elif opcode == "call":
            operands = self._operands.call(rest)
        else:
            operands = self._operands.operands(rest)
        text = " ".join((written + rest).split())
        self.instructions.append(
            PtxInstruction(name, operands, self._line, text, guard, negated, self._positions.current, self._used_bytes)
        )
        self._used_bytes = None

    def _label(self, name: str) -> None:
        cursor = self._cursor
        match = STATEMENT.match(cursor.text, cursor.pos)
        word = match["directive"] if match is not None else None
        if word == ".branchtargets":
            cursor.pos = match.end() if match else cursor.pos
            unique = self._declare(name)
            targets = [t.strip() for t in cursor.until(";", word).split(",")]
            self._tables.append((unique, targets, self._scope, self._line))
        elif word in _NO_CODE:
            cursor.until(";", word)
            self._declare(name)
        else:
            self._scope.declare_label(name, len(self.instructions), self._fail)

    def _declare(self, name: str) -> str:
        """Declares a symbol here; its name, made unique in the function."""
        unique, n = name, 1
        while unique in self._taken:
            n += 1
            unique = f"{name}#{n}"
        self._taken.add(unique)
        self._scope.declare_symbol(name, PtxSymbol(unique), self._fail)
        return unique

    def _directive(self, word: str) -> None:
        cursor = self._cursor
        if word == ".loc":
            text = cursor.rest_of_line()
            match = LOC.fullmatch(text)
            if match is None:
                raise self._fail(repr(f".loc {text}"), "file, line and column", "Write .loc 1 20 3.")
            self._positions.loc(match)
        elif word == ".reg":
            self._registers(cursor.until(";", word))
        elif word in _SPACES:
            self._variables(_SPACES[word], cursor.until(";", word))
        elif word == ".pragma":
            self._pragma(cursor.until(";", word))
        elif word == ".file":
            cursor.rest_of_line()
        elif word == ".section":
            cursor.until("{", word)
            cursor.pos -= 1
            cursor.skip_braces()
        else:
            raise self._fail(word, "a directive of a body", "Correct or remove it.")

    def _pragma(self, text: str) -> None:
        """Of the pragmas one changes what an instruction means: which bytes of the next load the program looks at, as
        NVRTC says of loads that take in the padding of a struct."""
        match = _USED_BYTES.fullmatch(text)
        if match is not None:
            self._used_bytes = integer(match[1])

    def _registers(self, text: str) -> None:
        match = _REGISTERS.fullmatch(text)
        if match is None:
            raise self._fail(f".reg {text.strip()}", "a type and names", "Write .reg .b32 %r<8>;")
        width, type_ = int(match[1] or 0), match[2]
        for piece in match[3].split(","):
            name = _REGISTER.fullmatch(piece)
            if name is None:
                raise self._fail(repr(piece.strip()), "the name of a register", "Write .reg .b32 %r<8>;")
            if name[2] is None:
                self._scope.declare_register(name[1], type_, width, self._fail)
            else:
                self._scope.declare_range(name[1], int(name[2]), type_, width, self._fail)

    def _variables(self, space: StateSpace, text: str) -> None:
        into = self.module_variables if space in (StateSpace.GLOBAL, StateSpace.CONST) else self.variables
        for variable in variables(space, text, self._fail):
            into.append(replace(variable, name=self._declare(variable.name)))

    def _end(self) -> None:
        """Resolves the labels. What runs off the end of a body returns, as with `ret`."""
        instructions = self.instructions
        end = len(instructions)
        for index, scope in self._branches:
            insn = instructions[index]
            assert isinstance(insn.operands[0], LabelRef)
            name = insn.operands[0].name
            target = self._target(scope, name, insn.ptx_line)
            instructions[index] = replace(insn, operands=(LabelRef(name, target),))
        for name, labels, scope, line in self._tables:
            self.branch_tables[name] = tuple(self._target(scope, label, line) for label in labels)
        last = instructions[-1] if instructions else None
        falls_off = last is None or last.guard is not None or last.opcode not in (*_LAST, "bra")
        targets = {
            i.operands[0].target for i in instructions if i.opcode == "bra" and isinstance(i.operands[0], LabelRef)
        }
        if falls_off or end in targets or any(end in table for table in self.branch_tables.values()):
            instructions.append(PtxInstruction(("ret",), (), self._line, "ret", source=self._positions.current))

    def _target(self, scope: PtxScope, name: str, line: int) -> int:
        target = scope.label(name)
        if target is None:
            raise PtxError(line, f"a branch to {name or 'nowhere'}", "a label of this function", "Set the label.")
        return target
