"""Operands of instructions (PTX ISA, "Instruction Operands")."""

from __future__ import annotations

import re

from compiler.emulate.ptx.constants import constant, integer
from compiler.emulate.ptx.errors import PtxError
from compiler.emulate.ptx.lexer import IDENTIFIER, Fail, split
from compiler.emulate.ptx.module import (
    Address,
    Immediate,
    Negated,
    Operand,
    Pair,
    PtxSymbol,
    Register,
    Sink,
    Special,
    Vector,
)
from compiler.emulate.ptx.scope import COMPONENTS, PtxScope

_NAME = re.compile(IDENTIFIER)
_COMPONENT = re.compile(rf"({IDENTIFIER})\.([xyzwrgba])")
_SUM = re.compile(rf"({IDENTIFIER}|[^+\s]\S*?)\s*(?:([+-])\s*(\S.*))?", re.DOTALL)
_LIST = r"\(([^()]*)\)"
_CALL = re.compile(rf"\s*(?:{_LIST}\s*,)?\s*({IDENTIFIER})\s*(?:,\s*{_LIST})?\s*(?:,\s*({IDENTIFIER}))?\s*")
_SINK = Sink()
_WARP_SIZE = Immediate(32)

_SPECIAL = re.compile(
    r"%(?:(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyzw])?"
    r"|laneid|warpid|nwarpid|smid|nsmid|gridid|is_explicit_cluster|cluster_ctarank|cluster_nctarank"
    r"|lanemask_(?:eq|le|lt|ge|gt)|clock|clock_hi|clock64|pm[0-7](?:_64)?|envreg(?:[12]?\d|3[01])"
    r"|globaltimer(?:_lo|_hi)?|reserved_smem_offset_(?:begin|end|cap|[0-9]+)|total_smem_size|aggr_smem_size"
    r"|dynamic_smem_size|current_graph_exec)"
)
"""PTX ISA, "Special Registers"."""


class OperandParser:
    """Reads the operands of one function. `scope` is where names are looked up; `fail` makes the errors."""

    def __init__(self, scope: PtxScope, fail: Fail) -> None:
        self.scope = scope
        self._fail = fail

    def operands(self, text: str) -> tuple[Operand, ...]:
        """All operands of `text`, which stands between name and semicolon. Raises PtxError."""
        parts = self._split(text)
        cache = self.scope.operands
        try:
            return tuple([cache[part] for part in parts])
        except KeyError:
            return tuple([self.operand(part) for part in parts])

    def operand(self, text: str) -> Operand:
        """One operand. Raises PtxError if it is none or names what nobody declared."""
        cache = self.scope.operands
        found = cache.get(text)
        if found is None:
            found = cache[text] = self._operand(text.strip())
        return found

    def call(self, text: str) -> tuple[Operand, ...]:
        """The operands of `call`: Vector of results, callee, Vector of parameters, then the prototype if there is one.

        The callee is a Symbol, or a Register that holds a function's address. Raises PtxError.
        """
        match = _CALL.fullmatch(text)
        if match is None:
            raise self._malformed(text)
        results, callee, params, prototype = match.groups()
        found = (Vector(self.operands(results or "")), self.operand(callee), Vector(self.operands(params or "")))
        return (*found, self.operand(prototype)) if prototype else found

    def register(self, text: str) -> Register:
        """The predicate of a guard. Raises PtxError if it is none."""
        found = self.operand(text)
        if not isinstance(found, Register) or found.type != "pred":
            raise self._fail(f"the guard {text.strip()}", "a predicate register", "Guard with a .pred register.")
        return found

    def _split(self, text: str) -> list[str]:
        parts = split(text)
        if parts is None:
            raise self._malformed(text)
        return parts

    def _malformed(self, text: str) -> PtxError:
        hint = "End the instruction before with a semicolon." if "\n" in text else "Check the brackets and commas."
        return self._fail(repr(" ".join(text.split())[:60]), "operands", hint)

    def _operand(self, text: str) -> Operand:
        if _NAME.fullmatch(text):
            return self._name(text)
        if text == "_":
            return _SINK
        if text.startswith("{") and text.endswith("}"):
            return Vector(self.operands(text[1:-1]))
        if text.startswith("[") and text.endswith("]"):
            return self._address(text[1:-1])
        if text.startswith("!"):
            return self._negated(text)
        found = constant(text)
        if found is not None:
            return found
        if "|" in text:
            return self._pair(text)
        if _SPECIAL.fullmatch(text):
            return Special(text)
        if component := _COMPONENT.fullmatch(text):
            return self._component(*component.groups())
        base, offset = self._sum(text)
        if offset is not None and isinstance(base, PtxSymbol):
            return PtxSymbol(base.name, offset)
        raise self._malformed(text)

    def _name(self, name: str) -> Operand:
        found = self.scope.lookup(name)
        if found is not None:
            return found
        if _SPECIAL.fullmatch(name):
            return Special(name)
        if name == "WARP_SZ":
            return _WARP_SIZE
        if name.startswith("%"):
            raise self._fail(f"the register {name}", "a declared register", "Declare it with .reg.")
        raise self._fail(f"the name {name}", "something declared before", "Declare it, or correct the name.")

    def _negated(self, text: str) -> Operand:
        inner = text[1:].strip()
        found = self.operand(inner) if _NAME.fullmatch(inner) else constant(text)
        if isinstance(found, Register):
            return Negated(found)
        if isinstance(found, Immediate):
            return found
        raise self._malformed(text)

    def _pair(self, text: str) -> Operand:
        names = text.split("|")
        pair = [self.operand(name.strip()) for name in names] if len(names) == 2 else []
        if not pair or any(not isinstance(p, Register | Sink) for p in pair):
            raise self._malformed(text)
        return Pair(*pair)

    def _component(self, name: str, component: str) -> Operand:
        vector = self.scope.lookup(name)
        index = COMPONENTS[component]
        if not isinstance(vector, Vector) or index >= len(vector.items):
            raise self._fail(
                f"{name}.{component}", "an element of a vector register", "Declare it with .reg .v2 or .v4."
            )
        return vector.items[index]

    def _address(self, text: str) -> Operand:
        parts = self._split(text)
        if not parts:
            raise self._malformed(f"[{text}]")
        base, offset = self._sum(parts[0].strip())
        if isinstance(base, Immediate) and base.kind != "int":
            raise self._malformed(f"[{text}]")
        more = tuple(self.operand(part) for part in parts[1:])
        coordinates = elements(more[0]) if more else ()
        extra = tuple(item for operand in more[1:] for item in elements(operand))
        return Address(base, offset or 0, coordinates, extra)

    def _sum(self, text: str) -> tuple[Register | PtxSymbol | Immediate, int | None]:
        """`base`, `base+offset`, `base-offset`, or a constant expression; the offset is None where none is written."""
        value = integer(text)
        if value is not None:
            return Immediate(value), None
        match = _SUM.fullmatch(text)
        if match is None or not _NAME.fullmatch(match[1]):
            component = _COMPONENT.fullmatch(text)
            base = self._component(*component.groups()) if component else None
            if isinstance(base, Register):
                return base, None
            raise self._malformed(text)
        base = self._name(match[1])
        if not isinstance(base, Register | PtxSymbol):
            raise self._malformed(text)
        if match[2] is None:
            return base, None
        offset = integer(match[3])
        if offset is None:
            raise self._malformed(text)
        return base, -offset if match[2] == "-" else offset


def elements(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector operand, or the single one."""
    return operand.items if isinstance(operand, Vector) else (operand,)
