"""What loads, stores and atomics have in common: space, type and vector length from the words of a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.ptx.module import Address, Operand, PtxInstruction, PtxSymbol, StateSpace

_SPACES = {
    "global": StateSpace.GLOBAL,
    "shared": StateSpace.SHARED,
    "shared::cta": StateSpace.SHARED,
    "shared::cluster": StateSpace.SHARED,
    "local": StateSpace.LOCAL,
    "const": StateSpace.CONST,
    "param": StateSpace.PARAM,
    "param::entry": StateSpace.PARAM,
    "param::func": StateSpace.PARAM,
}
_COUNTS = {"v2": 2, "v4": 4, "v8": 8}
_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
_ORDERED = frozenset({"acquire", "release", "acq_rel"})


@dataclass(frozen=True, slots=True)
class AccessForm:
    """The form of an access: `count` elements of `type` (b8 … b128, f16x2, …), `nbytes` each.

    `is_strong` and `semantics` as in the PTX ISA, "Memory Consistency Model": weak accesses race.
    """

    space: StateSpace
    type: str
    nbytes: int
    count: int
    is_strong: bool
    semantics: str


def access_form(insn: PtxInstruction, binder: Binder, place: Operand) -> AccessForm:
    """Reads the form off the name of `insn`; `place` is its address operand. Raises UnknownForm for odd ones."""
    words = insn.name[1:]
    space = next((_SPACES[w] for w in words if w in _SPACES), StateSpace.GENERIC)
    if space is StateSpace.PARAM and _is_own_param(binder, place):
        space = StateSpace.LOCAL
    kind = words[-1]
    return AccessForm(
        space,
        kind,
        type_bytes(kind),
        next((_COUNTS[w] for w in words if w in _COUNTS), 1),
        not _STRONG.isdisjoint(words),
        next((w for w in words if w in _ORDERED), "relaxed"),
    )


def type_bytes(kind: str) -> int:
    """Bytes of a PTX type such as u32, f16x2, b128. Raises UnknownForm for what is none."""
    digits = kind.lstrip("abcdefghijklmnopqrstuvwyz")
    base, _, times = digits.partition("x")
    if not base.isdigit() or (times and not times.isdigit()):
        raise UnknownForm(f"the type .{kind} of an access")
    return int(base) * int(times or 1) // 8


def element_dtype(kind: str) -> np.dtype[Any]:
    """How an element widens into a larger register: with its sign if it is signed, else with zeros."""
    return np.dtype(f"{'i' if kind.startswith('s') else 'u'}{type_bytes(kind)}")


def _is_own_param(binder: Binder, place: Operand) -> bool:
    """Whether an address names a `.param` variable declared in a body: those pass arguments of calls."""
    return (
        isinstance(place, Address)
        and isinstance(place.base, PtxSymbol)
        and any(v.name == place.base.name for v in binder.function.variables)
    )
