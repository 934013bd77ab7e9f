"""Names and where they hold: `{ }` of inline assembly declares its own registers, variables and labels."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from compiler.emulate.ptx.lexer import Fail
from compiler.emulate.ptx.module import Operand, PtxSymbol, Register, Vector

_NUMBERED = re.compile(r"(0|[1-9]\d{0,8})$")
_DIGITS = "0123456789"
COMPONENTS = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}
"""The elements of a vector register (PTX ISA, "Vectors as Operands")."""


@dataclass(frozen=True, slots=True)
class _Declared:
    """A register that nobody has named yet. `width` is the elements of a vector, 0 for a scalar."""

    type: str
    width: int


class Registers:
    """The registers of a function that are used, numbered in the order of their first use.

    NVRTC declares ranges with many unused numbers; those get no storage.
    """

    def __init__(self) -> None:
        self.used: list[Register] = []

    def new(self, name: str, type_: str) -> Register:
        """Numbers another register."""
        register = Register(name, type_, len(self.used))
        self.used.append(register)
        return register


@dataclass(slots=True)
class PtxScope:
    """The names of one `{ }`: registers, variables, labels share one set. `parent` is what encloses it.

    `operands` caches what a written operand means here.
    """

    registers: Registers
    parent: PtxScope | None = None
    labels: dict[str, int] = field(default_factory=dict)
    operands: dict[str, Operand] = field(default_factory=dict)
    _names: dict[str, Register | Vector | PtxSymbol | _Declared] = field(default_factory=dict)
    _ranges: dict[str, tuple[int, _Declared]] = field(default_factory=dict)

    def inner(self) -> PtxScope:
        """A scope inside this one."""
        return PtxScope(self.registers, self)

    def declare_register(self, name: str, type_: str, width: int, fail: Fail) -> None:
        """Declares one register; `width` 2 or 4 for a vector, else 0. Raises PtxError if the name is taken here."""
        self._new(name, fail)
        self._names[name] = _Declared(type_, width)

    def declare_range(self, prefix: str, count: int, type_: str, width: int, fail: Fail) -> None:
        """Declares `prefix<count>`, the registers prefix0 to prefix(count-1). Raises PtxError if one is there."""
        if prefix in self._ranges:
            raise fail(f"the registers {prefix}<{count}> again", "one declaration", "Remove or rename one of them.")
        for name in self._names:
            if name.startswith(prefix) and _is_number(name[len(prefix) :], count):
                raise fail(f"{name} again, in {prefix}<{count}>", "one declaration", "Remove or rename one of them.")
        self._ranges[prefix] = count, _Declared(type_, width)
        self.operands.clear()

    def declare_symbol(self, name: str, symbol: PtxSymbol, fail: Fail) -> None:
        """Declares what is called `name` here. Raises PtxError if the name is taken here."""
        self._new(name, fail)
        self._names[name] = symbol

    def declare_label(self, name: str, target: int, fail: Fail) -> None:
        """Sets a label. Raises PtxError if the name is taken here."""
        if name in self.labels or self._find(name) is not None:
            raise fail(f"the label {name} again", "one label of that name in a scope", "Rename one of them.")
        self.labels[name] = target

    def lookup(self, name: str) -> Register | Vector | PtxSymbol | None:
        """What a name means here: innermost first. A vector register is the Vector of its elements."""
        scope: PtxScope | None = self
        while scope is not None:
            found = scope._find(name)
            if found is not None:
                return found if not isinstance(found, _Declared) else scope._materialise(name, found)
            scope = scope.parent
        return None

    def label(self, name: str) -> int | None:
        """Where a branch to `name` goes: innermost label first; None if there is none."""
        scope: PtxScope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None

    def _new(self, name: str, fail: Fail) -> None:
        if name in self.labels or self._find(name) is not None:
            raise fail(
                f"{name} declared again", "one declaration of a name in a scope", "Remove or rename one of them."
            )
        self.operands.clear()

    def _find(self, name: str) -> Register | Vector | PtxSymbol | _Declared | None:
        found = self._names.get(name)
        if found is not None or not self._ranges or name[-1] not in _DIGITS:
            return found
        for cut in range(len(name.rstrip(_DIGITS)), len(name)):
            of_range = self._ranges.get(name[:cut])
            if of_range is not None and _is_number(name[cut:], of_range[0]):
                return of_range[1]
        return None

    def _materialise(self, name: str, declared: _Declared) -> Register | Vector:
        new = self.registers.new
        made: Register | Vector
        if declared.width:
            made = Vector(tuple(new(f"{name}.{'xyzw'[k]}", declared.type) for k in range(declared.width)))
        else:
            made = new(name, declared.type)
        self._names[name] = made
        return made


def _is_number(digits: str, count: int) -> bool:
    return _NUMBERED.match(digits) is not None and int(digits) < count
